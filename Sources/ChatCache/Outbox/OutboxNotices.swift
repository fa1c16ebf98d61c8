import ChatModel
import SQLite

// What happened to unsent rows, told to the event log and to the memory of requests.
extension CacheWriter {
  func tell(
    _ notice: OutboxLane.Notice, in place: OutboxPlace, _ before: OutboxLane, _ after: OutboxLane
  ) throws {
    switch notice {
    case .pendingCreated(let id): try log(after.row(id), .localPendingCreated, place)
    case .resendStarted(let id): try log(after.row(id), .localResendStarted, place)
    case .failed(let id, _): try log(after.row(id), .localFailed, place)
    case .canceled(let id): try log(after.row(id), .localCanceled, place)
    case .succeeded(let id, let message):
      try end(before.row(id), as: "succeeded", message: message, place)
      try log(before.row(id), .messageSent, place, message: message)
    case .dropped(let id, let code):
      try end(before.row(id), as: "dropped", message: before.row(id)?.target, code: code, place)
      try log(before.row(id), .localFailed, place, message: before.row(id)?.target)
    case .removed(let id):
      try end(before.row(id), as: "removed", place)
      try log(before.row(id), .localCanceled, place)
    case .merged(let from, let to):
      try end(before.row(from), as: "merged", place)
      try log(after.row(to) ?? before.row(to), .messageUpdated, place)
    }
  }

  /// One event for the sender; a row that is still there remembers it.
  private func log(
    _ row: OutboxRow?, _ source: ChangeSource, _ place: OutboxPlace, message: Int64? = nil
  ) throws {
    guard let row else { return }
    var change = Change(.outbox, source, user: place.user)
    change.channel = try reader.channelKey(of: place.channel)
    change.reference = row.requestID.text
    change.detail = message.map { Array("\"message_id\":\"\($0)\"".utf8) }
    let sequence = try append(change)
    try db.run("UPDATE outbox SET version = ?2 WHERE id = ?1") {
      $0.bind(1, row.id)
      $0.bind(2, sequence)
    }
  }

  /// The row is gone; its request id is remembered for a while (B37).
  private func end(
    _ row: OutboxRow?, as end: String, message: Int64? = nil, code: String? = nil, _ place: OutboxPlace
  ) throws {
    guard let row else { return }
    try db.run(
      """
      UPDATE request
      SET ended_at = ?3, ended_as = ?4, message_id = coalesce(?5, message_id), error_code = ?6
      WHERE user = ?1 AND request_id = ?2
      """
    ) {
      $0.bind(1, place.user.rawValue)
      $0.bind(2, row.requestID.text)
      $0.bind(3, now)
      $0.bind(4, end)
      $0.bind(5, message)
      $0.bind(6, code)
    }
  }
}

extension CacheReader {
  func channelKey(of url: ChannelURL) throws -> ChannelKey? {
    try db.first("SELECT id FROM channel WHERE channel_url = ?1") {
      $0.bind(1, url.text)
    } _: {
      ChannelKey($0.int64(0))
    }
  }
}
