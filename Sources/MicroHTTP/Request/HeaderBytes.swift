/// Whether a control character other than a tab is among the bytes.
func holdsControl(_ bytes: UnsafeRawBufferPointer) -> Bool {
  ByteSearch.finds(in: bytes) {
    ByteSearch.holds($0, below: 0x20) || ByteSearch.holds($0, 0x7F)
  } one: {
    $0 < 0x20 && $0 != 0x09 || $0 == 0x7F
  }
}

/// Whether the bytes are a token of RFC 9110, 5.6.2.
func isToken(_ bytes: UnsafeRawBufferPointer) -> Bool {
  // One bit for each character from the space on: letters, digits and !#$%&'*+-.^_`|~.
  for byte in bytes {
    let letters: UInt64 = 0x57FF_FFFF_C7FF_FFFE
    let others: UInt64 = 0x03FF_6CFA_0000_0000
    let bits = byte & 0x40 == 0 ? others : letters
    guard byte < 0x80, bits >> UInt64(byte & 0x3F) & 1 == 1 else { return false }
  }
  return !bytes.isEmpty
}
