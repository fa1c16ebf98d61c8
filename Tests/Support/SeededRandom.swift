/// Random numbers that are the same for the same seed (SplitMix64), so that a failure can be repeated.
///
/// The state begins at the seed itself. Each step adds a large odd number, so the sequences of neighbouring
/// seeds are far apart. If the seed were multiplied by that number, each seed would have its neighbour's
/// sequence, one step later.
package struct SeededRandom: RandomNumberGenerator {
  private var state: UInt64

  /// The numbers of a seed.
  package init(seed: UInt64) { state = seed }

  /// The next number.
  package mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }

  /// True in `percent` of a hundred calls.
  package mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &self) < percent }

  /// A random item. There must be at least one.
  package mutating func one<Element>(of items: [Element]) -> Element {
    items[Int.random(in: 0..<items.count, using: &self)]
  }
}
