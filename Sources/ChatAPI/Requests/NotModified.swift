import MicroHTTP
import Platform

/// The 304 answers, made in advance: one for each `CacheStatus`. Only the tag is written into a copy, since
/// every `EntityTag` has the same length.
final class NotModified: Sendable {
  private let answers: [SharedResponse]
  private let vary: StaticString

  /// For answers that differ by the header `vary`.
  init(vary: StaticString) {
    self.vary = vary
    answers = CacheStatus.allCases.map { status in
      SharedResponse(
        status: 304, type: nil,
        headers: [
          ("Cache-Control", "no-cache"), ("Vary", "\(vary)"), ("Cache-Status", "\(status.text)"),
        ], varying: .init("ETag", width: EntityTag.width), body: ByteBuffer())
    }
  }

  /// The answer with that tag; `holds`: see `SharedResponse`. An answer that confirms a preference has one
  /// more header, so it cannot be one of the shared answers.
  func answer(
    _ tag: EntityTag, _ status: CacheStatus, _ preferences: Preferences? = nil,
    again holds: (() -> Bool)? = nil
  ) -> Response {
    if let preferences, preferences.wait != nil { return answer(ofText: tag.text, status, preferences) }
    return answers[status.rawValue].response(tag.text, again: holds)
  }

  /// The answer with a tag of any length.
  func answer(ofText tag: String, _ status: CacheStatus, _ preferences: Preferences) -> Response {
    var response = Response.empty(304)
    response.describe(tag, status, preferences, vary: vary)
    return response
  }
}

extension Response {
  /// Adds `ETag`, `Cache-Control`, `Vary` and `Cache-Status` and, if the request asked for a wait,
  /// `Preference-Applied`.
  mutating func describe(
    _ tag: EntityTag, _ status: CacheStatus, _ preferences: Preferences? = nil, vary: StaticString
  ) {
    add("ETag") { tag.write(to: &$0) }
    describe(status, preferences, vary: vary)
  }

  /// The same with a tag of any length.
  mutating func describe(
    _ tag: String, _ status: CacheStatus, _ preferences: Preferences? = nil, vary: StaticString
  ) {
    add("ETag", tag)
    describe(status, preferences, vary: vary)
  }

  private mutating func describe(_ status: CacheStatus, _ preferences: Preferences?, vary: StaticString) {
    add("Cache-Control", "no-cache")
    add("Vary", vary)
    add("Cache-Status", status.text)
    preferences?.apply(to: &self)
  }
}
