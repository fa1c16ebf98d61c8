@testable import MicroHTTP

/// A request target: its path and query against a plain decoding of the same bytes.
enum QueryHarness {
  static func run(_ input: UnsafeRawBufferPointer) throws {
    let bytes = Array(input.prefix { $0 != 0 }.prefix(7000))
    try bytes.map { CChar(bitPattern: $0) }.withTerminator { text in
      var target = RequestTarget(copying: text)
      defer { target.free() }
      do { try target.split() } catch is Problem { return }
      if target.isAsterisk { return }
      try walk(target)
      try items(target)
    }
  }

  private static func walk(_ target: RequestTarget) throws {
    var target = target
    let path = Array(target.path)
    let raw = path.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).dropFirst()
    var expected = raw.makeIterator()
    var walk = target.startWalk()
    var noted: [[UInt8]] = []
    do {
      while let segment = try target.nextSegment(&walk) {
        guard let text = expected.next() else { throw FuzzFinding("a segment too many") }
        try check(decoded(Array(text), plusIsSpace: false) == Array(segment.bytes), "a segment: \(path)")
        if noted.count < RequestTarget.mostParameters { noted.append(Array(segment.bytes)) }
        target.note(segment)
      }
    } catch is Problem {
      let next = expected.next()
      try check(next.flatMap { decoded(Array($0), plusIsSpace: false) } == nil, "refused a good segment")
      return
    }
    try check(expected.next() == nil, "a segment too few: \(path)")
    for (index, segment) in noted.enumerated() {
      try check(Array(target.parameter(index)) == segment, "parameter \(index) is another: \(path)")
    }
  }

  private static func items(_ target: RequestTarget) throws {
    let raw = Array(target.query).split(separator: UInt8(ascii: "&"))
    let items = Array(QueryItems(target.query))
    try check(raw.count == items.count, "\(items.count) items of \(raw.count)")
    for (text, item) in zip(raw, items) {
      let stop = text.firstIndex(of: UInt8(ascii: "=")) ?? text.endIndex
      let name = decoded(Array(text[..<stop]), plusIsSpace: true)
      let value = decoded(Array(text[min(stop + 1, text.endIndex)...]), plusIsSpace: true)
      try check(name.map { Array(item.name.utf8) == $0 } ?? false, "a name: \(text)")
      try check(value.map { Array(item.value.utf8) == $0 } ?? false, "a value: \(text)")
      try check(item.withValue { Array($0) } == value, "a lent value: \(text)")
      try check(item.isNamed(as: item), "a name is not its own")
      try check(item.isCalled("limit") == (item.name == "limit"), "called limit: \(text)")
      try check(item.hasValue("true") == (item.value == "true"), "has the value true: \(text)")
      try check(item.integer == number(Array(item.encodedValue)), "a number: \(text)")
    }
  }

  /// The plain decoding: nil for a bad escape, a zero byte, or bytes that are not UTF-8.
  private static func decoded(_ text: [UInt8], plusIsSpace: Bool) -> [UInt8]? {
    var bytes: [UInt8] = []
    var rest = text[...]
    while let byte = rest.popFirst() {
      if byte == UInt8(ascii: "+"), plusIsSpace {
        bytes.append(0x20)
      } else if byte == UInt8(ascii: "%") {
        let digits = String(decoding: rest.prefix(2), as: UTF8.self)
        guard digits.utf8.count == 2, digits.utf8.allSatisfy({ $0 != 0x2B && $0 != 0x2D }),
          let number = UInt8(digits, radix: 16), number != 0
        else { return nil }
        bytes.append(number)
        rest = rest.dropFirst(2)
      } else {
        bytes.append(byte)
      }
    }
    return String(validating: bytes, as: UTF8.self) == nil ? nil : bytes
  }

  private static func number(_ text: [UInt8]) -> Int64? {
    let digits = text.first == UInt8(ascii: "-") ? text.dropFirst() : text[...]
    guard (1...19).contains(digits.count), digits.allSatisfy({ (0x30...0x39).contains($0) }) else {
      return nil
    }
    return Int64(String(decoding: text, as: UTF8.self))
  }
}

extension Array where Element == CChar {
  /// Lends the characters with a zero at the end.
  fileprivate func withTerminator<Result>(
    _ body: (UnsafePointer<CChar>) throws -> Result
  ) rethrows -> Result {
    try (self + [0]).withUnsafeBufferPointer { try body($0.baseAddress!) }
  }
}
