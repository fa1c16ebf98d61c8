import ChatModel
import SQLite

// Messages about whose existence answers disagree (B27). An answer may be stale, cut or empty. So a listing
// that lacks a stored message deletes nothing, and one that shows a deleted message restores nothing: the
// message is doubted. The upstream's answer about its id decides or, if there is none, a second listing.

/// A message that is to be asked for by its id.
package struct DoubtedMessage: Sendable, Equatable {
  /// Its position on the channel's line.
  package let position: Position
  /// The log's sequence at the request whose answer cast the doubt.
  package let askedAt: Int64

  /// A doubted message.
  package init(position: Position, askedAt: Int64) {
    self.position = position
    self.askedAt = askedAt
  }
}

extension CacheReader {
  /// The channel's doubted messages before a position, newest first.
  package func doubted(in url: ChannelURL, below: Position? = nil, limit: Int) throws -> [DoubtedMessage] {
    try db.all(
      """
      SELECT d.created_at, d.message_id, d.asked_at
      FROM channel AS c
      JOIN doubted AS d ON d.channel = c.id
      WHERE c.channel_url = ?1 AND (d.created_at, d.message_id) < (?3, ?4)
      ORDER BY d.created_at DESC, d.message_id DESC
      LIMIT ?2
      """
    ) {
      $0.bind(1, url.text)
      $0.bind(2, limit)
      $0.bind(3, (below ?? .end).createdAt)
      $0.bind(4, (below ?? .end).messageID)
    } _: {
      DoubtedMessage(
        position: Position(createdAt: $0.int64(0), messageID: $0.int64(1)), askedAt: $0.int64(2))
    }
  }

  /// The channels that have doubted messages.
  package func channelsInDoubt() throws -> [ChannelURL] {
    try db.all(
      """
      SELECT channel_url
      FROM channel
      WHERE id IN (SELECT channel FROM doubted)
      """
    ) { ChannelURL($0.string(0)) }
  }

  /// Whether the channel has doubted messages.
  func hasDoubts(_ channel: ChannelKey) throws -> Bool {
    try db.first("SELECT 1 FROM doubted WHERE channel = ?1 LIMIT 1") {
      $0.bind(1, channel.rawValue)
    } _: { _ in
      true
    } ?? false
  }

  /// Whether the upstream called the message deleted.
  package func isBuried(_ id: Int64, in url: ChannelURL) throws -> Bool {
    try channelKey(of: url).map { try isDeleted(id, in: $0) } ?? false
  }

  /// The log's sequence at which the upstream called the message deleted; nil: it did not.
  func buriedAt(_ id: Int64, in channel: ChannelKey) throws -> Int64? {
    try db.first("SELECT seq FROM tombstone WHERE channel = ?1 AND message_id = ?2") {
      $0.bind(1, channel.rawValue)
      $0.bind(2, id)
    } _: {
      $0.int64(0)
    }
  }
}

extension CacheWriter {
  /// The most messages that one listing casts doubt on. A stretch in which it lacks more is listed again.
  static let mostDoubted = 1_000

  /// Casts doubt on a message, unless an earlier answer did.
  func doubt(_ position: Position, in channel: ChannelKey, askedAt: Int64, isInside: Bool = false) throws {
    try db.run(
      """
      INSERT OR IGNORE INTO doubted (channel, message_id, created_at, asked_at, is_inside)
      VALUES (?1, ?2, ?3, ?4, ?5)
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, position.messageID)
      $0.bind(3, position.createdAt)
      $0.bind(4, askedAt)
      $0.bind(5, isInside)
    }
  }

  /// Ends the doubts about the message that are no newer than an answer requested at `askedAt`. True: a
  /// listing lacked the message between its rows, and so may lack others there.
  @discardableResult
  func endDoubt(_ id: Int64, in channel: ChannelKey, askedAt: Int64) throws -> Bool {
    let ended = try db.reading.all(
      """
      DELETE FROM doubted
      WHERE channel = ?1 AND message_id = ?2 AND asked_at <= ?3
      RETURNING is_inside
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, id)
      $0.bind(3, askedAt)
    } _: {
      $0.bool(0)
    }
    return ended.contains(true)
  }

  /// Ends the doubts that came from the answer requested at `askedAt`: that answer is known to be wrong.
  package func believe(against askedAt: Int64, in url: ChannelURL) throws {
    guard let channel = try reader.channelKey(of: url) else { return }
    try db.run("DELETE FROM doubted WHERE channel = ?1 AND asked_at = ?2") {
      $0.bind(1, channel.rawValue)
      $0.bind(2, askedAt)
    }
  }

  /// Doubts the messages that the listing lacks in the stretches it claims; for a listing of a thread, only
  /// replies. `isOverreaching`: the listing lacks messages outside its rows, so it does not prove the newest
  /// end. `undoubted`: the stretches in which it lacks more than are doubted at once.
  func doubtMissing(
    _ listing: MessageListing, _ claims: [ClosedRange<Position>], _ context: ListingContext,
    _ batch: inout MessageBatch, thread: Int64? = nil
  ) throws -> (isOverreaching: Bool, undoubted: [ClosedRange<Position>]) {
    var isOverreaching = false
    var undoubted: [ClosedRange<Position>] = []
    for claim in claims {
      let missing = try doubtMissing(claim, listing, context, &batch, thread)
      isOverreaching = isOverreaching || missing.isOverreaching
      if missing.isUndoubted { undoubted.append(claim) }
      if context.settlesDoubts { try endDoubtsOfUnstored(claim, listing, in: batch.channel) }
    }
    return (isOverreaching, undoubted)
  }

  /// Ends the doubts about messages that are neither stored nor in the second listing: they do not exist.
  private func endDoubtsOfUnstored(
    _ claim: ClosedRange<Position>, _ listing: MessageListing, in channel: ChannelKey
  ) throws {
    let came = Set(listing.rows.map(\.messageID))
    let doubted = try db.reading.all(
      """
      SELECT message_id, created_at
      FROM doubted AS d
      WHERE channel = ?1 AND created_at BETWEEN ?2 AND ?3 AND asked_at <= ?4 AND NOT EXISTS (
        SELECT 1 FROM message AS m WHERE m.channel = d.channel AND m.message_id = d.message_id)
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, claim.lowerBound.createdAt)
      $0.bind(3, claim.upperBound.createdAt)
      $0.bind(4, listing.askedAt)
    } _: {
      Position(createdAt: $0.int64(1), messageID: $0.int64(0))
    }
    for position in doubted where claim.contains(position) && !came.contains(position.messageID) {
      try endDoubt(position.messageID, in: channel, askedAt: listing.askedAt)
    }
  }

  /// Doubts the stored messages that the listing lacks in `claim`, unless they changed after it was
  /// requested. Removes those of an earlier doubt that a second listing settles. Returns whether one lies
  /// outside the listing's rows, and whether some are not doubted.
  private func doubtMissing(
    _ claim: ClosedRange<Position>, _ listing: MessageListing, _ context: ListingContext,
    _ batch: inout MessageBatch, _ thread: Int64?
  ) throws -> (isOverreaching: Bool, isUndoubted: Bool) {
    try dropCleared(in: claim, ofThread: thread, &batch)
    let came = Set(listing.rows.map(\.messageID))
    let positions = listing.rows.map(\.position)
    let (first, last) = (positions.min() ?? .end, positions.max() ?? .start)
    let isBetween = { (position: Position) in first < position && position < last }
    var isOverreaching = false
    var count = 0
    let stored = try reader.messages(
      in: claim, of: batch.channel, notAfter: listing.askedAt,
      sparesReplies: thread == nil && !context.listsReplies, thread: thread)
    for position in stored where !came.contains(position.messageID) {
      if context.settlesDoubts,
        try reader.isDoubted(position.messageID, in: batch.channel, before: listing.askedAt)
      {
        try removeMessage(position.messageID, &batch, leavesTombstone: false)
        continue
      }
      let isInside = isBetween(position)
      isOverreaching = isOverreaching || !isInside
      count += 1
      guard count <= CacheWriter.mostDoubted else { continue }
      try doubt(position, in: batch.channel, askedAt: listing.askedAt, isInside: isInside)
    }
    return (isOverreaching, count > CacheWriter.mostDoubted)
  }
}

extension CacheReader {
  fileprivate func isDoubted(_ id: Int64, in channel: ChannelKey, before mark: Int64) throws -> Bool {
    try db.first("SELECT 1 FROM doubted WHERE channel = ?1 AND message_id = ?2 AND asked_at <= ?3") {
      $0.bind(1, channel.rawValue)
      $0.bind(2, id)
      $0.bind(3, mark)
    } _: { _ in
      true
    } ?? false
  }
}
