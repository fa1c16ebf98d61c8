/// The bytes that the spool holds and has reserved, and the files that no row names. A value.
///
/// A file is *open* from its first byte until the commit of its row is durable or has failed. The janitor
/// lists the folder, then asks which files are open, and reads the rows last. A file that is then neither
/// open nor named by a row is an orphan, whatever happened meanwhile.
struct SpoolRoom: Equatable {
  /// The most bytes that the spool may hold.
  let most: Int
  /// The bytes of files, and the bytes reserved for arriving files.
  private(set) var bytes = 0
  /// The bytes of files that are whole.
  private var wholeBytes = 0
  /// The size of each file that is whole.
  private var sizes: [SpoolName: Int] = [:]
  /// Open files: no durable row names them yet.
  private(set) var open: Set<SpoolName> = []

  init(most: Int) { self.most = most }

  /// The number of files that are whole.
  var count: Int { sizes.count }

  /// The bytes of the disk that files leave free: the database needs them for its commits.
  static let leftFree = 32 << 20

  /// Whether there is room for `count` more bytes. `free`: the free bytes of the disk.
  func hasRoom(for count: Int, free: Int) -> Bool {
    let arriving = bytes - wholeBytes
    return count >= 0 && count <= most - bytes && count <= free - SpoolRoom.leftFree - arriving
  }

  /// Reserves room for `count` more bytes. False: there is not enough.
  mutating func promise(_ count: Int, free: Int) -> Bool {
    guard hasRoom(for: count, free: free) else { return false }
    bytes += count
    return true
  }

  /// Releases reserved room that is not needed.
  mutating func giveBack(_ count: Int) { bytes -= count }

  /// A file begins to arrive.
  mutating func opened(_ name: SpoolName) { open.insert(name) }

  /// The file is whole. `promised`: the room that was reserved for it.
  mutating func filled(_ name: SpoolName, size: Int, promised: Int) {
    bytes += size - promised
    wholeBytes += size
    sizes[name] = size
  }

  /// The file's row is stored, or may be.
  mutating func settled(_ name: SpoolName) { open.remove(name) }

  /// The file was removed: its room is free again.
  mutating func removed(_ name: SpoolName) {
    open.remove(name)
    let size = sizes.removeValue(forKey: name) ?? 0
    bytes -= size
    wholeBytes -= size
  }

  /// Adds a file of an earlier run that was found in the folder.
  mutating func found(_ name: SpoolName, size: Int) {
    guard !open.contains(name), sizes[name] == nil else { return }
    sizes[name] = size
    bytes += size
    wholeBytes += size
  }

  /// The files to remove. `listed`: the folder's files, read before `open`. `rows`: the files that rows name,
  /// read after `open`.
  static func orphans(listed: [SpoolName], open: Set<SpoolName>, rows: Set<SpoolName>) -> [SpoolName] {
    listed.filter { !open.contains($0) && !rows.contains($0) }
  }
}
