import Platform
import Testing

@Suite struct DecimalTextTests {
  private func read(_ text: String) -> Int64? {
    Array(text.utf8).withUnsafeBytes { DecimalText.read($0) }
  }

  @Test("every written number is read again")
  func roundTrip() {
    var numbers: [Int64] = [0, 9, 10, 99, 100, .max, .max - 1]
    for bits in 0..<63 { numbers += [1 << bits, .random(in: 0...(1 << bits))] }
    for number in numbers {
      var bytes = [UInt8](repeating: 0x78, count: 24)
      let end = bytes.withUnsafeMutableBytes {
        DecimalText.write(UInt64(number), into: $0.baseAddress!, at: 2)
      }
      #expect(String(decoding: bytes[2..<end], as: UTF8.self) == "\(number)")
      #expect(bytes[..<2].allSatisfy { $0 == 0x78 } && bytes[end...].allSatisfy { $0 == 0x78 })
      #expect(read("\(number)") == number && read("-\(number)") == -number)
      #expect(read("000\(number)") == number)
    }
    #expect(read("\(Int64.min)") == .min)
  }

  @Test(
    "what is no number of 64 bits is not read",
    arguments: [
      "", "-", "+1", " 1", "1 ", "1.0", "1e3", "0x1", "--1", "1-", "9223372036854775808",
      "-9223372036854775809", "99999999999999999999999", "\u{661}",
    ])
  func refused(text: String) { #expect(read(text) == nil) }
}
