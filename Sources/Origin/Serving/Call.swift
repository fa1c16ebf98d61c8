import JSON
import MicroHTTP
import SQLite

/// What every operation is given: the arguments and a consistent view of the database.
protocol Asked {
  /// Decoded path parameters by name, query and body.
  var arguments: Arguments { get }
  var reading: ReadAccess { get }
  var capabilities: Capabilities { get }
  /// What stands before the path of a file that this server serves.
  var base: String { get }
}

/// What an operation is given that only reads.
struct Question: Asked {
  let arguments: Arguments
  let reading: ReadAccess
  let capabilities: Capabilities
  let base: String
  let milliseconds: Int64
}

/// What an operation is given that changes something: a transaction, and where it leaves what is to be told
/// to the webhook once the transaction is durable.
struct Call: Asked {
  let arguments: Arguments
  let db: WriteAccess
  let capabilities: Capabilities
  let base: String
  /// Strictly rising microseconds: the stamps of changes in both changelogs.
  let stamp: Int64
  var news: [Value] = []

  var reading: ReadAccess { db.reading }
  var milliseconds: Int64 { stamp / 1000 }
  var seconds: Int64 { stamp / 1_000_000 }
}

/// One operation: what it reads and writes, and the answer it leaves.
enum Operation: Sendable {
  case read(@Sendable (Question, inout JSONWriter) throws -> Void)
  case write(@Sendable (inout Call, inout JSONWriter) throws -> Void)

  var isWrite: Bool {
    if case .write = self { true } else { false }
  }
}

/// What a real server may not offer; each can be switched off.
struct Capabilities: Sendable {
  var areChangelogsOn = true
  var areReplyListingsOn = true
  /// Whether the replies to one message are listed alone where that is asked for.
  var areThreadListingsOn = true
  /// What a repeated `dedup_id` gets: the first message, an error, or a second message.
  var duplicates = Duplicates.first
  var areSeparateUploadsOn = true
  /// Whether a message says the `dedup_id` it was sent with, as `req_id`.
  var areRequestIDsShown = true

  enum Duplicates: String, Sendable { case first, error, off }
}

extension JSONWriter {
  /// `{}`, the answer that says nothing.
  mutating func emptyObject() {
    beginObject()
    endObject()
  }
}
