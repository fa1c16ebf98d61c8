import Glibc

/// Lines of JSON on stderr. A reader that stalls does not delay the callers (`LogQueue`).
///
/// Values are text or numbers. Callers never log secrets.
package enum Log {
  /// The severity of a line.
  package enum Level: String, Sendable, CaseIterable, Comparable {
    case debug, info, warning, error

    private var rank: Int { Level.allCases.firstIndex(of: self)! }
    package static func < (a: Level, b: Level) -> Bool { a.rank < b.rank }
  }

  /// One value of a line.
  package enum Field: Sendable, ExpressibleByStringLiteral, ExpressibleByIntegerLiteral {
    case text(String)
    case number(Int64)
    /// A literal text.
    package init(stringLiteral value: String) { self = .text(value) }
    /// A literal number.
    package init(integerLiteral value: Int64) { self = .number(value) }
  }

  private static let threshold = Guarded(Level.info)

  /// The queue of lines for stderr. All code that writes lines there uses it, so that only one thread waits
  /// for the reader.
  package static let queue = LogQueue(file: STDERR_FILENO)

  /// Lines below `level` are not written from now on.
  package static func setLevel(_ level: Level) { threshold.withLock { $0 = level } }

  /// Writes `{"at":…,"level":…,"event":…, fields…}`.
  package static func line(
    _ level: Level, _ event: StaticString, _ fields: KeyValuePairs<StaticString, Field> = [:]
  ) {
    guard level >= threshold.withLock({ $0 }) else { return }
    var line = ByteBuffer(capacity: 256)
    line.append("{\"at\":")
    line.append(decimal: Clock.system.wallMilliseconds())
    line.append(",\"level\":\"")
    line.append(level.rawValue)
    line.append("\",\"event\":\"")
    line.append(event)
    line.append("\"")
    for (name, value) in fields {
      line.append(",\"")
      line.append(name)
      line.append("\":")
      switch value {
      case .number(let number): line.append(decimal: number)
      case .text(let text): line.append(quoted: text)
      }
    }
    line.append("}\n")
    queue.add(.event) { $0.append(line.bytes) }
  }
}

extension ByteBuffer {
  /// Appends `text` as a JSON string with its quotes.
  package mutating func append(quoted text: String) {
    var text = text
    text.withUTF8 { append(quoted: UnsafeRawBufferPointer($0)) }
  }

  /// Appends UTF-8 as a JSON string with its quotes, escaping only what JSON demands.
  public mutating func append(quoted utf8: UnsafeRawBufferPointer) {
    reserve(utf8.count + 2)
    append(UInt8(ascii: "\""))
    var start = 0
    for index in 0..<utf8.count {
      let byte = utf8[index]
      guard byte < 0x20 || byte == 0x22 || byte == 0x5C else { continue }
      append(UnsafeRawBufferPointer(rebasing: utf8[start..<index]))
      start = index + 1
      append(escape: byte)
    }
    append(UnsafeRawBufferPointer(rebasing: utf8[start..<utf8.count]))
    append(UInt8(ascii: "\""))
  }

  private mutating func append(escape byte: UInt8) {
    switch byte {
    case 0x22: append("\\\"")
    case 0x5C: append("\\\\")
    case 0x0A: append("\\n")
    case 0x0D: append("\\r")
    case 0x09: append("\\t")
    default:
      append("\\u00")
      for nibble in [byte >> 4, byte & 15] { append(nibble < 10 ? 0x30 + nibble : 0x57 + nibble) }
    }
  }
}
