import Glibc
import MicroHTTP
import TestSupport
import Testing

@testable import ChatAPI

/// The contract's pages: the reference, the problems, the start page.
@Suite struct ContractPagesTests {
  private func serving(_ body: (Server) throws -> Void) throws {
    let server = try Server(Configuration(listen: ListenAddress(host: "127.0.0.1", port: 0)))
    try server.start(ContractRoutes.routes() + [ContractRoutes.startPage(hasReference: true)])
    defer { server.shutDown(withinSeconds: 1) }
    try body(server)
  }

  @Test("the reference names every operation, without outside assets")
  func reference() throws {
    try serving { server in
      let page = ask(server, "/docs")
      #expect(page.status == 200 && page["Content-Type"] == "text/html; charset=utf-8")
      for operation in ["listMessages", "connect", "receiveSendbirdWebhook", "getMetrics"] {
        #expect(page.body.contains("<h3 id=\"\(operation)\">"), "\(operation)")
      }
      #expect(page.body.contains("/v1/channels/{channel_url}/messages"))
      // Each link within the page has a target.
      let targets = Set(page.body.matches(of: #/ id="([^"]+)"/#).map(\.1))
      let links = Set(page.body.matches(of: #/href="\#([^"]+)"/#).map(\.1))
      #expect(links.count > 40 && links.isSubset(of: targets), "\(links.subtracting(targets))")
      let send = try #require(page.body.firstMatch(of: #/<h3 id="sendMessage">/#))
      let section = page.body[send.range.upperBound...].prefix(8_000)
      for part in ["object-NewMessage", "multipart/form-data", "Idempotency-Key", "<details>", "#getMessage"]
      {
        #expect(section.contains(part), "\(part)")
      }
      #expect(page.body.split(separator: "src=").count == 2 && page.body.contains(#"src="/docs.js""#))
      #expect(!page.body.contains("@import") && !page.body.contains("<link"))
      #expect(ask(server, "/docs.js").status == 200)
      let policy = try #require(page["Content-Security-Policy"])
      #expect(policy.contains("default-src 'none'") && policy.contains("connect-src 'self'"))
    }
  }

  @Test("every problem has a page, and one that does not exist is a problem itself")
  func problems() throws {
    try serving { server in
      for entry in ProblemTable.all {
        let page = ask(server, "/problems/\(entry.code)")
        #expect(page.status == 200 && page.body.contains("\(entry.status) \(entry.code)"), "\(entry.code)")
        #expect(page.body.contains("&quot;code&quot;: &quot;\(entry.code)&quot;,\n"), "\(entry.code)")
      }
      // Each code has its own explanation.
      #expect(Set(ProblemTable.all.map(\.cause)).count == ProblemTable.all.count)
      #expect(ask(server, "/problems/nothing").status == 404)
    }
  }

  @Test("every code the sources answer with is in the table, with its status")
  func complete() throws {
    let root = #filePath.split(separator: "/").dropLast(3).joined(separator: "/")
    var codes: Set<String> = []
    for folder in ["ChatAPI", "MicroHTTP", "perch"] {
      let pipe = try #require(
        popen("cat $(find '/\(root)/Sources/\(folder)' -name '*.swift') | tr '\\n' ' '", "r"))
      defer { pclose(pipe) }
      var text: [UInt8] = []
      var room = [UInt8](repeating: 0, count: 65_536)
      while case let count = fread(&room, 1, room.count, pipe), count > 0 { text += room[..<count] }
      let source = String(decoding: text, as: UTF8.self)
      for match in source.matches(of: #/(?:Problem|self\.init)\(\s*([0-9]{3}),\s*"([a-z_]+)"/#) {
        codes.insert("\(match.1) \(match.2)")
      }
    }
    let known = Set(ProblemTable.all.map { "\($0.status) \($0.code)" })
    #expect(codes.count > 25 && codes.isSubset(of: known), "\(codes.subtracting(known).sorted())")
  }

  @Test("the first page says where to go")
  func start() throws {
    try serving { server in
      let page = ask(server, "/")
      #expect(page.status == 200 && page.body.contains("href=\"/docs\""))
      #expect(ask(server, "/openapi.json").body.hasPrefix("{\"openapi\":\"3.1.0\""))
    }
  }
}
