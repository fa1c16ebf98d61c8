import CCurl
import Glibc
import Platform

/// One request with curl's handle for it. It belongs to the client's thread once it was queued.
final class Transfer: @unchecked Sendable {  // because after the inbox only the client's thread touches it
  let id: UInt64
  let request: HTTPRequest
  private let finish: @Sendable (Result<HTTPResponse, TransportFailure>) -> Void
  private(set) var easy: UnsafeMutableRawPointer?
  private var headerList: UnsafeMutablePointer<curl_slist>?
  private var form: OpaquePointer?
  private var received = ByteBuffer(capacity: 16 << 10)
  private var headers = HTTPResponse.Headers()
  private var limit = 0
  private(set) var hasFirstByte = false
  /// The bytes that curl had sent, such as a proxy's CONNECT, when a connection was first ready for the
  /// request. Nil before that.
  private var sentBefore: Int?
  private var isTooLarge = false
  private var firstByteDeadline: Int64 = .max
  private var lastByteDeadline: Int64 = .max
  private var moved: (sent: Int64, at: Int64) = (0, 0)
  private var clock = Clock.system

  /// The deadline of the next step: first the answer's first byte, then its last (monotonic ms).
  var deadline: Int64 {
    let whole = hasFirstByte ? lastByteDeadline : min(firstByteDeadline, lastByteDeadline)
    guard let stall = request.stallMilliseconds else { return whole }
    return min(whole, moved.at + Int64(stall))
  }

  init(
    id: UInt64, request: HTTPRequest,
    finish: @escaping @Sendable (Result<HTTPResponse, TransportFailure>) -> Void
  ) {
    self.id = id
    self.request = request
    self.finish = finish
  }

  /// Makes curl's handle; nil: curl has no memory for it. `isApart`: over a connection of its own.
  func prepare(
    _ configuration: HTTPClient.Configuration, isApart: Bool, now: Int64
  ) -> UnsafeMutableRawPointer? {
    guard let easy = curl_easy_init() else { return nil }
    self.easy = easy
    limit = configuration.responseBytes
    let total = request.totalMilliseconds ?? configuration.totalMilliseconds
    firstByteDeadline = now + Int64(max(configuration.firstByteMilliseconds, request.totalMilliseconds ?? 0))
    lastByteDeadline = now + Int64(total)
    _ = perch_curl_string(easy, CURLOPT_URL, request.url)
    // The path is sent as it is: curl would otherwise remove `..` from it and request another one.
    _ = perch_curl_long(easy, CURLOPT_PATH_AS_IS, 1)
    _ = perch_curl_string(easy, CURLOPT_PROTOCOLS_STR, "http,https")
    _ = perch_curl_string(easy, CURLOPT_ACCEPT_ENCODING, "")
    _ = perch_curl_string(easy, CURLOPT_USERAGENT, "perch")
    _ = perch_curl_long(easy, CURLOPT_NOSIGNAL, 1)
    _ = perch_curl_long(easy, CURLOPT_CONNECTTIMEOUT_MS, configuration.connectMilliseconds)
    _ = perch_curl_long(easy, CURLOPT_FRESH_CONNECT, isApart ? 1 : 0)
    _ = perch_curl_long(easy, CURLOPT_TCP_KEEPALIVE, 1)
    _ = perch_curl_long(easy, CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_2TLS))
    let owner = Unmanaged.passUnretained(self).toOpaque()
    clock = configuration.clock
    moved = (0, now)
    if request.progress != nil || request.stallMilliseconds != nil {
      _ = perch_curl_long(easy, CURLOPT_NOPROGRESS, 0)
      _ = perch_curl_on_progress(easy, onProgress)
      _ = perch_curl_pointer(easy, CURLOPT_XFERINFODATA, owner)
    }
    _ = perch_curl_pointer(easy, CURLOPT_PRIVATE, owner)
    _ = perch_curl_on_body(easy, onBody)
    _ = perch_curl_pointer(easy, CURLOPT_WRITEDATA, owner)
    _ = perch_curl_on_header(easy, onHeader)
    _ = perch_curl_pointer(easy, CURLOPT_HEADERDATA, owner)
    _ = perch_curl_on_ready(easy, onReady)
    _ = perch_curl_pointer(easy, CURLOPT_PREREQDATA, owner)
    Trust.environment.apply(to: easy)
    prepareBody(easy)
    return easy
  }

  private func prepareBody(_ easy: UnsafeMutableRawPointer) {
    var lines = request.headers
    _ = perch_curl_string(easy, CURLOPT_CUSTOMREQUEST, request.method.rawValue)
    switch request.body {
    case .none:
      if request.method == .post || request.method == .put {
        _ = perch_curl_size(easy, CURLOPT_POSTFIELDSIZE_LARGE, 0)
        _ = perch_curl_string(easy, CURLOPT_COPYPOSTFIELDS, "")
        _ = perch_curl_string(easy, CURLOPT_CUSTOMREQUEST, request.method.rawValue)
      }
    case .json(let bytes):
      lines.append("Content-Type: application/json; charset=utf-8")
      _ = perch_curl_size(easy, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(bytes.count))
      bytes.withUnsafeBytes { raw in
        let text = raw.baseAddress?.assumingMemoryBound(to: CChar.self)
        _ = perch_curl_string(easy, CURLOPT_COPYPOSTFIELDS, text)
      }
    case .form(let parts): prepareForm(easy, parts)
    }
    lines.append("Expect:")
    for line in lines { headerList = curl_slist_append(headerList, line) }
    _ = perch_curl_pointer(easy, CURLOPT_HTTPHEADER, headerList)
  }

  private func prepareForm(_ easy: UnsafeMutableRawPointer, _ parts: [HTTPRequest.Part]) {
    guard let form = curl_mime_init(easy) else { return }
    self.form = form
    for part in parts {
      guard let field = curl_mime_addpart(form) else { continue }
      curl_mime_name(field, part.name)
      switch part.content {
      case .bytes(let bytes):
        bytes.withUnsafeBytes { raw in
          _ = curl_mime_data(field, raw.baseAddress?.assumingMemoryBound(to: CChar.self), raw.count)
        }
      case .file(let path, let name, let mime):
        curl_mime_filedata(field, path)
        curl_mime_filename(field, name)
        curl_mime_type(field, mime)
      }
    }
    _ = perch_curl_pointer(easy, CURLOPT_MIMEPOST, UnsafeMutableRawPointer(form))
  }

  fileprivate func take(_ bytes: UnsafeRawBufferPointer) -> Bool {
    hasFirstByte = true
    guard received.count + bytes.count <= limit else {
      isTooLarge = true
      return false
    }
    received.append(bytes)
    return true
  }

  fileprivate func take(header line: UnsafeRawBufferPointer) {
    hasFirstByte = true
    if line.starts(with: "HTTP/".utf8) {
      headers = HTTPResponse.Headers()
      return
    }
    guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else { return }
    let name = String(decoding: line[..<colon], as: UTF8.self).lowercased()
    let value = String(decoding: line[(colon + 1)...].filter { $0 >= 0x20 }, as: UTF8.self)
    let text = String(value.drop { $0 == " " })
    switch name {
    case "content-type": headers.contentType = text
    case "retry-after": headers.retryAfter = text
    case "x-ratelimit-remaining": headers.rateRemaining = text
    case "x-ratelimit-reset": headers.rateReset = text
    case "x-ratelimit-retryafter", "x-ratelimit-retry-after": headers.rateRetryAfter = text
    default: break
    }
  }

  fileprivate func sent(_ count: Int64, of total: Int64) {
    guard count > moved.sent else { return }
    moved = (count, Int64(clock.monotonicNanoseconds() / 1_000_000))
    request.progress?(count, total)
  }

  /// Ends the transfer with the answer or the failure that curl's code means.
  func complete(_ code: CURLcode) {
    guard let easy else { return }
    guard code == CURLE_OK else { return end(.failure(failure(code))) }
    var status = 0
    _ = perch_curl_status(easy, &status)
    var body = ByteBuffer(capacity: 16)
    swap(&body, &received)
    end(.success(HTTPResponse(status: status, headers: headers, body: body)))
  }

  private func failure(_ code: CURLcode) -> TransportFailure {
    let mayHaveArrived = mayHaveArrived
    let kind: TransportFailure.Kind =
      switch code {
      case CURLE_OPERATION_TIMEDOUT: mayHaveArrived ? .timeout : .connect
      // After bytes were sent, these codes concern a further connection. How the first one ended is unknown.
      case _ where mayHaveArrived: isTooLarge ? .tooLarge : .broken
      case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY, CURLE_COULDNT_CONNECT,
        CURLE_SSL_CONNECT_ERROR, CURLE_UNSUPPORTED_PROTOCOL, CURLE_URL_MALFORMAT:
        .connect
      case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CACERT_BADFILE, CURLE_SSL_ISSUER_ERROR: .untrusted
      default: .broken
      }
    return TransportFailure(
      kind: kind, mayHaveArrived: mayHaveArrived,
      reason: isTooLarge
        ? "the answer is larger than \(limit) bytes" : String(cString: curl_easy_strerror(code)))
  }

  /// Called when a connection is ready for the request. Returns whether to send the request there.
  ///
  /// curl repeats a request of any method by itself, on a new connection, when a kept connection ended before
  /// the first byte of an answer. The server may have read the request and done the work, so a request that
  /// changes something is not sent on a second connection once a byte of it left: it ends as one that may
  /// have arrived. curl may repeat requests that only read.
  fileprivate func isReadyToSend() -> Bool {
    guard sentBefore != nil else {
      sentBefore = sentBytes
      return true
    }
    return request.method == .get || !mayHaveArrived
  }

  /// Whether curl sent anything of the request, over any connection.
  var mayHaveArrived: Bool { sentBefore.map { sentBytes > $0 } ?? false }

  /// The bytes that curl has passed to connections so far.
  private var sentBytes: Int {
    guard let easy else { return 0 }
    var size = 0
    _ = perch_curl_number(easy, CURLINFO_REQUEST_SIZE, &size)
    return size
  }

  /// The failure of a request whose deadline passed. Its connection is closed too: an HTTP/2 connection would
  /// be kept, and if it is dead, the next requests would be sent on it.
  func overdue() -> TransportFailure {
    if let easy { _ = perch_curl_long(easy, CURLOPT_FORBID_REUSE, 1) }
    return TransportFailure(
      kind: hasFirstByte ? .timeout : .silent, mayHaveArrived: mayHaveArrived,
      reason: hasFirstByte ? "the answer did not end in time" : "no answer in time")
  }

  /// Frees curl's handle, then passes the result to the caller. The handle must have left the multi handle.
  func end(_ result: Result<HTTPResponse, TransportFailure>) {
    if let easy {
      curl_easy_cleanup(easy)
      curl_slist_free_all(headerList)
      if let form { curl_mime_free(form) }
      self.easy = nil
    }
    finish(result)
  }
}

/// The trusted certificates, as the environment names them.
private struct Trust: Sendable {
  let file: String?
  let directory: String?

  static let environment = Trust(
    file: variable("CURL_CA_BUNDLE") ?? variable("SSL_CERT_FILE"), directory: variable("SSL_CERT_DIR"))

  private static func variable(_ name: String) -> String? {
    getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
  }

  func apply(to easy: UnsafeMutableRawPointer) {
    if let file { _ = perch_curl_string(easy, CURLOPT_CAINFO, file) }
    if let directory { _ = perch_curl_string(easy, CURLOPT_CAPATH, directory) }
  }
}

private let onBody: perch_curl_sink = { data, size, count, owner in
  let bytes = UnsafeRawBufferPointer(start: data, count: size * count)
  return Unmanaged<Transfer>.fromOpaque(owner!).takeUnretainedValue().take(bytes) ? bytes.count : 0
}

private let onHeader: perch_curl_sink = { data, size, count, owner in
  let bytes = UnsafeRawBufferPointer(start: data, count: size * count)
  Unmanaged<Transfer>.fromOpaque(owner!).takeUnretainedValue().take(header: bytes)
  return bytes.count
}

private let onProgress: curl_xferinfo_callback = { owner, _, _, total, sent in
  Unmanaged<Transfer>.fromOpaque(owner!).takeUnretainedValue().sent(Int64(sent), of: Int64(total))
  return 0
}

private let onReady: curl_prereq_callback = { owner, _, _, _, _ in
  Unmanaged<Transfer>.fromOpaque(owner!).takeUnretainedValue().isReadyToSend()
    ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT
}
