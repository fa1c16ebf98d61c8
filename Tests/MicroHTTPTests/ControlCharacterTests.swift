import Testing

@testable import MicroHTTP

@Suite struct ControlCharacterTests {
  @Test("a control character is found wherever it stands, and nothing else is taken for one")
  func everywhere() {
    for length in 0...18 {
      for filler in [UInt8(0x20), 0x41, 0x7E, 0x80, 0xFF] {
        let plain = [UInt8](repeating: filler, count: length)
        #expect(!plain.withUnsafeBytes(holdsControl))
        for offset in 0..<length {
          for byte in UInt8.min...UInt8.max {
            var bytes = plain
            bytes[offset] = byte
            let isControl = byte < 0x20 && byte != 0x09 || byte == 0x7F
            #expect(bytes.withUnsafeBytes(holdsControl) == isControl, "\(byte) at \(offset) of \(length)")
          }
        }
      }
    }
  }

  @Test("a name may hold the characters that RFC 9110 counts, and no others")
  func names() {
    let marks = Array("!#$%&'*+-.^_`|~".utf8)
    for byte in UInt8.min...UInt8.max {
      let isLetter = (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
      let isCounted = isLetter || (0x30...0x39).contains(byte) || marks.contains(byte)
      for name in [[byte], [0x41, byte], [byte, 0x41]] {
        #expect(name.withUnsafeBytes(isToken) == isCounted, "\(byte)")
      }
    }
    #expect(![].withUnsafeBytes(isToken))
  }
}
