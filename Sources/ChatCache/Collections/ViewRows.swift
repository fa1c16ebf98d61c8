import ChatModel
import Platform
import SQLite

// Reads a channel's messages one by one for a view's events: version, whether the filter shows it, and JSON
// object.

/// One stored message as a view sees it.
package struct ViewRow: ~Copyable {
  /// Its position.
  package let position: Position
  /// The sequence of the event that last changed it.
  package let version: Int64
  /// The sequence of the event that stored it for the first time; 0: it is not known.
  package let firstVersion: Int64
  /// Whether the view's filters show it.
  package let isShown: Bool
  /// Whether they may have shown it before a change.
  package let mayBeShown: Bool
  /// The message as a JSON object; empty if it is not shown.
  package let object: ByteBuffer
}

extension CacheReader {
  /// Passes the stored messages of a stretch, or those of `version` alone, to `body`, oldest first, until it
  /// returns false. `orFirst`: also those that were stored with that version for the first time.
  package func eachRow(
    of range: ClosedRange<Position>, version: Int64? = nil, orFirst: Bool = false,
    filter: MessageQuery, in view: ChannelView,
    _ body: (borrowing ViewRow) throws -> Bool
  ) throws {
    var found = try rows(range, ofVersion: version, orFirst: orFirst, view.channel)
    while let row = try found.next() {
      let pending = try pendingChanges(in: view, of: row.int64(.messageID))
      var rows = MessageRows(filter, floor: view.floorAt, pending: pending, capacity: 1024)
      rows.begin(isBackwards: false)
      // A thread's view shows only its replies. The filter does not check that: a thread's page reads no
      // others.
      let isOfThread = filter.parent == nil || row.int64OrNil(.parentID) == filter.parent
      let mayBeShown = isOfThread && rows.mayShow(row)
      if isOfThread { rows.take(row) }
      let isShown = rows.count == 1
      let goesOn = try body(
        ViewRow(
          position: row.messagePosition, version: row.int64(.version), firstVersion: row.int64(.firstVersion),
          isShown: isShown, mayBeShown: mayBeShown, object: rows.joined(isReversed: false)))
      if !goesOn { return }
    }
  }

  /// The position of a message, if it is stored.
  package func position(of message: Int64, in channel: ChannelKey) throws -> Position? {
    try time(of: message, in: channel).map { Position(createdAt: $0, messageID: message) }
  }

  /// The sequence of the log at which a message was stored for the first time.
  func firstVersion(of message: Int64, in channel: ChannelKey) throws -> Int64? {
    try db.first(
      "SELECT first_version FROM message INDEXED BY message_by_id WHERE channel = ?1 AND message_id = ?2"
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, message)
    } _: {
      $0.int64(0)
    }
  }

  /// The position of the newest stored message.
  package func newestPosition(in channel: ChannelKey) throws -> Position? {
    try db.first(
      """
      SELECT created_at, message_id
      FROM message
      WHERE channel = ?1
      ORDER BY created_at DESC, message_id DESC
      LIMIT 1
      """
    ) {
      $0.bind(1, channel.rawValue)
    } _: {
      Position(createdAt: $0.int64(0), messageID: $0.int64(1))
    }
  }
}
