import ChatCache
import JSON

/// The user's connection as it is now, for a client that knows it up to a sequence of the log.
package struct ClientConnection: Sendable {
  /// The connection as it is now.
  let now: UserConnection
  /// The sequence up to which the client knows it.
  let sequence: Int64

  /// The connection as it is now, for a client that knows it up to `sequence`.
  package init(_ now: UserConnection, knownUpTo sequence: Int64) {
    self.now = now
    self.sequence = sequence
  }

  /// The event of the connection. `changes`: the log's changes of it. Nil: the client knows them all.
  package func event(_ changes: [LoggedChange], collection: String?) -> [UInt8]? {
    let news = changes.filter { $0.sequence > sequence }.map(\.change)
    if news.isEmpty { return nil }
    let link = news.last { $0.reference != nil }?.reference
    return EventWriter.event("connection.changed", nil, collection: collection) { json in
      json.name("connection")
      json.beginObject()
      json.field("state", now.state.rawValue)
      if let link { json.field("link", link) }
      json.endObject()
    }
  }
}
