import ChatCache
import Glibc
import MicroHTTP
import Platform
import TestSupport
import Testing

@testable import ChatAPI

/// The webhook's route on a real server.
@Suite(.serialized, .timeLimit(.minutes(5)))
struct WebhookTests {
  private let syncRequests = ScriptedSync()
  private let server: Server
  private static let body = #"{"category":"group_channel:message_send"}"#

  init() throws {
    server = try Server(Configuration(listen: ListenAddress(host: "127.0.0.1", port: 0)))
    try server.start(SendbirdWebhookRoute.routes(syncRequests, WebhookSignature(secret: "key")))
  }

  /// The status and body of the answer to a POST over a connection of its own.
  private func post(_ body: String, signature: String?) -> (status: Int, text: String) {
    let socket = Loopback.connect(port: server.port)
    guard socket >= 0 else { return (0, "") }
    defer { close(socket) }
    let signed = signature.map { "x-sendbird-signature: \($0)\r\n" } ?? ""
    let request =
      "POST /v1/webhooks/sendbird HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
      + "Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\(signed)\r\n\(body)"
    _ = send(socket, request, request.utf8.count, Int32(MSG_NOSIGNAL))
    var answer: [UInt8] = []
    var room = [UInt8](repeating: 0, count: 4096)
    while case let count = recv(socket, &room, room.count, 0), count > 0 { answer += room[..<count] }
    let text = String(decoding: answer, as: UTF8.self)
    return (text.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0, text)
  }

  private func signature(_ body: String, key: String = "key") -> String {
    guard let signature = WebhookSignature(secret: key) else { return "" }
    return String(decoding: Array(body.utf8).withUnsafeBytes { signature.sign($0) }, as: UTF8.self)
  }

  @Test("B61: the signature is the HMAC-SHA256 that others make of the same bytes")
  func knownVector() {
    let text = "The quick brown fox jumps over the lazy dog"
    #expect(signature(text) == "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8")
  }

  @Test("B34: a signed webhook is answered with 200 once it is noted, and not before")
  func accepted() {
    syncRequests.tell { $0.isHolding = true }
    let answered = Watched(0)
    let thread = Thread("webhook") {
      let status = post(WebhookTests.body, signature: signature(WebhookTests.body)).status
      answered.update { $0 = status }
    }
    #expect(syncRequests.wait { $0 == .takeWebhook(Array(WebhookTests.body.utf8)) })
    #expect(answered.read { $0 } == 0, "it waits for the note")
    syncRequests.release()
    thread.join()
    #expect(answered.read { $0 } == 200)
    server.shutDown(withinSeconds: 1)
  }

  @Test("B61: /readyz tells that webhooks are not signed with the secret that was guessed, until one is")
  func guessed() throws {
    let body = WebhookTests.body
    func reasons(_ signature: WebhookSignature) throws -> Bool {
      let server = try Server(Configuration(listen: ListenAddress(host: "127.0.0.1", port: 0)))
      let status = ServiceStatus()
      status.becomeReady()
      try server.start(HealthRoutes.routes(status, syncRequests, nil, signature))
      defer { server.shutDown(withinSeconds: 1) }
      let socket = Loopback.connect(port: server.port)
      defer { close(socket) }
      let request = "GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
      _ = send(socket, request, request.utf8.count, Int32(MSG_NOSIGNAL))
      var answer: [UInt8] = []
      var room = [UInt8](repeating: 0, count: 4096)
      while case let count = recv(socket, &room, room.count, 0), count > 0 { answer += room[..<count] }
      let text = String(decoding: answer, as: UTF8.self)
      #expect(text.hasPrefix("HTTP/1.1 200"))
      return text.contains("webhook_secret")
    }
    func deliver(_ signature: WebhookSignature, key: String) {
      let given = Array(self.signature(body, key: key).utf8)
      _ = given.withUnsafeBytes { given in
        Array(body.utf8).withUnsafeBytes { signature.isGood(given, of: $0) }
      }
    }
    let guessed = try #require(WebhookSignature(secret: "token", isGuessed: true))
    #expect(try !reasons(guessed), "no webhook came yet")
    deliver(guessed, key: "other")
    #expect(try reasons(guessed))
    deliver(guessed, key: "token")
    #expect(try !reasons(guessed))
    let own = try #require(WebhookSignature(secret: "token"))
    deliver(own, key: "other")
    #expect(try !reasons(own), "the secret was given: whoever signs otherwise is somebody else")
    server.shutDown(withinSeconds: 1)
  }

  @Test("B61: no signature, another key's, another body's and one cut short are a 401, and nothing is noted")
  func refused() {
    let body = WebhookTests.body
    let bad = [
      nil, signature(body, key: "other"), signature(body + " "), String(signature(body).dropLast()), "",
    ]
    for given in bad { #expect(post(body, signature: given).status == 401) }
    #expect(syncRequests.calls.isEmpty)
    server.shutDown(withinSeconds: 1)
  }

  @Test("B34: what could not be noted is a 503, so that it comes again; what is no webhook is a 400")
  func failures() {
    syncRequests.tell { $0.onWebhook = { _ in .failure(.storage(reason: "disk full")) } }
    let full = post(WebhookTests.body, signature: signature(WebhookTests.body))
    #expect(full.status == 503 && full.text.contains("Retry-After: 1"))
    syncRequests.tell { $0.onWebhook = { _ in .failure(.unreadable(field: nil)) } }
    let list = post("[]", signature: signature("[]"))
    #expect(list.status == 400 && list.text.contains(#""code":"unreadable_body""#))
    #expect(list.text.contains("JSON object") && list.text.contains("`category`"), "it names what to give")
    syncRequests.tell { $0.onWebhook = { _ in .failure(.unreadable(field: "category")) } }
    let empty = post("{}", signature: signature("{}"))
    #expect(empty.status == 400 && empty.text.contains(#""code":"invalid_request""#))
    #expect(empty.text.contains(#""errors":[{"field":"category""#))
    server.shutDown(withinSeconds: 1)
  }
}
