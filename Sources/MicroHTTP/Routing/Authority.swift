/// The host of a `Host` header, read byte by byte, so that `127.0.0.1.example.org` is not taken for an
/// address.
struct Authority {
  private let host: [UInt8]

  /// A host without a port; IPv6 without brackets.
  init(host: [UInt8]) { self.host = host.map(Authority.lower) }

  /// Reads `host`, `host:port`, `[v6]` or `[v6]:port`; nil for anything else.
  init?(_ header: UnsafeRawBufferPointer) {
    var host = header[...]
    var rest = host[host.endIndex...]
    if host.first == UInt8(ascii: "[") {
      guard let end = host.firstIndex(of: UInt8(ascii: "]")) else { return nil }
      rest = host[(end + 1)...]
      host = host[(host.startIndex + 1)..<end]
      guard host.contains(UInt8(ascii: ":")) else { return nil }
    } else if let colon = host.firstIndex(of: UInt8(ascii: ":")) {
      rest = host[colon...]
      host = host[..<colon]
    }
    let isPort = rest.first == UInt8(ascii: ":") && rest.dropFirst().allSatisfy { (48...57).contains($0) }
    guard rest.isEmpty || isPort, !host.isEmpty else { return nil }
    self.init(host: Array(host))
  }

  static func lower(_ byte: UInt8) -> UInt8 { (65...90).contains(byte) ? byte | 0x20 : byte }

  /// Compares the host with `name`, ignoring case.
  func isNamed(_ name: String) -> Bool { host.elementsEqual(name.utf8.lazy.map(Authority.lower)) }

  var isLoopback: Bool {
    if isNamed("localhost") || isNamed("::1") { return true }
    let numbers = host.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    return numbers.count == 4 && numbers[0].elementsEqual("127".utf8)
      && numbers.allSatisfy { digits in
        (1...3).contains(digits.count) && digits.allSatisfy { (48...57).contains($0) }
          && digits.reduce(0) { $0 * 10 + Int($1 - 48) } <= 255
      }
  }
}
