import Glibc

/// The request target as it came, decoded here and nowhere else.
///
/// libmicrohttpd decodes a path before it shows it: `%2F` becomes a slash and `%00` cuts it. So the raw
/// target is copied before that happens, split at its slashes and only then decoded, each segment within the
/// copy. The query stays encoded and is decoded item by item. Refused with 400: bad escapes, zero bytes,
/// bytes that are not UTF-8 once decoded, control characters, spaces and fragments.
struct RequestTarget {
  static let mostParameters = 4

  private let base: UnsafeMutablePointer<UInt8>
  // Targets are shorter than the connection's memory, so 32 bits are enough. Each parked request keeps these.
  private var pathStartOffset: UInt32 = 0
  private var pathEndOffset: UInt32
  private var endOffset: UInt32
  private var parameters = (UInt32(0), UInt32(0), UInt32(0), UInt32(0))
  private var parameterCount: UInt8 = 0

  /// Copies the raw target; `free` gives the copy back.
  init(copying raw: UnsafePointer<CChar>) {
    let length = strlen(raw)
    base = .allocate(capacity: length + 1)
    memcpy(base, raw, length + 1)
    endOffset = UInt32(length)
    pathEndOffset = UInt32(length)
  }

  private var pathStart: Int { Int(pathStartOffset) }
  private var pathEnd: Int { Int(pathEndOffset) }
  private var end: Int { Int(endOffset) }

  /// The number of bytes of the raw target.
  var length: Int { end }

  /// Whether the raw target ends with these bytes. Only valid before decoding.
  func ends(with bytes: [UInt8]) -> Bool {
    bytes.isEmpty
      || bytes.count <= end
        && bytes.withUnsafeBytes { memcmp(base + end - $0.count, $0.baseAddress!, $0.count) == 0 }
  }

  /// The first byte of the copy.
  var start: UnsafeRawPointer { UnsafeRawPointer(base) }

  func free() { base.deallocate() }

  /// The path; encoded until the router has decoded its segments.
  var path: UnsafeRawBufferPointer { slice(pathStart, pathEnd) }

  /// The query without its question mark.
  var query: UnsafeRawBufferPointer { pathEnd < end ? slice(pathEnd + 1, end) : slice(end, end) }

  private func slice(_ start: Int, _ end: Int) -> UnsafeRawBufferPointer {
    UnsafeRawBufferPointer(start: base + start, count: end - start)
  }

  /// Finds path and query, and makes the checks that are possible before decoding.
  mutating func split() throws(Problem) {
    let hash = UInt8(ascii: "#")
    let isForbidden = ByteSearch.finds(in: slice(0, end)) {
      ByteSearch.holds($0, below: 0x21) || ByteSearch.holds($0, 0x7F) || ByteSearch.holds($0, hash)
    } one: {
      $0 <= 0x20 || $0 == 0x7F || $0 == hash
    }
    if isForbidden {
      throw Problem.malformed("the request target holds a character that must be percent-encoded")
    }
    if let mark = memchr(base, Int32(UInt8(ascii: "?")), end) {
      pathEndOffset = UInt32(UnsafeRawPointer(mark) - UnsafeRawPointer(base))
    }
    try skipAuthority()
    if pathEnd < end { try checkQuery() }
  }

  /// Skips scheme and host of an absolute target: `GET http://host/path` means `/path` (RFC 9112, 3.2.2).
  private mutating func skipAuthority() throws(Problem) {
    if end > 0, base[0] == UInt8(ascii: "/") { return }
    if isAsterisk { return }
    for scheme in ["http://", "https://"] as [StaticString] {
      let length = scheme.utf8CodeUnitCount
      guard pathEnd > length,
        strncasecmp(UnsafeRawPointer(base).assumingMemoryBound(to: CChar.self), scheme.cString, length) == 0
      else { continue }
      var start = length
      while start < pathEnd, base[start] != UInt8(ascii: "/") { start += 1 }
      pathStartOffset = UInt32(start)
      if start < pathEnd { return }
    }
    throw Problem.malformed("the request target must begin with a slash")
  }

  /// `OPTIONS *` asks about the server, not about a path.
  var isAsterisk: Bool { end == 1 && base[0] == UInt8(ascii: "*") }

  private func checkQuery() throws(Problem) {
    let percent = UInt8(ascii: "%")
    let isEscaped = ByteSearch.finds(in: query) {
      ByteSearch.holds($0, percent) || ByteSearch.holdsBeyondASCII($0)
    } one: {
      $0 == percent || $0 >= 0x80
    }
    guard isEscaped else { return }
    for item in QueryItems(query) {
      guard Percent.isText(item.encodedName), Percent.isText(item.encodedValue) else {
        throw Problem.malformed("the query holds a bad escape or is not UTF-8")
      }
    }
  }

  // MARK: - Segments

  /// How far a walk over the segments has come.
  struct Walk {
    fileprivate var next: Int
  }

  /// One decoded segment.
  struct Segment {
    fileprivate let start: Int
    let bytes: UnsafeRawBufferPointer
  }

  func startWalk() -> Walk { Walk(next: pathStart) }

  /// The next segment, decoded where it stands; nil at the end.
  func nextSegment(_ walk: inout Walk) throws(Problem) -> Segment? {
    guard walk.next < pathEnd else { return nil }
    let start = walk.next + 1
    var stop = start
    var isPlain = true
    while stop < pathEnd, base[stop] != UInt8(ascii: "/") {
      if base[stop] == UInt8(ascii: "%") || base[stop] >= 0x80 { isPlain = false }
      stop += 1
    }
    walk.next = stop
    if isPlain { return Segment(start: start, bytes: slice(start, stop)) }
    guard let count = Percent.decode(slice(start, stop), into: base + start, plusIsSpace: false),
      Percent.isUTF8(slice(start, start + count))
    else { throw Problem.malformed("the path holds a bad escape or is not UTF-8") }
    return Segment(start: start, bytes: slice(start, start + count))
  }

  /// Stores `segment` as the next path parameter.
  mutating func note(_ segment: Segment) {
    let offset = Int(parameterCount) * 4
    guard offset < RequestTarget.mostParameters * 4 else { return }
    let packed = UInt32(segment.start) << 16 | UInt32(segment.bytes.count)
    withUnsafeMutableBytes(of: &parameters) {
      $0.storeBytes(of: packed, toByteOffset: offset, as: UInt32.self)
    }
    parameterCount += 1
  }

  /// The decoded bytes of the parameter at `index`, counted along the path.
  func parameter(_ index: Int) -> UnsafeRawBufferPointer {
    precondition(index < parameterCount, "the route has no parameter \(index)")
    let packed = withUnsafeBytes(of: parameters) { $0.load(fromByteOffset: index * 4, as: UInt32.self) }
    let start = Int(packed >> 16)
    return slice(start, start + Int(packed & 0xFFFF))
  }
}
