/// What the spool holds and has promised room for, and which of its files belong to nobody. A value.
///
/// A file is *open* from its first byte until the commit of its row is durable or has failed. The look of the
/// janitor lists the folder, asks which files are open, and only then reads the rows: so a file that is
/// neither open nor of a row belongs to nobody, whatever happened meanwhile.
struct SpoolRoom: Equatable {
  /// Bytes at most.
  let most: Int
  /// Bytes of files, and bytes that were promised to files that are coming in.
  private(set) var bytes = 0
  /// The bytes of each file that is whole.
  private var sizes: [SpoolName: Int] = [:]
  /// Files that no row names yet.
  private(set) var open: Set<SpoolName> = []

  init(most: Int) { self.most = most }

  /// The number of files that are whole.
  var count: Int { sizes.count }

  /// Promises room for so many more bytes; false where there is not so much.
  mutating func promise(_ count: Int) -> Bool {
    guard count >= 0, count <= most - bytes else { return false }
    bytes += count
    return true
  }

  /// Room that was promised is not needed.
  mutating func giveBack(_ count: Int) { bytes -= count }

  /// A file begins to come in.
  mutating func opened(_ name: SpoolName) { open.insert(name) }

  /// The file is whole; `promised`: the room it was promised.
  mutating func filled(_ name: SpoolName, size: Int, promised: Int) {
    bytes += size - promised
    sizes[name] = size
  }

  /// The file's row is stored, or may be.
  mutating func settled(_ name: SpoolName) { open.remove(name) }

  /// The file is gone.
  mutating func removed(_ name: SpoolName) {
    open.remove(name)
    bytes -= sizes.removeValue(forKey: name) ?? 0
  }

  /// Takes in a file that was found in the folder, from an earlier run.
  mutating func found(_ name: SpoolName, size: Int) {
    guard !open.contains(name), sizes[name] == nil else { return }
    sizes[name] = size
    bytes += size
  }

  /// The files that belong to nobody. `listed`: what the folder held before `open` was asked; `rows`: what
  /// rows name, read after that.
  static func orphans(listed: [SpoolName], open: Set<SpoolName>, rows: Set<SpoolName>) -> [SpoolName] {
    listed.filter { !open.contains($0) && !rows.contains($0) }
  }
}
