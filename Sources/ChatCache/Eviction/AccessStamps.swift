import ChatModel
import Platform
import SQLite

/// When the messages of channels were last read, kept in memory until the evictor's thread stores it (B22).
///
/// Many HTTP clients open no view, so reading a page also counts as a use of the channel. A read must not
/// wait for a write: it notes the channel here, and the evictor's thread stores the times, for one channel at
/// most once a minute.
final class AccessStamps: Sendable {
  /// The shortest time between two writes of one channel (ms).
  static let interval: Int64 = 60_000
  /// The most channels that one commit writes.
  private static let rows = 200

  private struct State {
    /// When each channel was last read and not yet written, by the wall clock.
    var noted: [ChannelKey: Int64] = [:]
    /// When each channel was last written, by the monotonic clock; only those of the last minute.
    var written: [ChannelKey: Int64] = [:]
  }

  private let state = Guarded(State())
  /// One thread stores at a time, so that after a return from `store` everything due is stored.
  private let storing = Lock()

  /// Notes that a page of the channel was read at `moment` (wall ms).
  func note(_ channel: ChannelKey, at moment: Int64) { state.withLock { $0.noted[channel] = moment } }

  /// Whether the channel was read since its time was last stored.
  func isNoted(_ channel: ChannelKey) -> Bool { state.withLock { $0.noted[channel] != nil } }

  /// Takes the noted channels that may be written at `now` (monotonic ms).
  func take(now: Int64) -> [(channel: ChannelKey, moment: Int64)] {
    state.withLock { state in
      state.written = state.written.filter { now - $0.value < AccessStamps.interval }
      let due = state.noted.filter { state.written[$0.key] == nil }
      for channel in due.keys {
        state.noted[channel] = nil
        state.written[channel] = now
      }
      return due.map { ($0.key, $0.value) }
    }
  }

  /// Writes the noted times that are due. Waits for the commit.
  func store(through queue: CommitQueue, now: Int64) throws {
    try storing.withLock {
      var stamps = take(now: now)[...]
      while !stamps.isEmpty {
        let slice = Array(stamps.prefix(AccessStamps.rows))
        stamps = stamps.dropFirst(AccessStamps.rows)
        try queue.wait(.derived) { writer in
          for stamp in slice { try writer.stamp(stamp.channel, at: stamp.moment) }
        }
      }
    }
  }
}

extension CacheWriter {
  /// Stores `moment` as the channel's last use, unless a later one is stored.
  fileprivate func stamp(_ channel: ChannelKey, at moment: Int64) throws {
    try db.run("UPDATE channel SET accessed_at = ?2 WHERE id = ?1 AND accessed_at < ?2") {
      $0.bind(1, channel.rawValue)
      $0.bind(2, moment)
    }
  }
}
