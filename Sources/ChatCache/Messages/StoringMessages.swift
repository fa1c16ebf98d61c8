import ChatModel
import SQLite

// Stores the upstream's answers about one channel's messages, each in one transaction: rows, tombstones,
// coverage, the changelog's token, the members' list positions and counts, and the events of all this.
// Storing the same again changes nothing and appends no event. If no user of this cache is in the channel,
// nothing is stored.

extension CacheWriter {
  /// Stores listings in order, with the coverage they claim, and casts doubt on messages that they lack (B24,
  /// B27). Answers whether messages of the channel are doubted.
  @discardableResult
  package func store(
    _ listings: [MessageListing], in url: ChannelURL, _ context: ListingContext
  ) throws -> Bool {
    guard let channel = try reader.attendedChannel(url) else { return false }
    let old = try reader.coverage(of: channel)
    var coverage = old
    var batch = try batch(of: channel, context.source)
    // The listings may have been requested at different times. None may bring back what was cleared after its
    // own request.
    for listing in listings where try isStill(listing, in: channel) {
      let proof = listing.window.listing(listing.rows.map(\.position))
      let claims = listing.claims(proof)
      // Storing it would delete too many cleared rows in one commit. A later listing is stored, when the
      // upkeep has deleted them.
      if try claims.contains(where: { try reader.hasManyCleared(in: $0, of: channel) }) { continue }
      let (isOverreaching, undoubted) = try doubtMissing(listing, claims, context, &batch)
      let isOutdated = try proof.open.map {
        try reader.isOutdated($0, in: channel, since: listing.askedAt)
      }
      for row in listing.rows {
        try put(row, &batch, askedAt: listing.askedAt, from: context.settlesDoubts ? .named : .listed)
      }
      if listing.breaks.isEmpty || listing.mayLackAnywhere {
        coverage.claim(
          proof, now: now, generation: context.generation,
          isOutdated: isOutdated ?? false || isOverreaching || !listing.isEndRead)
      } else {
        coverage.claimRuns(
          listing, now: now, generation: context.generation,
          isOutdated: isOverreaching ? true : isOutdated ?? false)
      }
      // It lacks more messages than are doubted at once: their stretch is listed again (B31).
      for claim in undoubted { coverage.markUnverified(claim) }
      // If the newest end could not be read and was never listed, an unconfirmed tail follows the rows.
      if !listing.isEndRead, proof.claim?.upperBound == .end, let last = proof.last {
        try arrive(at: last.next, &coverage, &batch)
      }
      // Its rows are served, but listed again (B31).
      if let claim = proof.claim, listing.mayLackAnywhere { coverage.markUnverified(claim) }
      // A listing requested before changes were missed does not show them (B31).
      if let claim = proof.claim, !old.unverified.isEmpty,
        try reader.wasDoubted(channel, since: listing.askedAt)
      {
        coverage.markUnverified(claim)
      }
    }
    if let missing = context.hugeMissing { coverage.noteHuge(missing) }
    if let gap = context.fillsGap {
      coverage.goOnFilling(gap, since: old, rows: listings.reduce(0) { $0 + $1.rows.count })
    }
    try finish(batch)
    try save(coverage, over: old, of: channel, context.source)
    if batch.newMessages.after == nil { try beginNewMessages(in: channel, after: coverage) }
    try beginChangelog(of: channel, at: listings.flatMap(\.rows).map(\.createdAt).max() ?? 0)
    for note in context.answers where try reader.unknown([note.messageID], in: url).isEmpty {
      try settled(note.kind, in: url, message: note.messageID, noted: note.noted)
    }
    return try reader.hasDoubts(channel)
  }

  /// Whether the listing is current: nothing in it was cleared or evicted since it was requested.
  func isStill(_ listing: MessageListing, in channel: ChannelKey) throws -> Bool {
    if try reader.wasCleared(channel, since: listing.askedAt) { return false }
    return try !reader.wasEvicted(listing.rows.map(\.position), of: channel, since: listing.askedAt)
  }

  /// Stores a page of the channel's changelog and the token of the next page in one commit (B31). `askedAt`:
  /// the log's sequence when the page was asked for. Answers whether messages of the channel are doubted.
  @discardableResult
  package func store(
    _ changes: UpstreamChanges<MessageRecord, Int64>, in url: ChannelURL, _ source: ChangeSource,
    askedAt: Int64 = .max
  ) throws -> Bool {
    guard let channel = try reader.attendedChannel(url) else { return false }
    var batch = try batch(of: channel, source)
    for row in changes.updated { try put(row, &batch, askedAt: askedAt, from: .changes) }
    for id in changes.deleted { try removeMessage(id, &batch) }
    try finish(batch)
    if let next = changes.next { try setChangelog(of: channel, to: .token(next)) }
    return try reader.hasDoubts(channel)
  }

  /// Stores one message that was asked for by its id, unless the channel was cleared since, or a state of the
  /// message that may be newer was evicted. Returns whether it was stored.
  @discardableResult
  package func store(
    _ message: MessageRecord, in url: ChannelURL, _ source: ChangeSource, askedAt: Int64 = .max
  ) throws -> Bool {
    guard let channel = try reader.attendedChannel(url), try !reader.wasCleared(channel, since: askedAt),
      try !reader.wasEvicted([message.position], of: channel, since: askedAt)
    else { return false }
    let old = try reader.coverage(of: channel)
    var coverage = old
    var batch = try batch(of: channel, source)
    try put(message, &batch, askedAt: askedAt, from: .named)
    try arrive(at: message.position, &coverage, &batch)
    // A listing that lacked this message may lack others beside it, so that stretch is listed again.
    for position in batch.overlooked { coverage.markUnverified(position...position) }
    try finish(batch)
    try save(coverage, over: old, of: channel, source)
    return true
  }

  /// Shows what is stored without a listing (`Coverage.arrive`). Cleared rows after it are deleted first. If
  /// they are more than one commit may delete, the position stays in a gap until it is listed.
  private func arrive(at position: Position, _ coverage: inout Coverage, _ batch: inout MessageBatch) throws {
    guard coverage.beginsTail(at: position),
      try !reader.hasManyCleared(in: position ... .end, of: batch.channel)
    else { return }
    try dropCleared(in: position ... .end, ofThread: nil, &batch)
    coverage.arrive(at: position)
  }

  /// Deletes a message that the upstream no longer has.
  package func delete(message id: Int64, in url: ChannelURL, _ source: ChangeSource) throws {
    guard let channel = try reader.attendedChannel(url) else { return }
    var batch = try batch(of: channel, source)
    try removeMessage(id, &batch)
    try finish(batch)
  }

  /// Marks all covered messages to be listed again, because changes may have been missed. The changelog
  /// begins anew with the next listing (B31).
  package func doubt(_ url: ChannelURL) throws {
    guard let channel = try reader.attendedChannel(url) else { return }
    let old = try reader.coverage(of: channel)
    var coverage = old
    coverage.markUnverified(.start ... .end)
    // A thread is listed again when a client reads it.
    try forgetThreads(of: channel)
    try save(coverage, over: old, of: channel, .messageChangelog)
    try db.run("UPDATE channel SET message_token = NULL WHERE id = ?1") { $0.bind(1, channel.rawValue) }
    if coverage != old { try append(Change(.unverified, .messageChangelog, channel: channel)) }
  }

  /// Marks the gap as being filled. False: the gap does not exist, or is already being filled (B26).
  package func beginFill(_ gap: Int64, in url: ChannelURL) throws -> Bool {
    try changeCoverage(of: url, .messageFill) { $0.beginFill(gap) }
  }

  /// Ends the fill of the gap.
  package func endFill(_ gap: Int64, in url: ChannelURL) throws {
    _ = try changeCoverage(of: url, .messageFill) {
      $0.stopFill(gap)
      return true
    }
  }

  private func changeCoverage(
    of url: ChannelURL, _ source: ChangeSource, _ body: (inout Coverage) -> Bool
  ) throws -> Bool {
    guard let channel = try reader.attendedChannel(url) else { return false }
    let old = try reader.coverage(of: channel)
    var coverage = old
    guard body(&coverage) else { return false }
    try save(coverage, over: old, of: channel, source)
    return true
  }

  /// Appends the events of a batch, and updates the channel and its members.
  func finish(_ batch: MessageBatch) throws {
    for piece in batch.pieces {
      var change = Change(.messages, batch.source, channel: batch.channel)
      change.stretch = piece.stretch
      change.detail = piece.age.detail
      try append(change, at: piece.sequence)
    }
    let version = [batch.sequence, batch.deletion].compactMap { $0 }.max()
    if version != nil || batch.rows != 0 || batch.bytes != 0 {
      try db.run(
        """
        UPDATE channel
        SET cached_messages = cached_messages + ?2, cached_bytes = cached_bytes + ?3
        WHERE id = ?1
        """
      ) {
        $0.bind(1, batch.channel.rawValue)
        $0.bind(2, batch.rows)
        $0.bind(3, batch.bytes)
      }
    }
    guard let version else { return }
    try tellMembers(of: batch, version: version)
  }

  private func setChangelog(of channel: ChannelKey, to token: ChangesSince) throws {
    try db.run("UPDATE channel SET message_token = ?2 WHERE id = ?1") {
      $0.bind(1, channel.rawValue)
      $0.bind(2, token.stored)
    }
  }

  /// Begins the changelog at the newest listed message, a time of the upstream's own clock, if it has no
  /// token.
  private func beginChangelog(of channel: ChannelKey, at time: Int64) throws {
    try db.run("UPDATE channel SET message_token = ?2 WHERE id = ?1 AND message_token IS NULL") {
      $0.bind(1, channel.rawValue)
      $0.bind(2, ChangesSince.time(time).stored)
    }
  }
}

extension Coverage {
  /// Notes that the newest gap lacks too many messages to be filled unasked (B28).
  mutating func noteHuge(_ missing: Int) {
    guard let gap = gaps.last?.gap else { return }
    estimate(gap.id, missing: missing)
  }
}

extension ChangesSince {
  /// As the column `message_token` keeps it: `at:` a time, or `token:` the upstream's token.
  var stored: String {
    switch self {
    case .time(let time): "at:\(time)"
    case .token(let token): "token:\(token.text)"
    }
  }

  /// Reads the column.
  init?(stored: String) {
    if stored.hasPrefix("at:"), let time = Int64(stored.dropFirst(3)) {
      self = .time(time)
    } else if stored.hasPrefix("token:") {
      self = .token(SyncToken(String(stored.dropFirst(6))))
    } else {
      return nil
    }
  }
}
