import MicroHTTP

/// The kinds of values that settings have, and how each is read.
enum SettingKind: Sendable {
  case text
  /// Text that is not empty where it is given.
  case name
  case path
  /// Text that is kept out of logs and can come from a file.
  case secret
  /// `host:port`
  case address
  /// `host:port`, or nothing.
  case optionalAddress
  /// Host names with commas between them, without ports; the flag may be given several times.
  case hosts
  /// Origins with commas between them, such as `https://files.example.org`.
  case origins
  /// Milliseconds, written `500ms`, `2s`, `5m`, `24h`, `7d` or `0`.
  case duration
  /// The same, of a minute at least.
  case longDuration
  /// Milliseconds ahead or behind, at most ten years, written `+10m`, `-10m` or `0`.
  case offset
  /// Bytes, written `512`, `64KB`, `256MB`, `1GB`; powers of 1024.
  case size
  case number(ClosedRange<Int>)
  case choice([String])
  /// `on` or `off`; the flag alone means on.
  case flag
  /// Values with commas between them.
  case list

  /// What the help shows for the value.
  var placeholder: String {
    switch self {
    case .text, .name: "TEXT"
    case .path: "PATH"
    case .secret: "SECRET"
    case .address, .optionalAddress: "HOST:PORT"
    case .hosts: "HOST,…"
    case .origins: "ORIGIN,…"
    case .duration, .longDuration: "DURATION"
    case .offset: "OFFSET"
    case .size: "SIZE"
    case .number: "N"
    case .choice(let choices): choices.joined(separator: "|")
    case .list: "A,B,…"
    case .flag: "on|off"
    }
  }

  /// Whether an empty text counts as left out.
  var mayBeEmpty: Bool { if case .name = self { false } else { true } }

  /// Reads a value; the failure says what is expected.
  func read(_ text: String) -> Result<SettingValue, SettingError> {
    switch self {
    case .text, .name, .path, .secret: .success(.text(text))
    case .list: .success(.list(text.split(separator: ",").map(String.init)))
    case .optionalAddress: text.isEmpty ? .success(.text(text)) : SettingKind.address.read(text)
    case .hosts: hosts(text)
    case .origins: origins(text)
    case .address:
      ListenAddress(text).map { .success(.address($0)) } ?? expected("host:port, such as 127.0.0.1:8080")
    case .duration:
      SettingKind.scaled(text, SettingKind.durations, atMost: SettingKind.longestDuration).map {
        .success(.number($0))
      }
        ?? expected("a duration such as 500ms, 2s, 5m, 24h or 7d, of ten years at most")
    case .longDuration:
      SettingKind.scaled(text, SettingKind.durations, atMost: SettingKind.longestDuration).flatMap {
        $0 < 60_000 ? nil : .success(.number($0))
      }
        ?? expected("a duration such as 5m, 24h or 7d, of a minute at least and ten years at most")
    case .offset:
      SettingKind.offset(text).map { .success(.number($0)) } ?? expected("an offset such as +10m or -500ms")
    case .size:
      SettingKind.scaled(text, SettingKind.sizes, atMost: SettingKind.largestSize).map {
        .success(.number($0))
      }
        ?? expected("a size such as 64KB, 256MB or 1GB, of 9223372036854775807 bytes at most")
    case .number(let range):
      Int(text).flatMap { range.contains($0) ? .success(.number($0)) : nil }
        ?? expected("a number from \(range.lowerBound) to \(range.upperBound)")
    case .flag:
      ["on", "off"].contains(text) ? .success(.text(text)) : expected("on or off")
    case .choice(let choices):
      choices.contains(text)
        ? .success(.text(text)) : expected("one of \(choices.joined(separator: ", "))")
    }
  }

  private func origins(_ text: String) -> Result<SettingValue, SettingError> {
    let origins = text.split(separator: ",").map(String.init)
    return origins.allSatisfy { $0.wholeMatch(of: #/https?:\/\/[A-Za-z0-9.\[\]:-]+/#) != nil }
      ? .success(.list(origins)) : expected("origins such as https://files.example.org")
  }

  private func hosts(_ text: String) -> Result<SettingValue, SettingError> {
    let names = text.split(separator: ",").map(String.init)
    let isName = { (name: String) in
      name.utf8.allSatisfy { byte in
        (48...57).contains(byte) || (65...90).contains(byte) || (97...122).contains(byte)
          || ".-_".utf8.contains(byte)
      }
    }
    return names.allSatisfy(isName)
      ? .success(.list(names)) : expected("host names without ports, such as demo.example.org,10.0.0.5")
  }

  private func expected(_ text: String) -> Result<SettingValue, SettingError> {
    .failure(SettingError(description: text))
  }

  /// The longest duration (ms): ten years. Added to any moment, also in nanoseconds, it does not overflow.
  private static let longestDuration = 3650 * 86_400_000
  /// Bytes of the largest size.
  private static let largestSize = Int.max

  private static let durations = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)]
  private static let sizes = [("KB", 1024), ("MB", 1 << 20), ("GB", 1 << 30), ("", 1)]

  private static func offset(_ text: String) -> Int? {
    let isNegative = text.hasPrefix("-")
    let size = isNegative || text.hasPrefix("+") ? String(text.dropFirst()) : text
    let milliseconds = scaled(size, durations, atMost: longestDuration)
    return milliseconds.map { isNegative ? -$0 : $0 }
  }

  private static func scaled(
    _ text: String, _ units: [(suffix: String, factor: Int)], atMost most: Int
  ) -> Int? {
    if text == "0" { return 0 }
    for (suffix, factor) in units where text.hasSuffix(suffix) {
      let digits = text.dropLast(suffix.count)
      guard !digits.isEmpty, digits.utf8.allSatisfy({ (48...57).contains($0) }), let count = Int(digits)
      else { continue }
      let (product, isTooLarge) = count.multipliedReportingOverflow(by: factor)
      return isTooLarge || product > most ? nil : product
    }
    return nil
  }
}
