import ChatModel
import Glibc
import JSON
import MicroHTTP
import Platform
import TestSupport
import Testing

@testable import ChatAPI

/// Numbers in requests at both ends of Int64 and beyond, in every parameter, path, header and body field that
/// the contract names.
@Suite(.timeLimit(.minutes(5)))
struct NumberRequestTests {
  private static let ends = [
    "-9223372036854775809", "-9223372036854775808", "-1", "0", "-0", "-0.0", "1.5", "9223372036854775807",
    "9223372036854775808", "18446744073709551616", "1e308", "99999999999999999999999999999999", "null", "",
    "+1", " 1", "0x10", "9999999999999999", "%00", "NaN", "7fffffffffffffff-ffffffffffffffff",
    "ffffffffffffffff-ffffffffffffffff", "0000000000000000-0000000000000000",
    "0000000000000000.9223372036854775807.9223372036854775807", "0000000000000000.1.0",
  ]

  /// The contract's operations with their path and query parameters.
  private struct Operation {
    let method: String
    let path: String
    let query: [String]
    let hasBody: Bool
  }

  private static func operations(_ server: Server) throws -> [Operation] {
    let bytes = Array(ChatAPITests.ask(server, "/openapi.json").body.utf8)
    return try bytes.withUnsafeBytes { bytes in
      try JSONParser().parse(bytes) { root in
        var found: [Operation] = []
        let shared = root["components"]?["parameters"]
        for path in root["paths"]!.fields {
          let text = String(decoding: path.name, as: UTF8.self)
          for operation in path.value.fields {
            let method = String(decoding: operation.name, as: UTF8.self).uppercased()
            guard ["GET", "PUT", "POST", "DELETE"].contains(method) else { continue }
            let query = (operation.value["parameters"]?.items ?? JSONValue.Items()).compactMap {
              parameter -> String? in
              let name = parameter["$ref"]?.string?.split(separator: "/").last.map(String.init)
              let whole = name.flatMap { shared?.field(named: $0) } ?? parameter
              return whole["in"]?.string == "query" ? whole["name"]?.string : nil
            }
            found.append(
              Operation(
                method: method, path: text, query: query, hasBody: operation.value["requestBody"] != nil))
          }
        }
        return found
      }
    }
  }

  private func world() throws -> CollectionWorld {
    let world = try CollectionWorld()
    try world.join("alice", "general", name: "General", last: 100)
    for id in 1...5 as ClosedRange<Int64> { try world.send(id, in: "general") }
    return world
  }

  /// Paths that are not requested, because they wait or stream without end.
  private static let endless: Set<String> = ["/v1/events", "/v1/admin/events"]

  @Test("any number in any query parameter or path of the contract is answered, and never a 500")
  func parametersAndPaths() throws {
    let world = try world()
    defer { world.stop() }
    let line = NumberLine(world.server)
    var asked = 0
    for operation in try Self.operations(world.server) where !operation.path.hasPrefix("/demo") {
      for end in Self.ends {
        let value = Self.encoded(end)
        var paths = operation.query.map { name in
          Self.filled(operation.path, "general") + "?\(name)=\(value)"
            + (name == "wait" ? "" : Self.brief(operation))
        }
        if operation.path.contains("{") {
          paths.append(Self.filled(operation.path, value.isEmpty ? "x" : value))
          paths.append(
            operation.path.replacingParts("{channel_url}", "general").replacingParts(
              nil, value.isEmpty ? "x" : value))
        }
        for path in paths where !Self.endless.contains(operation.path) {
          let status = line.ask(operation.method, path, body: operation.hasBody ? "{}" : "")
          #expect(
            (200..<500).contains(status) || status == 503 || status == 507,
            "\(operation.method) \(path): \(status)")
          asked += 1
        }
      }
    }
    #expect(asked > 1_000, "\(asked) requests were asked")
    #expect(line.ask("GET", "/healthz") == 200)
  }

  @Test("any number in Prefer, Range, Last-Event-ID, If-None-Match and a body's fields is answered")
  func headersAndBodies() throws {
    let world = try world()
    defer { world.stop() }
    let line = NumberLine(world.server)
    for end in Self.ends where end != "%00" {
      for header in [
        "Prefer: wait=\(end == "9223372036854775807" ? "0" : end)", "Range: bytes=\(end)-\(end)",
        "Range: bytes=-\(end)", "Range: bytes=\(end)-", "If-None-Match: \"\(end)\"", "If-Match: \"\(end)\"",
        "Last-Event-ID: \(end)", "Content-Length: 0",
      ] {
        let status = line.ask("GET", "/v1/channels/general/messages?limit=2", headers: header + "\r\n")
        #expect((200..<500).contains(status), "\(header): \(status)")
      }
      let bare = end.isEmpty || end.contains("-f") ? "null" : end
      for number in [bare, "\"\(end)\""] {
        for field in [
          "limit", "created_before", "created_after", "previous_size", "next_size", "starting_point",
          "parent_message_id", "channel_url",
        ] {
          for path in ["/v1/channel-collections", "/v1/message-collections"] {
            let body = #"{"channel_url":"general","\#(field)":\#(number)}"#
            let status = line.ask("POST", path, body: body)
            #expect((200..<500).contains(status) || status == 503, "\(path) \(body): \(status)")
          }
        }
      }
    }
    #expect(line.ask("GET", "/healthz") == 200)
  }

  /// The parameter that keeps an operation from waiting.
  private static func brief(_ operation: Operation) -> String {
    operation.query.contains("wait") ? "&wait=0" : ""
  }

  private static func filled(_ path: String, _ value: String) -> String { path.replacingParts(nil, value) }

  private static func encoded(_ text: String) -> String {
    text.replacingParts(" ", "%20").replacingParts("+", "%2B")
  }
}

/// A connection that is opened again when the server has closed it.
private final class NumberLine {
  private let server: Server

  init(_ server: Server) { self.server = server }

  func ask(_ method: String, _ path: String, headers: String = "", body: String = "") -> Int {
    let socket = Loopback.connect(port: server.port)
    guard socket >= 0 else { return 0 }
    defer { close(socket) }
    let type = body.isEmpty ? "" : "Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n"
    let request =
      "\(method) \(path) HTTP/1.1\r\nHost: x\r\nPerch-User: alice\r\nConnection: close\r\n\(headers)\(type)\r\n\(body)"
    _ = send(socket, request, request.utf8.count, Int32(MSG_NOSIGNAL))
    var room = [UInt8](repeating: 0, count: 256)
    let count = recv(socket, &room, room.count, 0)
    guard count > 12 else { return 0 }
    return Int(String(decoding: room[9..<12], as: UTF8.self)) ?? 0
  }
}

extension String {
  /// The text with `value` for each `part`; nil: for each name in braces.
  fileprivate func replacingParts(_ part: String?, _ value: String) -> String {
    guard let part else {
      return split(separator: "/", omittingEmptySubsequences: false)
        .map { $0.hasPrefix("{") ? value : String($0) }.joined(separator: "/")
    }
    return split(separator: part, omittingEmptySubsequences: false).joined(separator: value)
  }
}
