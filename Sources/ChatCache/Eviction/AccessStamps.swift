import ChatModel
import Platform
import SQLite

/// When channels' messages were last read, until that is stored (B22).
///
/// Many HTTP clients open no view, so reading a page stamps the channel, too. A page must cost nothing more
/// for that: readers note the channel here, and the evictor's thread stores what was noted, of one channel at
/// most once a minute.
final class AccessStamps: Sendable {
  /// A channel is written at most once in so long (ms).
  static let interval: Int64 = 60_000
  /// Channels of one commit.
  private static let rows = 200

  private struct State {
    /// Channels that were read, and when, by the wall clock.
    var noted: [ChannelKey: Int64] = [:]
    /// Channels that were written within the last minute, and when, by the monotonic clock.
    var written: [ChannelKey: Int64] = [:]
  }

  private let state = Guarded(State())
  /// One thread stores at a time, so that whoever returns from `store` finds everything stored.
  private let storing = Lock()

  /// A page of the channel was read at that moment (wall ms).
  func note(_ channel: ChannelKey, at moment: Int64) { state.withLock { $0.noted[channel] = moment } }

  /// Whether the channel was read since it was last stored.
  func isNoted(_ channel: ChannelKey) -> Bool { state.withLock { $0.noted[channel] != nil } }

  /// What may be stored at that moment (monotonic ms).
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

  /// Stores what may be stored, on a thread that may wait.
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
  /// The channel was used at that moment, if nothing says that it was later.
  fileprivate func stamp(_ channel: ChannelKey, at moment: Int64) throws {
    try db.run("UPDATE channel SET accessed_at = ?2 WHERE id = ?1 AND accessed_at < ?2") {
      $0.bind(1, channel.rawValue)
      $0.bind(2, moment)
    }
  }
}
