import ChatModel
import SQLite

// Writes the notices of a lane to the event log and to the table `request`.
extension CacheWriter {
  /// Appends the event of a notice.
  func tell(
    _ notice: OutboxLane.Notice, in laneKey: OutboxLaneKey, _ before: OutboxLane, _ after: OutboxLane
  ) throws {
    switch notice {
    case .pendingCreated(let id): try log(after.row(id), .localPendingCreated, laneKey)
    case .resendStarted(let id): try log(after.row(id), .localResendStarted, laneKey)
    case .failed(let id, _): try log(after.row(id), .localFailed, laneKey)
    case .canceled(let id): try log(after.row(id), .localCanceled, laneKey)
    case .succeeded(let id, let message):
      try end(before.row(id), as: "succeeded", message: message, laneKey)
      try log(before.row(id), .messageSent, laneKey, message: message)
      if before.row(id)?.isCancelWanted == true, let message { try showAfterAll(message, laneKey) }
    case .dropped(let id, let code):
      let target = before.row(id)?.target
      try end(before.row(id), as: "dropped", message: target, code: code, laneKey)
      try log(before.row(id), .localFailed, laneKey, message: target)
    case .removed(let id):
      try end(before.row(id), as: "removed", laneKey)
      try log(before.row(id), .localFailed, laneKey)
    case .merged(let from, let to):
      // If both are one row, the message was edited in the outbox, and its request goes on.
      if from != to { try end(before.row(from), as: "merged", laneKey) }
      try log(after.row(to) ?? before.row(to), .messageUpdated, laneKey)
    }
  }

  /// Shows the sender a message that was canceled too late and that the upstream refused to delete.
  private func showAfterAll(_ message: Int64, _ laneKey: OutboxLaneKey) throws {
    guard let channel = try reader.channelKey(of: laneKey.channel) else { return }
    try show(message, to: laneKey.user, in: channel, .messageSent)
  }

  /// Appends an event for the sender.
  private func log(
    _ row: OutboxRow?, _ source: ChangeSource, _ laneKey: OutboxLaneKey, message: Int64? = nil
  ) throws {
    guard let row else { return }
    var change = Change(.outbox, source, user: laneKey.user)
    change.channel = try reader.channelKey(of: laneKey.channel)
    change.reference = row.requestID.text
    // The event of an unsent message names the message that it became; that of a change names its target.
    if row.kind.isMessage {
      change.detail = message.map { OutboxDetail.message.written($0) }
    } else if let target = message ?? row.target {
      change.detail = OutboxDetail.target.written(target)
    }
    try append(change)
  }

  /// Stores that the canceled request sent the message, which is to be deleted upstream. No other request can
  /// then claim the message, and the message is stored with this request's id.
  func claim(_ message: Int64, for request: RequestID, of user: UserKey) throws {
    try db.run("UPDATE request SET message_id = ?3 WHERE user = ?1 AND request_id = ?2") {
      $0.bind(1, user.rawValue)
      $0.bind(2, request.text)
      $0.bind(3, message)
    }
  }

  /// Stores how the request of a deleted row ended. Its id is remembered for a while (B37).
  private func end(
    _ row: OutboxRow?, as end: String, message: Int64? = nil, code: String? = nil, _ laneKey: OutboxLaneKey
  ) throws {
    guard let row else { return }
    try db.run(
      """
      UPDATE request
      SET ended_at = ?3, ended_as = ?4, message_id = coalesce(?5, message_id), error_code = ?6
      WHERE user = ?1 AND request_id = ?2
      """
    ) {
      $0.bind(1, laneKey.user.rawValue)
      $0.bind(2, row.requestID.text)
      $0.bind(3, now)
      $0.bind(4, end)
      $0.bind(5, message)
      $0.bind(6, code)
    }
  }
}

/// The field of an outbox event beside its request id.
package enum OutboxDetail: String, Sendable {
  /// The message that an unsent one became.
  case message = "message_id"
  /// The confirmed message that a change is about.
  case target = "target_id"

  /// The JSON field that the event stores, without braces.
  func written(_ id: Int64) -> [UInt8] { Array("\"\(rawValue)\":\"\(id)\"".utf8) }
}

extension Change {
  /// The id in that field of an outbox event; nil: the event does not have the field.
  package func outboxDetail(_ kind: OutboxDetail) -> Int64? {
    guard self.kind == .outbox, let detail else { return nil }
    let start = Array("\"\(kind.rawValue)\":\"".utf8)
    guard detail.starts(with: start), detail.last == UInt8(ascii: "\"") else { return nil }
    return Int64(String(decoding: detail.dropFirst(start.count).dropLast(), as: UTF8.self))
  }
}

extension CacheReader {
  /// The channel's key; nil: the cache does not know the channel.
  package func channelKey(of url: ChannelURL) throws -> ChannelKey? {
    try db.first("SELECT id FROM channel WHERE channel_url = ?1") {
      $0.bind(1, url.text)
    } _: {
      ChannelKey($0.int64(0))
    }
  }
}
