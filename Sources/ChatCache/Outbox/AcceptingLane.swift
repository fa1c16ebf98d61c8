import ChatModel

/// What accepting a request reads about its user and channel.
///
/// A batch often has many sends of one lane. While nothing but accepted messages of that lane was written
/// since, the next one uses these values instead of reading them again.
struct AcceptingLane {
  let user: UserID
  let view: ChannelView
  /// The number of the user's unsent rows.
  var unsent: Int64
  /// The channel's rules, once a request needed them.
  var rules: SendingRules?
  /// The sender as messages show it, once a request needed it.
  var sender: [UInt8]?
  /// The rows that decide how a message is accepted, once a message was stored.
  var lane: OutboxLane?
  /// The id of the last row of the outbox, once a row was stored.
  var lastID: Int64?
  /// The number of rows that the connection had changed when these values were true.
  var changedRows: Int64

  var key: OutboxLaneKey { OutboxLaneKey(user: view.user, channel: view.url) }
}

extension CacheWriter {
  /// The user's lane in the channel: the last request's, if only accepted messages were written since.
  func acceptingLane(of user: UserID, in url: ChannelURL) throws -> AcceptingLane {
    if let known = accepting, known.changedRows == db.changedRows, known.user == user, known.view.url == url {
      return known
    }
    guard let key = try reader.userKey(of: user), let view = try reader.view(of: url, for: key) else {
      throw SendingDenial.channelNotFound
    }
    let counts = try reader.unsentCounts(of: key)
    return AcceptingLane(
      user: user, view: view, unsent: counts.pending + counts.failed + counts.canceled,
      changedRows: db.changedRows)
  }
}
