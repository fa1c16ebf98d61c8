import ChatModel
import SQLite

// Stores listings of threads. One transaction stores the replies, the doubts, the thread's coverage and the
// events of the messages. The channel's own coverage does not change.

extension CacheReader {
  /// The coverage by listings of the thread itself.
  package func threadCoverage(of channel: ChannelKey, _ parent: Int64) throws -> ThreadCoverage {
    var stretches: [ClosedRange<Position>] = []
    var tail = Tail.unconfirmed
    var rows = try db.rows(
      """
      SELECT lo_at, lo_id, hi_at, hi_id, confirmed_at, generation
      FROM thread
      WHERE channel = ?1 AND parent = ?2
      ORDER BY lo_at, lo_id
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, parent)
    }
    while let row = try rows.next() {
      let low = Position(createdAt: row.int64(0), messageID: row.int64(1))
      stretches.append(low...max(low, Position(createdAt: row.int64(2), messageID: row.int64(3))))
      tail = Tail(confirmedAt: row.int64OrNil(4), generation: row.int64(5))
    }
    return ThreadCoverage(stretches: stretches, tail: tail)
  }

  /// The coverage of the channel, or of the replies to one of its messages.
  package func coverage(of channel: ChannelKey, thread parent: Int64?) throws -> Coverage {
    let line = try coverage(of: channel)
    return try parent.map { try coverage(of: channel, thread: $0, over: line) } ?? line
  }

  /// The coverage of the replies to a message. `line`: the channel's own coverage.
  package func coverage(of channel: ChannelKey, thread parent: Int64, over line: Coverage) throws -> Coverage
  {
    let listsReplies = try db.first("SELECT offered FROM capability WHERE name = ?1") {
      $0.bind(1, Capability.replyListing.rawValue)
    } _: {
      $0.bool(0)
    }
    return try threadCoverage(of: channel, parent).over(line, listsReplies: listsReplies ?? true)
  }

  /// The newest stored message that changed no later than `sequence`.
  fileprivate func newestStored(of channel: ChannelKey, notAfter sequence: Int64) throws -> Position? {
    try db.first(
      """
      SELECT created_at, message_id
      FROM message
      WHERE channel = ?1 AND version <= ?2
      ORDER BY created_at DESC, message_id DESC
      LIMIT 1
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, sequence)
    } _: {
      Position(createdAt: $0.int64(0), messageID: $0.int64(1))
    }
  }
}

extension CacheWriter {
  /// Stores listings of the replies to a message, in order, and extends the thread's coverage by them. Stored
  /// replies that a listing lacks are doubted (B24, B27). Returns whether the channel has doubted messages.
  package func store(
    _ listings: [MessageListing], ofThread parent: Int64, in url: ChannelURL, _ context: ListingContext
  ) throws -> Bool {
    guard let channel = try reader.attendedChannel(url) else { return false }
    let old = try reader.threadCoverage(of: channel, parent)
    var thread = old
    var batch = try batch(of: channel, context.source)
    for listing in listings where try isStill(listing, in: channel) {
      let proof = listing.window.listing(listing.rows.map(\.position))
      let claims = listing.claims(proof)
      // As for listings of the channel: a later one is stored, when the upkeep has deleted the cleared rows.
      if try claims.contains(where: { try reader.hasManyCleared(in: $0, of: channel, ofThread: parent) }) {
        continue
      }
      let (isOverreaching, undoubted) = try doubtMissing(listing, claims, context, &batch, thread: parent)
      let known = try reader.newestStored(of: channel, notAfter: listing.askedAt)
      for row in listing.rows { try put(row, &batch, askedAt: listing.askedAt, from: .listed) }
      // A listing proves nothing about the thread if it lacks a stored reply or has an item that could not be
      // read.
      guard listing.isWhole, !isOverreaching, undoubted.isEmpty,
        try !reader.wasDoubted(channel, since: listing.askedAt)
      else { continue }
      thread.claim(proof, known: known, now: now, generation: context.generation)
    }
    try finish(batch)
    if thread != old {
      try save(thread, of: channel, parent)
      try tell(thread.tail, over: old.tail, of: channel)
    }
    return try reader.hasDoubts(channel)
  }

  func save(_ thread: ThreadCoverage, of channel: ChannelKey, _ parent: Int64) throws {
    try db.run("DELETE FROM thread WHERE channel = ?1 AND parent = ?2") {
      $0.bind(1, channel.rawValue)
      $0.bind(2, parent)
    }
    for (index, stretch) in thread.stretches.enumerated() {
      let isNewest = index + 1 == thread.stretches.count && thread.tail.confirmedAt != nil
      try db.run(
        """
        INSERT INTO thread (channel, parent, lo_at, lo_id, hi_at, hi_id, confirmed_at, generation)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
        """
      ) {
        $0.bind(1, channel.rawValue)
        $0.bind(2, parent)
        $0.bind(3, stretch.lowerBound.createdAt)
        $0.bind(4, stretch.lowerBound.messageID)
        $0.bind(5, stretch.upperBound.createdAt)
        $0.bind(6, stretch.upperBound.messageID)
        $0.bind(7, isNewest ? thread.tail.confirmedAt : nil)
        $0.bind(8, isNewest ? thread.tail.generation : nil)
      }
    }
  }

  /// Deletes the coverage of all threads of the channel.
  func forgetThreads(of channel: ChannelKey) throws {
    try db.run("DELETE FROM thread WHERE channel = ?1") { $0.bind(1, channel.rawValue) }
  }
}
