import ChatModel
import SQLite

/// Reads the cache in one lent snapshot: all its results are of the same moment.
package struct CacheReader {
  let db: ReadAccess
  let log: CommitLog
  /// What is noted of the log in this snapshot; nil in a transaction that writes, which changes it.
  var notes: LogNotes?
}
