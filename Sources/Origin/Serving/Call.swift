import JSON
import MicroHTTP
import SQLite

/// The input of every operation: the arguments and one snapshot of the database.
protocol Asked {
  /// Decoded path parameters by name, query and body.
  var arguments: Arguments { get }
  var reading: ReadAccess { get }
  var capabilities: Capabilities { get }
  /// The base url of files that this server serves.
  var base: String { get }
}

/// The input of an operation that only reads.
struct Question: Asked {
  let arguments: Arguments
  let reading: ReadAccess
  let capabilities: Capabilities
  let base: String
  let milliseconds: Int64
}

/// The input of an operation that writes: a transaction, and the webhooks that are sent once it is durable.
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

/// One operation, which reads or writes and produces an answer.
enum Operation: Sendable {
  case read(@Sendable (Question, inout JSONWriter) throws -> Void)
  case write(@Sendable (inout Call, inout JSONWriter) throws -> Void)

  var isWrite: Bool {
    if case .write = self { true } else { false }
  }
}

/// Features that a real server may lack; each can be switched off.
struct Capabilities: Sendable {
  var areChangelogsOn = true
  var areReplyListingsOn = true
  /// Whether a request can list only the replies to one message.
  var areThreadListingsOn = true
  /// The answer to a repeated `dedup_id`: the first message, an error, or a second message.
  var duplicates = Duplicates.first
  var areSeparateUploadsOn = true
  /// Whether a message has the `dedup_id` it was sent with, as `req_id`.
  var areRequestIDsShown = true

  enum Duplicates: String, Sendable { case first, error, off }
}

extension JSONWriter {
  /// Writes `{}`, an answer without content.
  mutating func emptyObject() {
    beginObject()
    endObject()
  }
}
