/// The segments of a path, each decoded, so that all spellings of one path are equal.
package enum PathSegments {
  /// The segments of a path that is percent-encoded or not; nil for a bad escape, a zero byte, or bytes that
  /// are not UTF-8.
  package static func decoded(_ path: String) -> [String]? {
    var segments: [String] = []
    for segment in path.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false) {
      let text = Array(segment).withUnsafeBytes { encoded in
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: encoded.count + 1) { room -> String? in
          Percent.decode(encoded, into: room.baseAddress!, plusIsSpace: false).flatMap {
            String(validating: room[..<$0], as: UTF8.self)
          }
        }
      }
      guard let text else { return nil }
      segments.append(text)
    }
    return segments
  }
}
