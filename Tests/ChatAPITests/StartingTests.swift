import ChatCache
import MicroHTTP
import Testing

@testable import ChatAPI

/// The answers before there is a cache (B63).
@Suite struct StartingTests {
  @Test("B63: while the database migrates, readiness says how far, and everything else is a 503")
  func migrating() throws {
    let status = ServiceStatus()
    let server = try Server(Configuration(listen: ListenAddress(host: "127.0.0.1", port: 0)))
    try server.start(Routes.starting(status), otherwise: Routes.notYet)
    defer { server.shutDown(withinSeconds: 1) }
    status.migrates(MigrationProgress(from: 1, to: 3, percent: 50))
    let ready = ask(server, "/readyz")
    #expect(ready.status == 503)
    #expect(
      ready.body == #"{"status":"migrating","mode":"sqlite","upstream":"unknown","reasons":[],"#
        + #""from":1,"to":3,"percent":50}"#)
    #expect(ask(server, "/healthz").status == 200)
    for path in ["/v1/channels", "/v1/connection", "/openapi.yaml", "/nowhere"] {
      let answer = ask(server, path)
      #expect(answer.status == 503 && answer.body.contains(#""code":"starting""#), "\(path)")
      #expect(answer.head.contains("Retry-After: 1"))
    }
    status.becomeReady()
    server.serve([Route(.get, "/later", operation: "later") { _ in .respond(.text("here", status: 200)) }])
    #expect(ask(server, "/later").body == "here")
    #expect(ask(server, "/nowhere").status == 404)
  }
}
