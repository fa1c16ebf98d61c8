import ChatModel
import SQLite

// Removes the unsent rows of all users before everything is cleared by force (B58). If they are more than one
// commit removes, they go in slices, each with an event as if its user had removed it. A row that is accepted
// after the first slice stays: its user was told that it will be sent, and however many come, the slices end.

extension Cache {
  /// Removes unsent rows in slices. Then commits `body` as a client's write, which removes the rest, and
  /// calls `finish` on the writer's thread after the fsync. `body` gets the id of the last row to remove. If
  /// the caller stops to wait, all of this goes on.
  package func accept<Result: Sendable>(
    afterRemovingUnsent body: @escaping @Sendable (CacheWriter, _ last: Int64) throws -> Result,
    finish: @escaping @Sendable (Swift.Result<Result, any Error>) -> Void
  ) {
    queue.removeUnsent { [queue] removal in
      switch removal {
      case .success(let last): queue.submit(.intent, { try body($0, last) }, finish: finish)
      case .failure(let error): finish(.failure(error))
      }
    }
  }
}

extension CommitQueue {
  /// Commits slices until few rows are left, then calls `finish` with the id of the last row to remove. The
  /// first slice finds it; until then `last` is nil.
  fileprivate func removeUnsent(
    through last: Int64? = nil, finish: @escaping @Sendable (Result<Int64, any Error>) -> Void
  ) {
    submit(.room) { writer in
      let last = try last ?? writer.nextUnsentID() - 1
      return (last: last, isLeft: try writer.removeSliceOfUnsent(through: last))
    } finish: { [self] slice in
      switch slice {
      case .success((let last, true)): removeUnsent(through: last, finish: finish)
      case .success((let last, false)): finish(.success(last))
      case .failure(let error): finish(.failure(error))
      }
    }
  }
}

extension CacheReader {
  /// The lane of the newest unsent row up to the row `last`.
  fileprivate func newestLane(through last: Int64) throws -> OutboxLaneKey? {
    try db.first("SELECT user, channel_url FROM outbox WHERE id <= ?1 ORDER BY id DESC LIMIT 1") {
      $0.bind(1, last)
    } _: {
      OutboxLaneKey(user: UserKey($0.int64(0)), channel: ChannelURL($0.string(1)))
    }
  }
}

extension CacheWriter {
  /// Removes unsent rows up to the row `last`, if they are more than one commit removes. True: more are left.
  func removeSliceOfUnsent(through last: Int64) throws -> Bool {
    let time = SliceTime()
    var left = try reader.unsentRows()
    while left > reader.log.mostCleared, !time.isOver {
      guard let laneKey = try reader.newestLane(through: last) else { return false }
      // A row that cannot be read is left to the last commit, which reads none.
      guard let removed = try removeLast(of: laneKey, through: last), removed > 0 else { return false }
      left -= Int64(removed)
    }
    return left > reader.log.mostCleared
  }

  /// Removes the last rows of a lane: the last ones first, so that no row is sent because a failed one before
  /// it is gone. Returns their number; nil: one of them cannot be read.
  private func removeLast(of laneKey: OutboxLaneKey, through last: Int64) throws -> Int? {
    let rows: OutboxLane
    do { rows = try reader.lastRows(of: laneKey, through: last, atMost: Self.removedAtOnce) } catch {
      guard case CacheError.unreadable = error else { throw error }
      return nil
    }
    return try changeLane(laneKey, from: rows) { $0.removeLast(Self.removedAtOnce, through: last) }.count
  }

  /// The rows that are removed before a slice looks at the time.
  private static let removedAtOnce = 20
}

extension OutboxLane {
  /// Removes the last rows up to the row `last`, whatever their state, and the changes that follow them.
  fileprivate mutating func removeLast(_ count: Int, through last: Int64) -> [Notice] {
    let gone = Set(rows.filter { $0.id <= last }.suffix(count).map(\.id))
    let removed = rows.filter { gone.contains($0.id) || $0.follows.map(gone.contains) ?? false }
    for row in removed { drop(row.id) }
    return removed.map { $0.kind.isMessage ? .removed($0.id) : .dropped($0.id, code: OutboxRow.withdrawn) }
  }
}
