import ChatModel
import SQLite

// A listing of a channel's members reads the upstream's pages. Each commit stores a page and the token of the
// next one, so that the listing goes on after a stop. At its end, members that it did not show and that did
// not change since it began are removed, once the upstream confirms it. The list is whole only if there are
// as many rows as the channel counts and nothing else changed them meanwhile.

/// A listing of members under way.
package struct MemberListing: Sendable, Equatable {
  /// Its number. A later listing of the channel has a higher one.
  package let number: Int64
  /// The upstream's token of the next page; nil: the first page.
  package var token: String?
}

/// The stored members after a complete listing, by whether it showed them.
package struct ShownMembers: Sendable, Equatable {
  /// The number that it showed, or that changed since it began.
  package var present: Int64 = 0
  /// Those that it did not show, the last changed first.
  package var absent: [UserID] = []

  /// No members.
  package init() {}
}

extension CacheWriter {
  /// The time after its beginning in which an interrupted listing is continued (ms).
  static let listingMilliseconds: Int64 = 600_000

  /// Continues an interrupted listing, or begins one. Nil: no user of this cache is in the channel.
  package func beginMembers(of url: ChannelURL, anew: Bool) throws -> MemberListing? {
    guard let channel = try reader.attendedChannel(url) else { return nil }
    if !anew,
      let cut = try reader.listingUnderWay(of: channel, since: moment - CacheWriter.listingMilliseconds)
    {
      return cut
    }
    // Also higher than the numbers before a clear.
    let number = max(try reader.lastListing(of: channel), lastCommitted) + 1
    try db.run(
      """
      INSERT INTO member_list (channel, listing, begun_at, begun_seq)
      VALUES (?1, ?2, ?3, ?4)
      ON CONFLICT (channel) DO UPDATE
      SET listing = ?2, begun_at = ?3, begun_seq = ?4, begun_news = news, token = NULL, pages = 0
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, number)
      $0.bind(3, moment)
      $0.bind(4, lastCommitted)
    }
    return MemberListing(number: number, token: nil)
  }

  /// Stores a page of a listing and the token of the next one. False: another listing began, or everything
  /// was cleared.
  package func store(
    _ page: [MemberRecord], of url: ChannelURL, in listing: MemberListing, next: String?
  ) throws -> Bool {
    guard let channel = try reader.channelKey(of: url),
      try reader.lastListing(of: channel) == listing.number
    else { return false }
    var isChanged = false
    for member in page where member.state != .outside {
      isChanged = try store(member, of: channel, at: 0) != .same || isChanged
      try db.run("UPDATE member SET listing = ?3 WHERE channel = ?1 AND user_id = ?2") {
        $0.bind(1, channel.rawValue)
        $0.bind(2, member.userID)
        $0.bind(3, listing.number)
      }
    }
    try db.run("UPDATE member_list SET token = ?2, pages = pages + 1 WHERE channel = ?1") {
      $0.bind(1, channel.rawValue)
      $0.bind(2, next)
    }
    if isChanged { try append(Change(.channel, .channelRefresh, channel: channel)) }
    return true
  }

  /// Ends a listing that reached its last page, and removes the members in `gone`. The list is whole if there
  /// are as many rows as `counted`, and if no member came or went while the listing ran. Answers whether it
  /// is whole.
  package func endMembers(
    of url: ChannelURL, _ listing: MemberListing, gone: [UserID], counted: Int64?
  ) throws -> Bool {
    guard let channel = try reader.channelKey(of: url),
      try reader.lastListing(of: channel) == listing.number
    else { return false }
    let begun = try reader.beginning(ofListingOf: channel)
    let before = try reader.memberList(of: channel)
    var list = before
    var isChanged = false
    for user in gone { isChanged = try removeMember(user.text, of: channel) || isChanged }
    if isChanged { list.changedAt = lastCommitted + 1 }
    let isCounted = try counted == reader.storedMembers(of: channel)
    list.isWhole = isCounted && list.news == begun.news && before.changedAt <= begun.sequence
    list.shownAt = moment
    if list.isWhole { list.settled = list.news }
    try save(list, of: channel)
    try db.run("UPDATE member_list SET token = NULL WHERE channel = ?1") { $0.bind(1, channel.rawValue) }
    if isChanged || list.isComplete != before.isComplete {
      try append(Change(.channel, .channelRefresh, channel: channel))
    }
    return list.isWhole
  }
}

extension CacheReader {
  /// The stored members, split into those that this complete listing showed and those that it did not.
  package func shownMembers(of url: ChannelURL, by listing: MemberListing) throws -> ShownMembers {
    guard let channel = try channelKey(of: url), try lastListing(of: channel) == listing.number else {
      return ShownMembers()
    }
    let begun = try beginning(ofListingOf: channel).sequence
    var shown = ShownMembers()
    var rows = try db.rows(
      "SELECT user_id, listing = ?2 OR seq > ?3 FROM member WHERE channel = ?1 ORDER BY seq DESC"
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, listing.number)
      $0.bind(3, begun)
    }
    while let row = try rows.next() {
      if row.bool(1) { shown.present += 1 } else { shown.absent.append(UserID(row.string(0))) }
    }
    return shown
  }

  fileprivate func lastListing(of channel: ChannelKey) throws -> Int64 {
    try db.first("SELECT listing FROM member_list WHERE channel = ?1") {
      $0.bind(1, channel.rawValue)
    } _: {
      $0.int64(0)
    } ?? 0
  }

  fileprivate func listingUnderWay(of channel: ChannelKey, since moment: Int64) throws -> MemberListing? {
    try db.first(
      "SELECT listing, token FROM member_list WHERE channel = ?1 AND token IS NOT NULL AND begun_at >= ?2"
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, moment)
    } _: {
      MemberListing(number: $0.int64(0), token: $0.string(1))
    }
  }

  fileprivate func beginning(
    ofListingOf channel: ChannelKey
  ) throws -> (sequence: Int64, news: Int64) {
    try db.first("SELECT begun_seq, begun_news FROM member_list WHERE channel = ?1") {
      $0.bind(1, channel.rawValue)
    } _: {
      ($0.int64(0), $0.int64(1))
    } ?? (0, 0)
  }
}
