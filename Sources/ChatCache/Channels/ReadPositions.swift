import ChatModel
import JSON
import SQLite

// Up to when members have read a channel. A channel keeps up to 100 positions as one JSON text, which answers
// splice. More of them lie in the table `read_position`, so that one member who reads on does not rewrite the
// positions of all; then answers tell their number, and the member list tells each.

/// Bounds of read positions.
package enum ReadPositions {
  /// The most positions in the answer of a channel.
  package static let mostInChannel = 100
  /// Up to so many positions are looked up one by one, and not read together.
  fileprivate static let mostLookedUp = 128
  /// A channel whose positions have become so few keeps them in its row again.
  fileprivate static let fewAgain = 50
  /// The most positions that one answer removes.
  fileprivate static let mostRemoved = 1_000
}

extension CacheWriter {
  /// Stores how far members have read; no position goes back. Returns the members whose position advanced,
  /// and whether the channel's answers changed in more than these positions. `joined`: the number of members
  /// in the same answer. If it has as many positions, those of people who are no members are removed.
  func store(
    _ told: ReadReceipts, joined: Int64?, of channel: ChannelKey
  ) throws -> (readers: [ExactText], changesChannel: Bool) {
    let (count, digest) = try reader.readersKept(for: channel)
    if count != nil {
      if digest == told.digest { return ([], false) }
      try noteDigest(told, of: channel)
    }
    let receipts = told.positions
    var stored = try advance(receipts, of: channel, areMany: count != nil)
    if count == nil, stored.changesChannel { try noteDigest(told, of: channel) }
    if let joined, joined > 0, receipts.count >= joined {
      stored.changesChannel = try removePositions(besides: receipts, of: channel) || stored.changesChannel
    }
    return stored
  }

  private func advance(
    _ receipts: [ExactText: Int64], of channel: ChannelKey, areMany: Bool
  ) throws -> (readers: [ExactText], changesChannel: Bool) {
    if areMany {
      let (advanced, added) = try reader.advanced(receipts, in: channel)
      if !advanced.isEmpty { try insert(advanced, of: channel, added: added) }
      return (advanced.keys.sorted(), added > 0)
    }
    let known = try reader.fewPositions(of: channel)
    let advanced = receipts.filter { user, moment in known[user].map { $0 < moment } ?? true }
    guard !advanced.isEmpty else { return ([], false) }
    let readers = advanced.keys.sorted()
    let all = known.merging(advanced) { $1 }
    guard all.count > ReadPositions.mostInChannel else {
      try write(all, of: channel)
      try noteInMembers(advanced, of: channel)
      return (readers, false)
    }
    try write([:], of: channel)
    try db.run("UPDATE channel SET reader_count = 0 WHERE id = ?1") { $0.bind(1, channel.rawValue) }
    try insert(all, of: channel, added: all.count)
    return (readers, true)
  }

  /// Removes the positions of people who are neither in `receipts` nor members. True: there were some.
  private func removePositions(besides receipts: [ExactText: Int64], of channel: ChannelKey) throws -> Bool {
    let count = try reader.readersKept(for: channel).count
    if let count, count <= receipts.count { return false }
    let known =
      count == nil ? try reader.fewPositions(of: channel) : try reader.allReadPositions(of: channel)
    guard known.count > receipts.count else { return false }
    // The next answer removes the rest.
    let strangers = try known.keys.lazy.filter {
      try receipts[$0] == nil && !self.reader.isStored(member: $0, of: channel)
    }.prefix(ReadPositions.mostRemoved)
    for user in strangers { try removePosition(of: user, in: channel) }
    return !strangers.isEmpty
  }

  /// Removes the position of somebody who is no member any more. Answers whether there was one.
  @discardableResult
  func removePosition(of user: ExactText, in channel: ChannelKey) throws -> Bool {
    guard let count = try reader.readersKept(for: channel).count else {
      var few = try reader.fewPositions(of: channel)
      guard few.removeValue(forKey: user) != nil else { return false }
      try write(few, of: channel)
      return true
    }
    let removed = try db.run("DELETE FROM read_position WHERE channel = ?1 AND user_id = ?2") {
      $0.bind(1, channel.rawValue)
      $0.bind(2, user.text)
    }
    guard removed > 0 else { return false }
    try db.run("UPDATE channel SET reader_count = reader_count - 1, reader_digest = NULL WHERE id = ?1") {
      $0.bind(1, channel.rawValue)
    }
    if count - 1 <= ReadPositions.fewAgain { try moveBack(channel) }
    return true
  }

  /// Moves the positions of a channel that lost most of its members into its row again.
  private func moveBack(_ channel: ChannelKey) throws {
    try write(try reader.allReadPositions(of: channel), of: channel)
    try db.run("DELETE FROM read_position WHERE channel = ?1") { $0.bind(1, channel.rawValue) }
    try db.run("UPDATE channel SET reader_count = NULL, reader_digest = NULL WHERE id = ?1") {
      $0.bind(1, channel.rawValue)
    }
  }

  /// Notes that the table has each of these positions, or a later one.
  private func noteDigest(_ told: ReadReceipts, of channel: ChannelKey) throws {
    try db.run("UPDATE channel SET reader_digest = ?2 WHERE id = ?1") {
      $0.bind(1, channel.rawValue)
      $0.bind(2, told.digest)
    }
  }

  /// Copies positions into the rows of the member list.
  private func noteInMembers(_ positions: [ExactText: Int64], of channel: ChannelKey) throws {
    for (user, moment) in positions {
      try db.run("UPDATE member SET read_at = max(read_at, ?3) WHERE channel = ?1 AND user_id = ?2") {
        $0.bind(1, channel.rawValue)
        $0.bind(2, user.text)
        $0.bind(3, moment)
      }
    }
  }

  /// Writes positions into the table. `added`: how many of them are new there.
  private func insert(_ positions: [ExactText: Int64], of channel: ChannelKey, added: Int) throws {
    for (user, moment) in positions {
      try db.run(
        """
        INSERT INTO read_position (channel, user_id, read_at)
        VALUES (?1, ?2, ?3)
        ON CONFLICT (channel, user_id) DO UPDATE SET read_at = excluded.read_at
        """
      ) {
        $0.bind(1, channel.rawValue)
        $0.bind(2, user.text)
        $0.bind(3, moment)
      }
    }
    try noteInMembers(positions, of: channel)
    guard added > 0 else { return }
    try db.run("UPDATE channel SET reader_count = reader_count + ?2 WHERE id = ?1") {
      $0.bind(1, channel.rawValue)
      $0.bind(2, added)
    }
  }

  /// Writes all positions of a channel that has few.
  private func write(_ positions: [ExactText: Int64], of channel: ChannelKey) throws {
    let text = JSONWriter.object(positions) { $0.value($1) }
    try db.run("UPDATE channel SET read_receipts = ?2 WHERE id = ?1") {
      $0.bind(1, channel.rawValue)
      $0.bind(2, copyOf: text)
    }
  }

  /// Makes the channel's number that of the table's rows. If only few are left, they are forgotten until the
  /// next refresh.
  func countReadersAgain(in channel: ChannelKey) throws {
    let count =
      try db.reading.first("SELECT count(*) FROM read_position WHERE channel = ?1") {
        $0.bind(1, channel.rawValue)
      } _: {
        $0.int64(0)
      } ?? 0
    let isMany = count > ReadPositions.mostInChannel
    if !isMany, count > 0 {
      try db.run("DELETE FROM read_position WHERE channel = ?1") { $0.bind(1, channel.rawValue) }
    }
    if isMany { try write([:], of: channel) }
    try db.run("UPDATE channel SET reader_count = ?2, reader_digest = NULL WHERE id = ?1") {
      $0.bind(1, channel.rawValue)
      if isMany { $0.bind(2, count) } else { $0.bindNull(2) }
    }
  }

  /// Gives a member whose row is new the position that was known before.
  func setReadPosition(of user: String, in channel: ChannelKey) throws {
    let name = ExactText(user)
    guard let moment = try reader.readPositions(of: [name], in: channel)[name] else { return }
    try db.run("UPDATE member SET read_at = ?3 WHERE channel = ?1 AND user_id = ?2") {
      $0.bind(1, channel.rawValue)
      $0.bind(2, user)
      $0.bind(3, moment)
    }
  }
}

extension CacheReader {
  /// How far these members have read, in ms. A member of whom that is not known is left out. The answer may
  /// have other members, too.
  package func readPositions(
    of users: some Collection<ExactText>, in channel: ChannelKey
  ) throws -> [ExactText: Int64] {
    try readersKept(for: channel).count == nil
      ? fewPositions(of: channel) : manyPositions(of: users, in: channel)
  }

  /// The same for a channel with many positions.
  fileprivate func manyPositions(
    of users: some Collection<ExactText>, in channel: ChannelKey
  ) throws -> [ExactText: Int64] {
    guard users.count <= ReadPositions.mostLookedUp else { return try allReadPositions(of: channel) }
    var found: [ExactText: Int64] = [:]
    for user in users {
      found[user] = try db.first("SELECT read_at FROM read_position WHERE channel = ?1 AND user_id = ?2") {
        $0.bind(1, channel.rawValue)
        $0.bind(2, user.text)
      } _: {
        $0.int64(0)
      }
    }
    return found
  }

  /// Those of the positions that a channel with many does not have, or has an earlier moment of. `added`: how
  /// many of them are new.
  fileprivate func advanced(
    _ receipts: [ExactText: Int64], in channel: ChannelKey
  ) throws -> (positions: [ExactText: Int64], added: Int) {
    guard receipts.count > ReadPositions.mostLookedUp else {
      let known = try manyPositions(of: receipts.keys, in: channel)
      let advanced = receipts.filter { user, moment in known[user].map { $0 < moment } ?? true }
      return (advanced, advanced.count { known[$0.key] == nil })
    }
    // Mostly few have read on: their positions alone are kept while those of all pass by.
    var advanced: [ExactText: Int64] = [:]
    var known = 0
    try eachReadPosition(of: channel) { user, moment in
      guard let told = receipts[user] else { return }
      known += 1
      if moment < told { advanced[user] = told }
    }
    let added = receipts.count - known
    if added > 0 {
      let all = try allReadPositions(of: channel)
      for (user, told) in receipts where all[user] == nil { advanced[user] = told }
    }
    return (advanced, added)
  }

  /// How many positions of the channel lie in the table; nil: it has few, in its row. `digest`: that of an
  /// answer whose positions the table has, or later ones; nil if there is none.
  fileprivate func readersKept(for channel: ChannelKey) throws -> (count: Int64?, digest: Int64?) {
    try db.first("SELECT reader_count, reader_digest FROM channel WHERE id = ?1") {
      $0.bind(1, channel.rawValue)
    } _: {
      ($0.int64OrNil(0), $0.int64OrNil(1))
    } ?? (nil, nil)
  }

  fileprivate func isStored(member: ExactText, of channel: ChannelKey) throws -> Bool {
    try db.first("SELECT 1 FROM member WHERE channel = ?1 AND user_id = ?2") {
      $0.bind(1, channel.rawValue)
      $0.bind(2, member.text)
    } _: { _ in
      true
    } ?? false
  }

  fileprivate func allReadPositions(of channel: ChannelKey) throws -> [ExactText: Int64] {
    var found: [ExactText: Int64] = [:]
    try eachReadPosition(of: channel) { found[$0] = $1 }
    return found
  }

  private func eachReadPosition(of channel: ChannelKey, _ body: (ExactText, Int64) -> Void) throws {
    var rows = try db.rows("SELECT user_id, read_at FROM read_position WHERE channel = ?1") {
      $0.bind(1, channel.rawValue)
    }
    while let row = try rows.next() { body(ExactText(row.string(0)), row.int64(1)) }
  }

  /// All positions of a channel with few.
  fileprivate func fewPositions(of channel: ChannelKey) throws -> [ExactText: Int64] {
    try db.first("SELECT read_receipts FROM channel WHERE id = ?1") {
      $0.bind(1, channel.rawValue)
    } _: { row in
      try JSONParser.parse(row.bytes(0)) { json in
        var receipts: [ExactText: Int64] = [:]
        for (user, moment) in json.fields {
          receipts[ExactText(String(decoding: user, as: UTF8.self))] = moment.int64 ?? 0
        }
        return receipts
      }
    } ?? [:]
  }
}
