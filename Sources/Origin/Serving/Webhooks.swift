import CCurl
import CSodium
import Platform

/// Sends webhooks in their order from a bounded queue in memory, each up to three times. What does not fit is
/// dropped with a line of log: a receiver must live with lost webhooks anyway.
final class Webhooks: Sendable {
  private static let waitingLimit = 10_000
  private static let tries = 3

  private struct State {
    var waiting: [String] = []
    var isStopping = false
  }

  private let state = Watched(State())
  private let thread: Guarded<Thread?> = Guarded(nil)

  init(url: String, secret: String) {
    let state = state
    let started = Thread("webhooks") {
      while true {
        let next: String?? = state.wait { state in
          if state.isStopping { return .some(nil) }
          return state.waiting.isEmpty ? nil : .some(state.waiting.removeFirst())
        }
        guard case .some(.some(let body)) = next else { return }
        Webhooks.post(body, url: url, signature: Webhooks.signature(body, key: secret), state)
      }
    }
    thread.withLock { $0 = started }
  }

  func send(_ body: String) {
    let isTaken = state.update { state in
      guard state.waiting.count < Webhooks.waitingLimit else { return false }
      state.waiting.append(body)
      return true
    }
    if !isTaken { Log.line(.warning, "webhook_dropped") }
  }

  func stop() {
    state.update { $0.isStopping = true }
    thread.withLock { $0 }?.join()
  }

  /// Lower-case hex HMAC-SHA256 of the body.
  static func signature(_ body: String, key: String) -> String {
    var mac = [UInt8](repeating: 0, count: Int(crypto_auth_hmacsha256_BYTES))
    var state = crypto_auth_hmacsha256_state()
    let key = Array(key.utf8)
    let body = Array(body.utf8)
    _ = crypto_auth_hmacsha256_init(&state, key, key.count)
    _ = crypto_auth_hmacsha256_update(&state, body, UInt64(body.count))
    _ = crypto_auth_hmacsha256_final(&state, &mac)
    let digits = Array("0123456789abcdef".utf8)
    return String(decoding: mac.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
  }

  private static func post(_ body: String, url: String, signature: String, _ state: Watched<State>) {
    for attempt in 1...tries {
      if once(body, url: url, signature: signature) { return }
      let pause = Clock.system.monotonicNanoseconds() + UInt64(attempt) * 200_000_000
      if state.wait(until: pause, { $0.isStopping ? true : nil }) != nil { return }
    }
    Log.line(.warning, "webhook_failed", ["url": .text(url)])
  }

  private static func once(_ body: String, url: String, signature: String) -> Bool {
    guard let easy = curl_easy_init() else { return false }
    defer { curl_easy_cleanup(easy) }
    var headers = curl_slist_append(nil, "Content-Type: application/json")
    headers = curl_slist_append(headers, "x-sendbird-signature: \(signature)")
    headers = curl_slist_append(headers, "Expect:")
    defer { curl_slist_free_all(headers) }
    _ = perch_curl_string(easy, CURLOPT_URL, url)
    _ = perch_curl_long(easy, CURLOPT_NOSIGNAL, 1)
    _ = perch_curl_long(easy, CURLOPT_TIMEOUT_MS, 5000)
    _ = perch_curl_pointer(easy, CURLOPT_HTTPHEADER, headers)
    _ = perch_curl_size(easy, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(body.utf8.count))
    _ = perch_curl_string(easy, CURLOPT_COPYPOSTFIELDS, body)
    _ = perch_curl_on_body(easy, ignoreBody)
    var status = 0
    guard curl_easy_perform(easy) == CURLE_OK, perch_curl_status(easy, &status) == CURLE_OK else {
      return false
    }
    return (200..<300).contains(status)
  }
}

private let ignoreBody: perch_curl_sink = { _, size, count, _ in size * count }
