import ChatModel
import SQLite

/// Reads the cache in one lent snapshot: all its results are of the same moment.
package struct CacheReader {
  let db: ReadAccess
  let log: CommitLog
  /// Values that earlier reads of this snapshot found in the event log. Nil in a transaction that writes,
  /// because it appends to the log.
  var notes: LogNotes?
  /// The messages of crowded channels, in a transaction that writes.
  var counted: CountedChannels?
  /// The log's end before the snapshot was opened.
  let opened: Int64
}
