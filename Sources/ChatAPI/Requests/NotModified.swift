import MicroHTTP
import Platform

/// The answers to who has it already, made beforehand: one for each way an answer comes about. The tag is
/// written into them, as long as every `EntityTag`.
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
    response.add("ETag", tag)
    response.describe(status, vary: vary)
    preferences.apply(to: &response)
    return response
  }
}

extension Response {
  /// Adds what a cache on the way needs beside the tag: how the answer came about and what it differs by.
  mutating func describe(_ status: CacheStatus, vary: StaticString) {
    add("Cache-Control", "no-cache")
    add("Vary", vary)
    add("Cache-Status", status.text)
  }
}
