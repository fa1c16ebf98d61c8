import SQLite

/// A change that all members of a channel see: it stamps the channel, and may move it in their lists.
///
/// In a channel of few members each member's row is changed. The first change that rewrites more than
/// `mostMembers` rows makes the channel a crowd: from then on one row of `crowd` has what is the same for all
/// members, and `sort_at` of each member is -1.
struct ChangeForAll {
  /// How the change moves the channel in its members' lists, which are in the order of `sort_at`: the time of
  /// the channel's last message or, if it has none, of its creation (ms).
  enum Order {
    case asBefore
    case atLeast(Int64)
    case at(Int64)

    /// The lowest and the highest `sort_at` that the channel may have after the change.
    var bounds: (least: Int64, most: Int64) {
      switch self {
      case .asBefore: (0, .max)
      case .atLeast(let time): (time, .max)
      case .at(let time): (time, time)
      }
    }
  }

  /// The number of members up to which each has a row of its own for what is the same for all.
  static let mostMembers = 100

  let channel: Int64
  var order = Order.asBefore
  let stamp: Int64

  func apply(_ db: WriteAccess) throws {
    let inCrowd = try db.run(
      "UPDATE crowd SET sort_at = min(max(sort_at, ?2), ?3), stamp = ?4 WHERE channel = ?1", bind)
    guard inCrowd == 0 else { return }
    let members = try db.run(
      "UPDATE member SET sort_at = min(max(sort_at, ?2), ?3), stamp = ?4 WHERE channel = ?1", bind)
    if members > ChangeForAll.mostMembers { try makeCrowd(db) }
  }

  private func bind(_ statement: Statement) {
    statement.bind(1, channel)
    statement.bind(2, order.bounds.least)
    statement.bind(3, order.bounds.most)
    statement.bind(4, stamp)
  }

  private func makeCrowd(_ db: WriteAccess) throws {
    try db.run(
      """
      INSERT INTO crowd (channel, sort_at, stamp, members, joined)
      SELECT channel, max(sort_at), max(stamp), count(*), count(*) FILTER (WHERE state = 'joined')
      FROM member
      WHERE channel = ?1
      """
    ) { $0.bind(1, channel) }
    try db.run("UPDATE member SET sort_at = -1 WHERE channel = ?1") { $0.bind(1, channel) }
  }
}
