import Glibc
import Platform
import SQLite

/// Earlier states of the database, for answers like those of an old replica: copies that are made before
/// writes while a fault needs them.
final class Past {
  private struct Copy {
    /// The last moment (monotonic ns) at which the database was as in the copy.
    let until: UInt64
    let connection: Connection
  }

  private static let copiesAtOnce = 8

  /// How far back the copies go.
  let milliseconds: Int64
  private let clock: Clock
  private let folder: String
  private var copies: [Copy] = []
  private var made = 0

  init(milliseconds: Int64, folder: String, clock: Clock) {
    self.milliseconds = milliseconds
    self.folder = folder
    self.clock = clock
  }

  private var reach: UInt64 { UInt64(max(0, milliseconds)) * 1_000_000 }

  /// Copies the present state, just before it changes.
  func keep(_ writer: Connection) throws {
    let now = clock.monotonicNanoseconds()
    let gap = reach / UInt64(Past.copiesAtOnce)
    if let last = copies.last, now < last.until + gap { return }
    made += 1
    let mine = UInt(bitPattern: ObjectIdentifier(self).hashValue)
    let path = "\(folder)/perch-past-\(getpid())-\(mine)-\(made)"
    try writer.execute("VACUUM INTO '\(path)'")
    defer { unlink(path) }
    copies.append(Copy(until: now, connection: try Connection(path: path)))
    let oldest = now > reach ? now - reach : 0
    while copies.count > 1, copies[0].until < oldest { copies.removeFirst() }
  }

  /// The state of so many ms ago, or the next newer one that was kept; nil: the present state.
  func state(milliseconds: Int64) -> Connection? {
    let now = clock.monotonicNanoseconds()
    let wanted = now - min(now, UInt64(max(0, milliseconds)) * 1_000_000)
    return copies.first { $0.until >= wanted }?.connection
  }
}
