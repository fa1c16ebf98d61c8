import JSON
import Testing

/// Reading through simdjson and writing by splicing.
@Suite struct JSONTests {
  private func read<Result>(_ text: String, _ body: (JSONValue) throws -> Result) throws -> Result {
    try JSONParser().parse(text, body)
  }

  private func again(_ text: String) throws -> String {
    try read(text) { value in
      var writer = JSONWriter()
      writer.value(value)
      return String(decoding: writer.finish().array, as: UTF8.self)
    }
  }

  @Test("every kind of value is told apart and read")
  func kinds() throws {
    let text =
      #"{"o":{},"a":[1,2],"s":"x","i":-7,"u":18446744073709551615,"d":1.5e3,"t":true,"f":false,"n":null}"#
    try read(text) { root in
      #expect(root.kind == .object && root["o"]?.kind == .object && root["a"]?.kind == .array)
      #expect(root["s"]?.string == "x" && root["i"]?.int64 == -7 && root["d"]?.double == 1500)
      #expect(root["t"]?.bool == true && root["f"]?.bool == false && root["n"]?.isNull == true)
      #expect(root["missing"] == nil && root["s"]?["x"] == nil && root["s"]?.int64 == nil)
      #expect(root["a"]?.items.compactMap(\.int64) == [1, 2] && Array(root.items).isEmpty)
      #expect(root["u"]?.int64 == nil, "a number beyond 64 signed bits is no number here")
      #expect(root.field(named: "i")?.int64 == -7)
      let names = root.fields.map { String(decoding: $0.name, as: UTF8.self) }
      #expect(names == ["o", "a", "s", "i", "u", "d", "t", "f", "n"])
    }
  }

  @Test("the whole range of 64 bits is read exactly")
  func numbers() throws {
    for number in [0, 1, -1, Int64.max, Int64.min, 9_007_199_254_740_993] {
      #expect(try read("[\(number)]") { $0.items.first { _ in true }?.int64 } == number)
      #expect(try again("[\(number)]") == "[\(number)]")
    }
    #expect(try read("[1.0]") { $0.items.first { _ in true }?.int64 } == nil)
    #expect(try read("[0.1]") { $0.items.first { _ in true }?.double } == 0.1)
  }

  @Test("escapes are read and written, down to control characters and surrogate pairs")
  func escapes() throws {
    let text = #""\"\\\/\b\f\n\r\t\u0041\u00e9\ud83d\udc26\u0000""#
    #expect(try read(text) { $0.string } == "\"\\/\u{8}\u{c}\n\r\tAé\u{1F426}\0")
    let all =
      String(String.UnicodeScalarView((0..<0x80).compactMap(Unicode.Scalar.init))) + "é\u{1F426}\u{2028}"
    var writer = JSONWriter()
    writer.value(all)
    let written = String(decoding: writer.finish().array, as: UTF8.self)
    #expect(try read(written) { $0.string } == all)
    #expect(!written.utf8.contains { $0 < 0x20 })
  }

  @Test(
    "what is not JSON is refused, and the parser goes on",
    arguments: [
      "", " ", "{", "}", "[", "[1,]", "[1 2]", "{\"a\"}", "{\"a\":}", "{a:1}", "{'a':1}", "nul", "tru", "01",
      "1.",
      ".5", "+1", "1e", "-", "NaN", "Infinity", "\"", "\"\\x\"", "\"\\u12\"", "\"\\ud800\"", "\"\n\"", "[1]]",
      "{\"a\":1,}", "[1]x", "\u{FEFF}[", "/* */1", "{\"a\":1 \"b\":2}",
    ])
  func invalid(text: String) throws {
    let parser = JSONParser()
    #expect(throws: JSONError.self, "\(text)") { try parser.parse(text) { _ in } }
    #expect(try parser.parse("[1]") { $0.items.compactMap(\.int64) } == [1])
  }

  @Test(
    "B65: a number that does not fit is told apart from other faults",
    arguments: [
      ("[9223372036854775808]", false), ("[18446744073709551616]", true), ("[-9223372036854775809]", true),
      ("{\"a\":1.}", true), ("{\"a\":1", false),
    ])
  func numbers(text: String, isOfNumber: Bool) throws {
    do {
      try JSONParser().parse(text) { _ in }
      #expect(text == "[9223372036854775808]", "\(text) is refused")
    } catch let error as JSONError { #expect(error.isOfNumber == isOfNumber, "\(text)") }
  }

  @Test("bytes that are no UTF-8 are refused")
  func utf8() {
    for bad: [UInt8] in [[0x22, 0xFF, 0x22], [0x22, 0xC0, 0x80, 0x22], [0x22, 0xED, 0xA0, 0x80, 0x22]] {
      #expect(throws: JSONError.self) {
        try bad.withUnsafeBytes { try JSONParser().parse($0) { _ in } }
      }
    }
  }

  @Test("deep nesting is refused, not a crash")
  func depth() {
    let text = String(repeating: "[", count: 100_000) + String(repeating: "]", count: 100_000)
    #expect(throws: JSONError.self) { try JSONParser().parse(text) { _ in } }
  }

  @Test("a parser is used again for documents of any size")
  func reuse() throws {
    let parser = JSONParser()
    for count in [1, 100_000, 3, 50_000] {
      let text = "[" + (0..<count).map(String.init).joined(separator: ",") + "]"
      #expect(
        try parser.parse(text) { $0.items.reduce(0) { $0 + ($1.int64 ?? -1) } }
          == Int64(count * (count - 1) / 2))
    }
  }

  @Test("commas stand between values and fields, and nowhere else")
  func writing() throws {
    var writer = JSONWriter(capacity: 1)
    writer.beginObject()
    writer.name("empty")
    writer.beginObject()
    writer.endObject()
    writer.name("list")
    writer.beginArray()
    writer.value(Int64.min)
    writer.value(true)
    writer.null()
    writer.value(plain: "plain")
    writer.value(quoting: 7)
    writer.value(1.25)
    writer.beginArray()
    writer.endArray()
    writer.endArray()
    writer.field("a \u{1F426}", "say \"hi\"")
    writer.endObject()
    let text = String(decoding: writer.finish().array, as: UTF8.self)
    #expect(
      text
        == #"{"empty":{},"list":[-9223372036854775808,true,null,"plain","7",1.25,[]],"a \#u{1F426}":"say \"hi\""}"#
    )
    #expect(try again(text) == text)
  }

  @Test("stored values and fields are spliced as they are, and empty fields leave no comma")
  func splicing() {
    var writer = JSONWriter()
    writer.beginObject()
    Array(#""a":1,"b":[2]"#.utf8).withUnsafeBytes { writer.splice(fields: $0) }
    Array("".utf8).withUnsafeBytes { writer.splice(fields: $0) }
    writer.name("c")
    Array(#"{"d":"e"}"#.utf8).withUnsafeBytes { writer.splice($0) }
    writer.field("f", 3)
    writer.endObject()
    #expect(String(decoding: writer.finish().array, as: UTF8.self) == #"{"a":1,"b":[2],"c":{"d":"e"},"f":3}"#)
  }

  @Test("what is written reads back as itself, over 2 000 random documents")
  func roundTrip() throws {
    var random = Numbers(state: 42)
    for round in 0..<2000 {
      var writer = JSONWriter()
      Self.write(&writer, &random, depth: 0)
      let text = String(decoding: writer.finish().array, as: UTF8.self)
      #expect(try again(text) == text, "round \(round)")
    }
  }

  private static func write(_ writer: inout JSONWriter, _ random: inout Numbers, depth: Int) {
    switch random.next() % (depth > 4 ? 5 : 7) {
    case 0: writer.value(Int64(bitPattern: random.next()))
    case 1: writer.value(random.next() % 2 == 0)
    case 2: writer.null()
    case 3: writer.value(Double(random.next() % 1000) / 8 + 0.5)
    case 4:
      let scalars = (0..<random.next() % 12).compactMap { _ in
        Unicode.Scalar(UInt32(random.next() % 0x11_0000))
      }
      writer.value(String(String.UnicodeScalarView(scalars)))
    case 5:
      writer.beginArray()
      for _ in 0..<random.next() % 5 { write(&writer, &random, depth: depth + 1) }
      writer.endArray()
    default:
      writer.beginObject()
      for number in 0..<random.next() % 5 {
        Array("k\"\(number)".utf8).withUnsafeBytes { writer.name($0) }
        write(&writer, &random, depth: depth + 1)
      }
      writer.endObject()
    }
  }

  private struct Numbers {
    var state: UInt64
    mutating func next() -> UInt64 {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return state ^ (state >> 33)
    }
  }
}
