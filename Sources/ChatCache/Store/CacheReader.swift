import ChatModel
import SQLite

/// The right to read the cache, lent with one snapshot: everything it answers is of the same moment.
package struct CacheReader {
  let db: ReadAccess
  let log: CommitLog
}
