import SQLite

/// Why a call of the cache failed. The description says what to do next.
package enum CacheError: Error, CustomStringConvertible {
  /// Another process owns the data directory.
  case lockedBy(pid: Int32, path: String)
  /// The file was written by a newer version.
  case newerSchema(found: Int64, known: Int64)
  /// The directory belongs to another upstream (B65).
  case boundElsewhere(to: String, asked: String)
  /// The disk is full or failing, or another process holds the lock: nothing was stored (B60).
  case storage(SQLiteError)
  /// The commit failed: whether it was stored is not known (B60).
  case outcomeUnknown(SQLiteError)
  /// Too many writes wait for the disk: nothing was stored.
  case tooManyWaiting
  /// The file is damaged.
  case corrupt(SQLiteError)
  /// The service is stopping: nothing was stored.
  case stopping
  /// A row has data that this program cannot read.
  case unreadable(String)
  /// Something was stored in the channel, and whether the user is still in it is not known (`KnownRights`).
  case rightsUnknown
  /// A directory or file could not be made or opened.
  case file(path: String, reason: String)

  /// The case for an error of SQLite.
  package init(_ error: SQLiteError) {
    self = error.kind == .corrupt ? .corrupt(error) : .storage(error)
  }

  /// Whether the same call can succeed later without help.
  package var isTransient: Bool {
    switch self {
    case .storage, .outcomeUnknown, .tooManyWaiting: true
    default: false
    }
  }

  /// The fault, and what to do next.
  package var description: String {
    switch self {
    case .lockedBy(let pid, let path):
      "\(path) is in use by process \(pid): stop it first, or use another data directory"
    case .newerSchema(let found, let known):
      "the database has schema \(found), this program knows up to \(known): start a newer version"
    case .boundElsewhere(let bound, let asked):
      "the data directory belongs to \(bound), not to \(asked): use another data directory for it"
    case .storage(let error): "the database could not be read or written: \(error)"
    case .outcomeUnknown(let error): "the commit failed, and it may or may not be stored: \(error)"
    case .tooManyWaiting: "too many writes wait for the disk: nothing was stored"
    case .corrupt(let error): "the database is damaged: \(error)"
    case .stopping: "the service is stopping"
    case .unreadable(let detail): "the database has data that cannot be read: \(detail)"
    case .rightsUnknown: "the user's changes are not known yet: try again later"
    case .file(let path, let reason): "\(path): \(reason)"
    }
  }
}
