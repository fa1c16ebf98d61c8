import CCurl
import ChatCache
import ChatModel
import JSON
import Platform

/// Tells usable answers, refusals and unusable answers apart (B40).
///
/// A *rejection* is a JSON object with `error: true` and a code, whatever the status. 429 or code 500910 is a
/// wait. 400401, and 401 or 403 without such an object, mean that Perch's key is refused. 5xx, also as a
/// code, 407, 408 and 425 mean that the server or a proxy failed. Any other answer that cannot be decoded
/// concerns only the requested item (B35). The last two do not say whether the work was done.
enum Envelope {
  /// The longest wait that Perch accepts, in ms.
  static let longestWait = OutboxPolicy.longestPause

  /// Passes the answer's root object to `body`, or throws the error that the answer means.
  static func open<Result>(
    _ response: HTTPResponse, _ parser: JSONParser, now: Int64, _ body: (JSONValue) throws -> Result
  ) throws(UpstreamError) -> Result {
    do {
      return try parser.parse(response.body.bytes) { root in
        if let refusal = refusal(root, response, now: now) { throw refusal }
        guard response.status == 200 || response.status == 201 else {
          throw bare(response, now: now, reason: "status \(response.status)")
        }
        return try body(root)
      }
    } catch let error as UpstreamError {
      throw error
    } catch let error as Unreadable {
      throw .unreadable(reason: "\(error)")
    } catch {
      throw bare(response, now: now, reason: "\(error)")
    }
  }

  private static func refusal(_ root: JSONValue, _ response: HTTPResponse, now: Int64) -> UpstreamError? {
    guard root.kind == .object, root.flag("error"), let code = root["code"]?.tolerantInt else { return nil }
    switch Int(code) {
    case 500910: return .rateLimited(milliseconds: wait(response.headers, now: now))
    case 400401: return .unauthorized
    case 500_000..<600_000:
      return .unusable(reason: "code \(code)", retryAfter: asked(response.headers, now: now))
    case let code where response.status == 429 && code != 400:
      return .rateLimited(milliseconds: wait(response.headers, now: now))
    case let code: return .rejection(code: code, message: root.text("message"))
    }
  }

  /// The error that an unusable answer without an error object means.
  private static func bare(_ response: HTTPResponse, now: Int64, reason: String) -> UpstreamError {
    switch response.status {
    case 401, 403: .unauthorized
    case 429: .rateLimited(milliseconds: wait(response.headers, now: now))
    case 407, 408, 425:
      .unusable(reason: "status \(response.status)", retryAfter: asked(response.headers, now: now))
    case 200..<300: .unreadable(reason: reason)
    case 400..<500: .unreadable(reason: "status \(response.status)")
    default:
      .unusable(reason: "status \(response.status)", retryAfter: asked(response.headers, now: now))
    }
  }

  /// How long the upstream asks to wait, in ms; 1 s if it does not say.
  static func wait(_ headers: HTTPResponse.Headers, now: Int64) -> Int64 {
    if let asked = asked(headers, now: now) { return asked }
    guard let reset = headers.rateReset.flatMap({ Double($0) }), reset > 0 else { return 1000 }
    // Servers give a time in ms, a time in seconds, or a number of seconds.
    let milliseconds =
      reset > 1e11 ? reset - Double(now) : reset > 1e8 ? reset * 1000 - Double(now) : reset * 1000
    return milliseconds > 0 ? bounded(milliseconds) : 1000
  }

  /// How long to wait if the answer says that no requests are left, in ms; nil: it does not say so.
  static func spent(_ headers: HTTPResponse.Headers, now: Int64) -> Int64? {
    guard let left = headers.rateRemaining.flatMap({ Int64($0) }), left <= 0, headers.rateReset != nil else {
      return nil
    }
    return min(wait(headers, now: now), 60_000)
  }

  /// The wait that `Retry-After` or `X-RateLimit-RetryAfter` asks for, in ms.
  private static func asked(_ headers: HTTPResponse.Headers, now: Int64) -> Int64? {
    for text in [headers.retryAfter, headers.rateRetryAfter] {
      guard let text else { continue }
      if let seconds = Double(text), seconds >= 0 { return bounded(seconds * 1000) }
      if let moment = moment(text) { return bounded(Double(moment) - Double(now)) }
    }
    return nil
  }

  private static func bounded(_ milliseconds: Double) -> Int64 {
    Int64(max(0, min(milliseconds, Double(longestWait))))
  }

  /// The time (ms) of an HTTP date.
  private static func moment(_ text: String) -> Int64? {
    let seconds = Int64(curl_getdate(text, nil))
    return seconds < 0 ? nil : min(seconds, Limits.moments.upperBound / 1000) * 1000
  }
}
