import ChatModel

/// Decides when the followers of a chat are woken. If they are many, they are woken together, in waves: the
/// next wave begins when most of them were told with the last one and had time to poll again, however many
/// changes came meanwhile.
///
/// Without that, a chat with many followers and many messages gets slower and slower. While some polls are
/// answered the next message comes, so that each poll goes on from another cursor, needs an answer of its own
/// and is late for the next message.
package struct Waves: Sendable {
  /// How many followers are many, and how much time they get.
  package struct Settings: Sendable {
    /// Fewer followers than this are woken by each change.
    package var fewest = 100
    /// The least time that a wave takes for each follower, ns.
    package var perFollower: UInt64 = 75_000

    /// The defaults.
    package init() {}
  }

  private struct Wave {
    /// The sequence of the change that began the wave.
    let head: Int64
    let earliestEnd: UInt64
    /// A wave waits no longer for followers who may not come again.
    let latestEnd: UInt64
    /// How many more followers are told before the wave may be over.
    var expected: Int
    /// Whether a change came since, for which the next wave begins.
    var isFollowed = false

    var end: UInt64 { expected > 0 ? latestEnd : earliestEnd }

    init(head: Int64, at now: UInt64, followers: Int, _ settings: Settings) {
      let time = UInt64(followers) * settings.perFollower
      self.head = head
      earliestEnd = now + time
      latestEnd = now + 3 * time
      expected = followers * 3 / 4
    }
  }

  private let settings: Settings
  private var waves: [ChannelKey: Wave] = [:]

  init(_ settings: Settings) { self.settings = settings }

  /// Whether there are none.
  var isEmpty: Bool { waves.isEmpty }

  /// The moment at which the next wave begins; nil: none is due.
  var next: UInt64? { waves.values.lazy.filter(\.isFollowed).map(\.end).min() }

  /// Whether the channel's `followers` are woken now, at `now`, by a change with the sequence `head`. If not,
  /// they are woken when the wave is over.
  mutating func begins(in channel: ChannelKey, followers: Int, at now: UInt64, head: Int64) -> Bool {
    if let wave = waves[channel], now < wave.end {
      waves[channel]?.isFollowed = true
      return false
    }
    waves[channel] =
      followers < settings.fewest ? nil : Wave(head: head, at: now, followers: followers, settings)
    return true
  }

  /// Forgets the waves that are over. Returns the channels whose next wave begins.
  mutating func end(at now: UInt64) -> [ChannelKey] {
    let over = waves.filter { $0.value.end <= now }
    for channel in over.keys { waves[channel] = nil }
    return over.filter(\.value.isFollowed).map(\.key)
  }

  /// A follower of the channel is told with the present wave. True: the wave may be over now, and the next
  /// one is due.
  mutating func told(in channel: ChannelKey) -> Bool {
    guard var wave = waves[channel], wave.expected > 0 else { return false }
    wave.expected -= 1
    waves[channel] = wave
    return wave.expected == 0 && wave.isFollowed
  }

  /// Whether another wave of the channel is due after the present one, which told a poll with this cursor.
  func isFollowed(_ channel: ChannelKey, after sequence: Int64) -> Bool {
    waves[channel].map { $0.isFollowed && sequence >= $0.head } ?? false
  }

  /// The sequence of the change that began the present wave of the channel.
  func head(of channel: ChannelKey) -> Int64? { waves[channel]?.head }
}
