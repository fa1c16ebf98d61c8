import CCurl
import Platform

/// Sends requests on to a real server: a few threads, each with a connection that it keeps.
final class Forwarder: Sendable {
  /// One request on its way.
  struct Outgoing: Sendable {
    let method: String
    /// The path and the query as they go over the wire.
    let target: String
    /// Lines such as `Api-Token: …`; they are never logged.
    let headers: [String]
    let body: [UInt8]
    /// Gets the answer; nil: there is none.
    let finish: @Sendable (Answer?) -> Void
  }

  /// What the server answered.
  struct Answer: Sendable {
    var status = 0
    /// By their names in lower case.
    var headers: [String: String] = [:]
    var body: [UInt8] = []
    var milliseconds: Int64 = 0
  }

  private static let threads = 4
  private static let mostWaiting = 1_000
  /// Milliseconds that a connection, and an answer, may take.
  private static let connectLimit = 10_000
  private static let answerLimit = 60_000

  private struct State {
    var waiting: [Outgoing] = []
    var isStopping = false
  }

  private let state = Watched(State())
  private let threads: [ThreadSlot]

  /// Sends to `base`, such as `https://api-APP.sendbird.com`.
  init(base: String) {
    let state = state
    threads = (0..<Forwarder.threads).map { _ in ThreadSlot() }
    for thread in threads {
      thread.start("forwarder") {
        guard let easy = curl_easy_init() else { return }
        defer { curl_easy_cleanup(easy) }
        while let outgoing = Forwarder.next(state) {
          outgoing.finish(Forwarder.perform(outgoing, base, easy, state))
        }
      }
    }
  }

  private static func next(_ state: Watched<State>) -> Outgoing? {
    let outgoing: Outgoing?? = state.wait { state in
      if state.isStopping { return .some(nil) }
      return state.waiting.isEmpty ? nil : .some(state.waiting.removeFirst())
    }
    return outgoing ?? nil
  }

  /// Sends the request when its turn comes. False: too many wait, or the forwarder stops.
  func add(_ outgoing: Outgoing) -> Bool {
    state.update { state in
      guard !state.isStopping, state.waiting.count < Forwarder.mostWaiting else { return false }
      state.waiting.append(outgoing)
      return true
    }
  }

  /// Ends the threads. Requests that wait, or were sent and not answered, get no answer.
  func stop() {
    let left = state.update { state in
      state.isStopping = true
      defer { state.waiting = [] }
      return state.waiting
    }
    for outgoing in left { outgoing.finish(nil) }
    for thread in threads { thread.join() }
  }

  private static func perform(
    _ outgoing: Outgoing, _ base: String, _ easy: UnsafeMutableRawPointer, _ state: Watched<State>
  ) -> Answer? {
    curl_easy_reset(easy)
    let sink = AnswerSink { state.read { $0.isStopping } }
    let owner = Unmanaged.passUnretained(sink).toOpaque()
    var headers: UnsafeMutablePointer<curl_slist>?
    for line in outgoing.headers + ["Expect:"] { headers = curl_slist_append(headers, line) }
    defer { curl_slist_free_all(headers) }
    _ = perch_curl_string(easy, CURLOPT_URL, base + outgoing.target)
    _ = perch_curl_long(easy, CURLOPT_PATH_AS_IS, 1)
    _ = perch_curl_string(easy, CURLOPT_PROTOCOLS_STR, "http,https")
    _ = perch_curl_string(easy, CURLOPT_ACCEPT_ENCODING, "")
    _ = perch_curl_long(easy, CURLOPT_NOSIGNAL, 1)
    _ = perch_curl_long(easy, CURLOPT_CONNECTTIMEOUT_MS, connectLimit)
    _ = perch_curl_long(easy, CURLOPT_TIMEOUT_MS, answerLimit)
    _ = perch_curl_pointer(easy, CURLOPT_HTTPHEADER, headers)
    _ = perch_curl_on_body(easy, onBody)
    _ = perch_curl_pointer(easy, CURLOPT_WRITEDATA, owner)
    _ = perch_curl_on_header(easy, onHeader)
    _ = perch_curl_pointer(easy, CURLOPT_HEADERDATA, owner)
    _ = perch_curl_long(easy, CURLOPT_NOPROGRESS, 0)
    _ = perch_curl_on_progress(easy, onProgress)
    _ = perch_curl_pointer(easy, CURLOPT_XFERINFODATA, owner)
    if outgoing.method != "GET" {
      _ = perch_curl_size(easy, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(outgoing.body.count))
      outgoing.body.withUnsafeBytes { raw in
        let text = raw.baseAddress?.assumingMemoryBound(to: CChar.self)
        if let text {
          _ = perch_curl_string(easy, CURLOPT_COPYPOSTFIELDS, text)
        } else {
          _ = perch_curl_string(easy, CURLOPT_COPYPOSTFIELDS, "")
        }
      }
    }
    _ = perch_curl_string(easy, CURLOPT_CUSTOMREQUEST, outgoing.method)
    let start = Clock.system.monotonicNanoseconds()
    let code = withExtendedLifetime(sink) { curl_easy_perform(easy) }
    var status = 0
    guard code == CURLE_OK, perch_curl_status(easy, &status) == CURLE_OK else {
      Log.line(.warning, "forwarding_failed", ["reason": .text(String(cString: curl_easy_strerror(code)))])
      return nil
    }
    var answer = sink.answer
    answer.status = status
    answer.milliseconds = Int64((Clock.system.monotonicNanoseconds() - start) / 1_000_000)
    return answer
  }
}

/// What arrives of one answer; used by one thread, while it waits for that answer.
private final class AnswerSink {
  var answer = Forwarder.Answer()
  /// Whether nobody waits for the answer any more.
  let isGivenUp: () -> Bool

  init(isGivenUp: @escaping () -> Bool) { self.isGivenUp = isGivenUp }

  func take(header line: UnsafeRawBufferPointer) {
    let text = String(decoding: line, as: UTF8.self)
    if text.hasPrefix("HTTP/") { answer.headers = [:] }
    guard let colon = text.firstIndex(of: ":") else { return }
    let name = text[..<colon].lowercased()
    guard Exchange.headerNames.contains(name) else { return }
    let value = text[text.index(after: colon)...].filter { $0 >= " " }
    answer.headers[name] = String(value.drop { $0 == " " })
  }
}

private let onBody: perch_curl_sink = { data, size, count, owner in
  let bytes = UnsafeRawBufferPointer(start: data, count: size * count)
  let sink = Unmanaged<AnswerSink>.fromOpaque(owner!).takeUnretainedValue()
  guard sink.answer.body.count + bytes.count <= Recording.mostBytes else { return 0 }
  sink.answer.body += bytes
  return bytes.count
}

private let onHeader: perch_curl_sink = { data, size, count, owner in
  let bytes = UnsafeRawBufferPointer(start: data, count: size * count)
  Unmanaged<AnswerSink>.fromOpaque(owner!).takeUnretainedValue().take(header: bytes)
  return bytes.count
}

/// libcurl asks about once a second while nothing arrives; 1 ends the request.
private let onProgress: curl_xferinfo_callback = { owner, _, _, _, _ in
  Unmanaged<AnswerSink>.fromOpaque(owner!).takeUnretainedValue().isGivenUp() ? 1 : 0
}
