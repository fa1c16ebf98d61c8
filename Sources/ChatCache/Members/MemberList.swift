import ChatModel
import SQLite

// The list of a channel's members has coverage of its own: a channel's answers show the first hundred of them
// and tell how many there are, and only the list itself shows all. Whether the stored rows are all the
// members is a fact that is stored, never a comparison of numbers: as many may have come as left.

/// How far a channel's list of members is known here.
package struct MemberList: Sendable, Equatable {
  /// Whether the stored members were all there were when the list was last shown whole.
  package var isWhole = false
  /// How many times an answer, an event or a webhook said that members came or went.
  package var news: Int64 = 0
  /// The value of `news` up to which the stored members are right.
  package var settled: Int64 = 0
  /// When the list was last shown whole (`CacheWriter.moment`).
  package var shownAt: Int64 = 0
  /// The log's sequence when a member last came or went by other words than a listing's.
  package var changedAt: Int64 = 0

  /// Nothing is known.
  package init() {}

  /// Whether the stored members are all the members, as far as anything here was told (B8).
  package var isComplete: Bool { isWhole && news == settled }
}

extension CacheReader {
  /// How far the channel's list of members is known.
  package func memberList(of url: ChannelURL) throws -> MemberList {
    try channelKey(of: url).map { try memberList(of: $0) } ?? MemberList()
  }

  /// How far the channel's list of members is known.
  package func memberList(of channel: ChannelKey) throws -> MemberList {
    try db.first(
      "SELECT is_whole, news, settled, shown_at, changed_seq FROM member_list WHERE channel = ?1"
    ) {
      $0.bind(1, channel.rawValue)
    } _: { row in
      var list = MemberList()
      list.isWhole = row.bool(0)
      list.news = row.int64(1)
      list.settled = row.int64(2)
      list.shownAt = row.int64(3)
      list.changedAt = row.int64(4)
      return list
    } ?? MemberList()
  }

  /// How many members are stored.
  func storedMembers(of channel: ChannelKey) throws -> Int64 {
    try db.first("SELECT count(*) FROM member WHERE channel = ?1") {
      $0.bind(1, channel.rawValue)
    } _: {
      $0.int64(0)
    } ?? 0
  }

  /// How many members the upstream said there are, 0 where it did not.
  func memberCount(of channel: ChannelKey) throws -> Int64 {
    try db.first("SELECT member_count FROM channel WHERE id = ?1") {
      $0.bind(1, channel.rawValue)
    } _: {
      $0.int64(0)
    } ?? 0
  }

  /// Whether the person is stored as a member.
  package func hasMember(_ user: UserID, in url: ChannelURL) throws -> Bool {
    try db.first(
      """
      SELECT 1
      FROM channel AS c
      JOIN member AS b ON b.channel = c.id AND b.user_id = ?2
      WHERE c.channel_url = ?1
      """
    ) {
      $0.bind(1, url.text)
      $0.bind(2, user.text)
    } _: { _ in
      true
    } ?? false
  }
}

extension CacheWriter {
  /// Writes how far the list is known.
  func save(_ list: MemberList, of channel: ChannelKey) throws {
    try db.run(
      """
      INSERT INTO member_list (channel, is_whole, news, settled, shown_at, changed_seq)
      VALUES (?1, ?2, ?3, ?4, ?5, ?6)
      ON CONFLICT (channel) DO UPDATE
      SET is_whole = ?2, news = ?3, settled = ?4, shown_at = ?5, changed_seq = ?6
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, list.isWhole)
      $0.bind(3, list.news)
      $0.bind(4, list.settled)
      $0.bind(5, list.shownAt)
      $0.bind(6, list.changedAt)
    }
  }

  /// Nothing is known of the list any more.
  func forgetMemberList(of channel: ChannelKey) throws {
    try db.run("DELETE FROM member_list WHERE channel = ?1") { $0.bind(1, channel.rawValue) }
  }

  /// A member went by another word than the list's.
  func noteMemberGone(of channel: ChannelKey) throws {
    try db.run("UPDATE member_list SET changed_seq = ?2 WHERE channel = ?1") {
      $0.bind(1, channel.rawValue)
      $0.bind(2, lastCommitted + 1)
    }
  }

  /// Something said that members came or went: until the list is in step with that, it is not complete. The
  /// event tells that, where the list was complete before.
  func noteMemberNews(in url: ChannelURL, _ source: ChangeSource) throws {
    guard let channel = try reader.channelKey(of: url) else { return }
    var list = try reader.memberList(of: channel)
    guard list != MemberList() else { return }
    let wasComplete = list.isComplete
    list.news += 1
    try save(list, of: channel)
    if wasComplete { try append(Change(.channel, source, channel: channel)) }
  }
}
