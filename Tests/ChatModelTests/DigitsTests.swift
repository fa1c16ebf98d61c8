import ChatModel
import Testing

@Suite struct DigitsTests {
  @Test("the id of a message is 1 to 18 digits")
  func messageIDs() {
    #expect(Digits.messageID("0") == 0)
    #expect(Digits.messageID("999999999999999999") == Limits.messageIDs.upperBound)
    for text in ["", "-5", "+5", "1000000000000000000", "9223372036854775807", "5 ", "5.0", "٥"] {
      #expect(Digits.messageID(text) == nil)
    }
  }

  @Test("hexadecimal digits are those everybody writes, and only those are read")
  func writesAndReadsHex() {
    var random = SystemRandomNumberGenerator()
    var numbers: [UInt64] = [0, 1, 9, 10, 15, 16, .max, 0x0123_4567_89AB_CDEF, 0x9A9A_9A9A_9A9A_9A9A]
    numbers += (0..<1000).map { _ in random.next() >> UInt64.random(in: 0..<64) }
    for number in numbers {
      let plain = String(number, radix: 16)
      let wanted = String(repeating: "0", count: 16 - plain.count) + plain
      let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 18, alignment: 1)
      defer { room.deallocate() }
      Digits.writeHex(number, into: room, at: 1)
      #expect(String(decoding: room[1..<17], as: UTF8.self) == wanted)
      #expect(Digits.readHex(UnsafeRawBufferPointer(room)[1..<17]) == number)
      // Every other byte at one offset is refused.
      let offset = Int.random(in: 1..<17)
      for byte in UInt8.min...UInt8.max where !"0123456789abcdef".utf8.contains(byte) {
        room[offset] = byte
        #expect(Digits.readHex(UnsafeRawBufferPointer(room)[1..<17]) == nil, "\(byte) at \(offset)")
      }
      #expect(Digits.readHex(UnsafeRawBufferPointer(room)[1..<16]) == nil)
    }
  }
}
