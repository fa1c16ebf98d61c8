import ChatModel
import SQLite

// Removes the unsent rows of a user, or of all users, before their other data is removed (B4, B58). If they
// are more than one commit removes, they go in slices, with events as if their user had removed each. So
// views show what the outbox holds after every commit, also if the process ends in between.

extension Cache {
  /// Removes unsent rows of the user, or of all users, in slices. Then commits `body` as a client's write,
  /// which removes the rest, and calls `finish` on the writer's thread after the fsync. If the caller stops
  /// to wait, all of this goes on.
  package func accept<Result: Sendable>(
    afterRemovingUnsentOf user: UserID?, _ body: @escaping @Sendable (CacheWriter) throws -> Result,
    finish: @escaping @Sendable (Swift.Result<Result, any Error>) -> Void
  ) {
    queue.removeUnsent(of: user) { [queue] removal in
      switch removal {
      case .success: queue.submit(.intent, body, finish: finish)
      case .failure(let error): finish(.failure(error))
      }
    }
  }
}

extension CommitQueue {
  /// Commits slices until few rows are left, then calls `finish`.
  fileprivate func removeUnsent(
    of user: UserID?, finish: @escaping @Sendable (Result<Void, any Error>) -> Void
  ) {
    submit(.derived) {
      try $0.removeSliceOfUnsent(of: user)
    } finish: { [self] slice in
      switch slice {
      case .success(true): removeUnsent(of: user, finish: finish)
      case .success(false): finish(.success(()))
      case .failure(let error): finish(.failure(error))
      }
    }
  }
}

extension CacheReader {
  /// The lane of the newest unsent row of the user, or of all users.
  fileprivate func newestLane(of user: UserKey?) throws -> OutboxLaneKey? {
    let laneKey = { (row: Row) in
      OutboxLaneKey(user: UserKey(row.int64(0)), channel: ChannelURL(row.string(1)))
    }
    guard let user else {
      return try db.first("SELECT user, channel_url FROM outbox ORDER BY id DESC LIMIT 1", { _ in }, laneKey)
    }
    return try db.first(
      """
      SELECT user, channel_url
      FROM outbox INDEXED BY outbox_by_user
      WHERE user = ?1
      ORDER BY id DESC
      LIMIT 1
      """, { $0.bind(1, user.rawValue) }, laneKey)
  }
}

extension CacheWriter {
  /// Removes unsent rows of the user, or of all users, if they are more than one commit removes. True: they
  /// may still be more.
  func removeSliceOfUnsent(of user: UserID?) throws -> Bool {
    let key = try user.map { try reader.userKey(of: $0) ?? .unknown }
    let time = SliceTime()
    var left = try reader.unsentRows(of: key)
    while left > reader.log.mostCleared, !time.isOver {
      guard let laneKey = try reader.newestLane(of: key) else { return false }
      // The last ones go first, so that no row is sent because a failed one before it is gone.
      let last = try reader.lastRows(of: laneKey, atMost: Self.removedAtOnce)
      let removed = try changeLane(laneKey, from: last) { $0.removeLast(Self.removedAtOnce) }
      // A damaged index may lack the row.
      if removed.isEmpty { return false }
      left -= Int64(removed.count)
    }
    return left > reader.log.mostCleared
  }

  /// The rows that are removed before a slice looks at the time.
  private static let removedAtOnce = 20
}

extension OutboxLane {
  /// Removes the last rows, whatever their state.
  fileprivate mutating func removeLast(_ count: Int) -> [Notice] {
    let removed = rows.suffix(count)
    for row in removed { drop(row.id) }
    return removed.map { $0.kind.isMessage ? .removed($0.id) : .dropped($0.id, code: OutboxRow.withdrawn) }
  }
}
