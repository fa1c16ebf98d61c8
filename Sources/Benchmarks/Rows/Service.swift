import ChatCache
import Glibc

extension Row {
  /// P1 and P2: the service itself, with a token, the contract's headers and the access log.
  static let service = Row(
    name: "service", work: "the service out of its cache, with a token, against plain C"
  ) { bench in
    let service = try ServiceUnderLoad()
    let numbers = (0..<400).map { $0 * 7919 }
    let paths = numbers.map { service.path($0 % 100, after: $0 % 960) }
    let headers = [(name: "Authorization", value: service.authorization)]
    let tags = try paths.map { try service.tag($0) }
    let pages = try RequestTurns(paths.map { ($0, headers) })
    let known = try RequestTurns(
      zip(paths, tags).map { path, tag in (path, headers + [(name: "If-None-Match", value: tag)]) })
    let rows = try RequestTurns(numbers.map { ("/rows?limit=30&after=\($0)", headers) })
    let same = try RequestTurns(
      numbers.map { ("/e304?limit=30&after=\($0)", headers + [(name: "If-None-Match", value: "\"v1\"")]) })
    return try Pairs.load(
      bench, title: "GET …/messages", service.server, .init(pages), peer: .init(rows), rate: .atLeast(0.85),
      cost: .atMost(1.2))
      + Pairs.load(
        bench, title: "GET …/messages, 304", service.server, .init(known), peer: .init(same),
        rate: .atLeast(0.8), cost: nil)
  }
}

/// The service over 100 channels of 1000 messages, with a live tail.
private final class ServiceUnderLoad {
  private static let port = 18_240
  private let folder: ScratchFolder
  let server: TestedServer
  let authorization: String
  private let line: KeptConnection

  init() throws {
    folder = try ScratchFolder("service")
    server = try TestedServer(
      "ours",
      ["/proc/self/exe", "serve-feed", "\(ServiceUnderLoad.port)", "0", folder.path + "/views", "100"],
      port: ServiceUnderLoad.port)
    authorization = try FeedServer.authorization(FilledCache.user)
    line = try KeptConnection(
      port: ServiceUnderLoad.port, headers: "Authorization: \(authorization)\r\n")
    let answer = try line.ask("GET", path(7, after: 555))
    guard answer.body.utf8.count > 30 * 400 else {
      throw BenchFailure(description: "the service does not give its page: \(answer.body.prefix(200))")
    }
  }

  deinit { server.child.stop() }

  /// The path of the 30 messages of a channel after the message `number`.
  func path(_ channel: Int, after number: Int) -> String {
    "/v1/channels/\(FilledCache.url(channel).text)/messages?limit=30&after=\(FilledCache.position(number))"
  }

  /// The answer's `ETag`.
  func tag(_ path: String) throws -> String {
    let head = try line.ask("GET", path).head
    guard let line = head.split(separator: "\r\n").first(where: { $0.lowercased().hasPrefix("etag:") }) else {
      throw BenchFailure(description: "\(path) has no tag: \(head)")
    }
    return String(line.dropFirst(5).drop { $0 == " " })
  }
}
