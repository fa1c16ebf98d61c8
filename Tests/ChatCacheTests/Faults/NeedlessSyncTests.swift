import Glibc
import SQLite
import Testing

@testable import ChatCache

/// A restart of the WAL syncs what is not synced yet, and nothing twice.
@Suite struct NeedlessSyncTests {
  /// The writer of a new database, with one row committed under `synchronous`.
  private static func writer(in folder: String, synchronous: String) throws -> Connection {
    mkdir(folder, 0o700)
    let connection = try Connection(path: folder + "/perch.db")
    try Pragmas.prepareWriter(connection)
    try connection.execute("CREATE TABLE filler (content BLOB)")
    try connection.syncWALOnce()
    try connection.execute("PRAGMA synchronous = \(synchronous)")
    try connection.execute("INSERT INTO filler (content) VALUES (zeroblob(100))")
    try connection.execute("PRAGMA synchronous = FULL")
    return connection
  }

  /// Whether a restart of the WAL needs so many syncs: whether the last of them can fail.
  private static func needs(_ syncs: Int, _ connection: Connection, in folder: String) -> Bool {
    let fault = Disk(failing: .sync, in: folder, at: syncs, code: 1034)
    // `try?`: whether it failed is whether the fault struck.
    _ = try? connection.checkpoint(.restart)
    return fault.heal()
  }

  @Test("B60: a WAL that its commit has synced is not synced again before it is copied; the file is")
  func synced() throws {
    let folder = Disk.folder()
    let connection = try Self.writer(in: folder, synchronous: "FULL")
    #expect(!Self.needs(2, connection, in: folder))
    try connection.execute("INSERT INTO filler (content) VALUES (zeroblob(100))")
    #expect(Self.needs(1, connection, in: folder))
  }

  @Test("B60: a WAL that is not synced, or whose sync failed, is synced before it is copied")
  func unsynced() throws {
    let folder = Disk.folder()
    let connection = try Self.writer(in: folder, synchronous: "NORMAL")
    #expect(Self.needs(1, connection, in: folder), "the sync of the WAL")
    #expect(Self.needs(2, connection, in: folder), "that of the WAL once more, and that of the file")
  }
}
