import MicroHTTP
import Platform

/// A file of the service itself, such as a page or its script. Its answers are made at the first request, so
/// that they do not delay the start: 200 and 304, each plain and as gzip.
final class PageFile: Sendable {
  /// The file in one encoding. Each has a tag of its own.
  private struct Variant {
    let tag: String
    let whole: SharedResponse
    let same: SharedResponse
  }

  private struct Variants {
    let plain: Variant
    let compressed: Variant?
  }

  private let type: StaticString
  private let headers: [(name: StaticString, value: String)]
  private let bytes: @Sendable () -> [UInt8]
  private let variants = Guarded<Variants?>(nil)

  init(
    _ type: StaticString, _ headers: [(name: StaticString, value: String)] = [],
    _ bytes: @escaping @Sendable () -> [UInt8]
  ) {
    self.type = type
    self.headers = headers
    self.bytes = bytes
  }

  func answer(_ request: Request) -> Outcome {
    let variants = variants.withLock { variants in
      if let variants { return variants }
      let made = make()
      variants = made
      return made
    }
    let variant = Gzip.isTaken(by: request) ? variants.compressed ?? variants.plain : variants.plain
    let isKnown = EntityTag.isKnown(variant.tag, to: request)
    return .respond(isKnown ? variant.same.response : variant.whole.response)
  }

  private func make() -> Variants {
    let bytes = bytes()
    return Variants(
      plain: variant(bytes, headers),
      compressed: Gzip.compressed(bytes).map { variant($0, headers + [("Content-Encoding", "gzip")]) })
  }

  private func variant(_ bytes: [UInt8], _ more: [(name: StaticString, value: String)]) -> Variant {
    let tag = bytes.withUnsafeBytes { EntityTag(of: $0) }.text
    let headers: [(name: StaticString, value: String)] =
      [("ETag", tag), ("Cache-Control", "no-cache"), ("Vary", "Accept-Encoding")] + more
    var body = ByteBuffer(capacity: bytes.count)
    bytes.withUnsafeBytes { body.append($0) }
    return Variant(
      tag: tag, whole: SharedResponse(type: type, headers: headers, body: body),
      same: SharedResponse(status: 304, type: nil, headers: headers, body: ByteBuffer()))
  }
}
