import ChatModel

/// Up to when members have read a channel (ms), as an answer of the upstream says.
///
/// Each member of a large room gets an answer with the positions of all, and mostly they are those of the
/// answer before. So they are read into one piece, and `digest` tells whether they may be others than before.
package struct ReadReceipts: Sendable, Equatable, ExpressibleByDictionaryLiteral {
  private var names: [UInt8] = []
  private var items: [(nameEnd: Int, moment: Int64)] = []
  /// Equal for answers with equal positions, in whatever order.
  package private(set) var digest: Int64 = 0

  /// How many positions there are.
  package var count: Int { items.count }

  /// The positions of these users.
  package init(dictionaryLiteral items: (ExactText, Int64)...) {
    self.init(Dictionary(uniqueKeysWithValues: items))
  }

  /// The positions by user.
  package init(_ positions: [ExactText: Int64] = [:]) {
    for (user, moment) in positions {
      var name = user.text
      name.withUTF8 { append(UnsafeRawBufferPointer($0), moment) }
    }
  }

  /// Adds the position of a user with this name.
  package mutating func append(_ name: UnsafeRawBufferPointer, _ moment: Int64) {
    names += name
    items.append((names.count, moment))
    // FNV-1a of the name, mixed with the time as splitmix64 does.
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    for byte in name { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
    hash = (hash ^ UInt64(bitPattern: moment)) &+ 0x9e37_79b9_7f4a_7c15
    hash = (hash ^ hash >> 30) &* 0xbf58_476d_1ce4_e5b9
    hash = (hash ^ hash >> 27) &* 0x94d0_49bb_1331_11eb
    digest &+= Int64(bitPattern: hash ^ hash >> 31)
  }

  /// The positions by user. If a user came twice, the last one counts.
  package var positions: [ExactText: Int64] {
    var found: [ExactText: Int64] = [:]
    found.reserveCapacity(items.count)
    var start = 0
    for (end, moment) in items {
      found[ExactText(String(decoding: names[start..<end], as: UTF8.self))] = moment
      start = end
    }
    return found
  }

  /// Whether both have the same positions.
  package static func == (one: ReadReceipts, other: ReadReceipts) -> Bool { one.positions == other.positions }
}
