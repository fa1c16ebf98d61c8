import ChatModel
import Testing

@testable import ChatCache

/// The positions of one answer, and their digest.
@Suite struct ReadReceiptsTests {
  private func receipts(_ items: [(String, Int64)]) -> ReadReceipts {
    var receipts = ReadReceipts()
    for (name, moment) in items {
      Array(name.utf8).withUnsafeBytes { receipts.append($0, moment) }
    }
    return receipts
  }

  @Test("B11: the digest is that of the positions, in whatever order they come")
  func digest() {
    let items = (0..<500).map { ("u\($0)", Int64($0)) }
    let digest = receipts(items).digest
    #expect(receipts(items.shuffled()).digest == digest)
    for changed in 0..<500 {
      var other = items
      other[changed].1 += 1
      #expect(receipts(other).digest != digest)
      other = items
      other[changed].0 += "x"
      #expect(receipts(other).digest != digest)
      other = items
      other.remove(at: changed)
      #expect(receipts(other).digest != digest)
    }
    // Two users who change places are other positions.
    #expect(receipts([("a", 1), ("b", 2)]).digest != receipts([("a", 2), ("b", 1)]).digest)
    #expect(receipts([("a", 1)]).digest != receipts([("A", 1)]).digest)
  }

  @Test("B1: users whose names look alike are two, and of one user's positions the last counts")
  func positions() {
    let alike = receipts([("K", 1), ("\u{212a}", 2), ("", 3), ("K", 4)])
    #expect(alike.positions == ["K": 4, "\u{212a}": 2, "": 3])
    #expect(ReadReceipts(["K": 4, "\u{212a}": 2, "": 3]) == alike)
    #expect(ReadReceipts().positions.isEmpty)
  }
}
