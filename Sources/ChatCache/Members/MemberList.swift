import ChatModel
import SQLite

// How completely the cache holds a channel's members. A channel's answer shows its first hundred members and
// the number of all; only the list of members shows all. The table stores whether the rows are all members.
// Counts cannot tell that: as many may have joined as left.

/// How completely a channel's list of members is cached.
package struct MemberList: Sendable, Equatable {
  /// Whether the cache has stored a whole list of the members.
  package var isWhole = false
  /// The number of times that an answer, an event or a webhook told of members who joined or left.
  package var news: Int64 = 0
  /// The value of `news` that the stored members already include.
  package var settled: Int64 = 0
  /// When the upstream last listed all members (`CacheWriter.moment`).
  package var shownAt: Int64 = 0
  /// The log's sequence when a member was last added or removed by anything but a listing.
  package var changedAt: Int64 = 0

  /// A list of which nothing is cached.
  package init() {}

  /// Whether the stored members are all members, as far as the upstream has told (B8).
  package var isComplete: Bool { isWhole && news == settled }
}

extension CacheReader {
  /// How completely the channel's list of members is cached.
  package func memberList(of url: ChannelURL) throws -> MemberList {
    try channelKey(of: url).map { try memberList(of: $0) } ?? MemberList()
  }

  /// How completely the channel's list of members is cached.
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

  /// Whether the user is stored as a member.
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
  /// Stores the state of the list.
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

  /// Deletes the state of the list.
  func forgetMemberList(of channel: ChannelKey) throws {
    try db.run("DELETE FROM member_list WHERE channel = ?1") { $0.bind(1, channel.rawValue) }
  }

  /// Notes that a member was removed by anything but a listing.
  func noteMemberGone(of channel: ChannelKey) throws {
    try db.run("UPDATE member_list SET changed_seq = ?2 WHERE channel = ?1") {
      $0.bind(1, channel.rawValue)
      $0.bind(2, lastCommitted + 1)
    }
  }

  /// Notes that members joined or left. The list is incomplete until it is fetched again. If it was complete
  /// before, an event of the channel tells subscribers.
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
