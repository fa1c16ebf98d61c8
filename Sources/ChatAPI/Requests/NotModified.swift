import MicroHTTP
import Platform

/// The answers to who has it already, made beforehand: one for each way an answer comes about. The tag is
/// written into them, as long as every `EntityTag`.
final class NotModified: Sendable {
  private let answers: [SharedResponse]

  /// For answers that differ by the header `vary`.
  init(vary: StaticString) {
    answers = CacheStatus.allCases.map { status in
      SharedResponse(
        status: 304, type: nil,
        headers: [
          ("Cache-Control", "no-cache"), ("Vary", "\(vary)"), ("Cache-Status", "\(status.text)"),
        ], varying: .init("ETag", width: EntityTag.width), body: ByteBuffer())
    }
  }

  /// The answer with that text of a tag; `holds`: see `SharedResponse`.
  func answer(_ tag: String, _ status: CacheStatus, again holds: (() -> Bool)? = nil) -> Response {
    answers[status.rawValue].response(tag, again: holds)
  }
}
