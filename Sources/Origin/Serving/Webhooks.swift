import CCurl
import CSodium
import Platform

/// Sends webhooks: those of one channel in their order, those of several at once.
final class Webhooks: Sendable {
  /// A slow receiver takes so many at once.
  private static let lineCount = 8

  private let lines: [WebhookLine]

  init(url: String, secret: String) {
    lines = (0..<Webhooks.lineCount).map { _ in WebhookLine(url: url, secret: secret) }
  }

  private func line(of channel: String) -> WebhookLine {
    lines[Int(channel.hashValue.magnitude % UInt(lines.count))]
  }

  func send(_ body: String, of channel: String) { line(of: channel).send(body) }

  /// Sends a webhook after the next one that waits in the same line, such as the channel's next one, or when
  /// the time is over. A line holds one at a time.
  func hold(_ body: String, of channel: String, milliseconds: Int64) {
    line(of: channel).hold(body, milliseconds: milliseconds)
  }

  func stop() {
    for line in lines { line.end() }
    for line in lines { line.join() }
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
    return String(decoding: hex(mac), as: UTF8.self)
  }

  /// Lower-case hex digits.
  static func hex(_ bytes: [UInt8]) -> [UInt8] {
    let digits = Array("0123456789abcdef".utf8)
    return bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
  }
}

/// Sends webhooks in their order from a bounded queue in memory, each up to three times, over a connection
/// that it keeps. Webhooks that do not fit are dropped and logged: a receiver must live with lost webhooks
/// anyway.
private final class WebhookLine: Sendable {
  private static let waitingLimit = 2_500
  private static let tries = 3

  private struct State {
    var waiting: [String] = []
    /// The webhook to send after the next one, and when at the latest.
    var held: (body: String, until: UInt64)?
    var isHeldNew = false
    var isStopping = false

    mutating func append(_ body: String) -> Bool {
      guard waiting.count < WebhookLine.waitingLimit else { return false }
      waiting.append(body)
      return true
    }
  }

  private enum Step {
    case send(String)
    case look
    case stop
  }

  private let state = Watched(State())
  private let thread = ThreadSlot()

  init(url: String, secret: String) {
    let state = state
    thread.start("webhooks") {
      let easy = curl_easy_init()
      defer { curl_easy_cleanup(easy) }
      while true {
        switch WebhookLine.next(state) {
        case .send(let body):
          let signature = Webhooks.signature(body, key: secret)
          WebhookLine.post(body, with: easy, url: url, signature: signature, state)
        case .look: continue
        case .stop: return
        }
      }
    }
  }

  private static func next(_ state: Watched<State>) -> Step {
    let deadline = state.read { state in
      state.isHeldNew = false
      return state.held?.until
    }
    let step: Step? = state.wait(until: deadline) { state in
      if state.isStopping { return .stop }
      if !state.waiting.isEmpty { return .send(state.waiting.removeFirst()) }
      return state.isHeldNew ? .look : nil
    }
    if let step { return step }
    state.read { state in
      if let held = state.held { state.waiting.append(held.body) }
      state.held = nil
    }
    return .look
  }

  func send(_ body: String) {
    let isTaken = state.update { state in
      let isTaken = state.append(body)
      if let held = state.held, isTaken { state.waiting.append(held.body) }
      if isTaken { state.held = nil }
      return isTaken
    }
    if !isTaken { Log.line(.warning, "webhook_dropped") }
  }

  /// Sends a webhook after the next one, or when the time is over. Only one is held at a time.
  func hold(_ body: String, milliseconds: Int64) {
    let until = Clock.system.monotonicNanoseconds() + UInt64(milliseconds) * 1_000_000
    let isHeld = state.update { state in
      guard state.held == nil else { return false }
      state.held = (body, until)
      state.isHeldNew = true
      return true
    }
    if !isHeld { send(body) }
  }

  func end() { state.update { $0.isStopping = true } }

  func join() { thread.join() }

  private static func post(
    _ body: String, with easy: UnsafeMutableRawPointer?, url: String, signature: String,
    _ state: Watched<State>
  ) {
    for attempt in 1...tries {
      if once(body, with: easy, url: url, signature: signature) { return }
      let pause = Clock.system.monotonicNanoseconds() + UInt64(attempt) * 200_000_000
      if state.wait(until: pause, { $0.isStopping ? true : nil }) != nil { return }
    }
    Log.line(.warning, "webhook_failed", ["url": .text(url)])
  }

  private static func once(
    _ body: String, with easy: UnsafeMutableRawPointer?, url: String, signature: String
  ) -> Bool {
    guard let easy else { return false }
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
