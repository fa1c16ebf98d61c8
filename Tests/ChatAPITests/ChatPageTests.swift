import Glibc
import MicroHTTP
import TestSupport
import Testing

@testable import ChatAPI

/// The chat page and its files, as the service serves them.
@Suite struct ChatPageTests {
  private func serving(_ page: ChatPage, _ body: (Server) throws -> Void) throws {
    let server = try Server(Configuration(listen: ListenAddress(host: "127.0.0.1", port: 0)))
    try server.start(page.routes)
    defer { server.shutDown(withinSeconds: 1) }
    try body(server)
  }

  @Test("the page runs its own files alone, and shows pictures of the operator's origins")
  func policy() throws {
    try serving(ChatPage(fileOrigins: ["https://files.example.org"], hasReference: true)) { server in
      let page = ask(server, "/")
      let policy = try #require(page["Content-Security-Policy"])
      for part in [
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'",
        "img-src 'self' blob: https://files.example.org", "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
      ] {
        #expect(policy.split(separator: ";").contains { $0.drop { $0 == " " } == part[...] }, "\(part)")
      }
      #expect(page["Referrer-Policy"] == "no-referrer" && page["X-Content-Type-Options"] == "nosniff")
      #expect(page.body.contains(#"name="file-origins" content="https://files.example.org""#))
      #expect(page.body.contains("href=\"/docs\""))
      // The page has no inline scripts or styles, and all its files are the service's own.
      #expect(page.body.matches(of: #/<style| style=| on[a-z]+=/#).isEmpty)
      for match in page.body.matches(of: #/(?:src|href)="([^"]+)"/#) {
        #expect(["/page.css", "/page.js", "/icon.svg", "/docs", "/openapi.yaml"].contains(match.1))
      }
    }
  }

  @Test("where the contract is elsewhere the page has no link to it")
  func withoutReference() throws {
    try serving(ChatPage(fileOrigins: [], hasReference: false)) { server in
      let page = ask(server, "/")
      #expect(page.status == 200 && !page.body.contains("/docs") && !page.body.contains("/openapi.yaml"))
    }
  }

  @Test("a browser that has a file gets 304")
  func tags() throws {
    try serving(ChatPage(fileOrigins: [], hasReference: true)) { server in
      var tags: Set<String> = []
      for path in ["/", "/page.css", "/page.js", "/icon.svg"] {
        let tag = try #require(ask(server, path)["ETag"])
        let again = ask(server, path, headers: ["If-None-Match": tag])
        #expect(again.status == 304 && again.body.isEmpty && again["ETag"] == tag)
        tags.insert(tag)
      }
      #expect(tags.count == 4)
    }
  }

  @Test("the script is one module, which imports client.js alone")
  func script() {
    let lines = String(decoding: ChatPage.script, as: UTF8.self).split(separator: "\n")
    #expect(lines.count > 1_000)
    let imports = lines.filter { $0.hasPrefix("import ") }
    #expect(imports.count == 1 && imports[0].contains("from \"/client.js\""))
    #expect(!lines.contains { $0.hasPrefix("export ") })
  }

  @Test("the page takes at most 100 KB as it is served, with client.js")
  func size() throws {
    try serving(ChatPage(fileOrigins: [], hasReference: true)) { server in
      var bytes = try #require(Gzip.compressed(PackageResources.client_js)).count
      for path in ["/", "/page.css", "/page.js", "/icon.svg"] {
        let answer = ask(server, path, headers: ["Accept-Encoding": "gzip"])
        bytes += try #require(answer["Content-Length"].flatMap { Int($0) })
      }
      #expect(bytes > 20 * 1024 && bytes <= 100 * 1024)
    }
  }

  @Test("client.js is at most 12 KB")
  func client() { #expect(PackageResources.client_js.count <= 12 * 1024) }
}
