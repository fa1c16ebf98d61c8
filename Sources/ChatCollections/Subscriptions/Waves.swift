import ChatModel

/// Decides when the followers of a chat are woken. If they are many, they are woken together, in waves: the
/// next wave begins when most of them were told with the last one and had time to poll again, however many
/// changes came meanwhile. Those who are told later in a wave are told what came in its earlier parts, too.
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
    package var perFollower: UInt64 = 60_000
    /// The parts of that time. Those who are told in one part are told up to the same change, so that they
    /// can share answers.
    package var parts: UInt64 = 4

    /// The defaults.
    package init() {}
  }

  /// Whether a poll is answered with the present wave of its chat, waits for the next one, or neither.
  package enum Turn: Equatable, Sendable {
    /// Nothing: there is no wave, or nothing came since the wave told the poll.
    case free
    /// The poll is told with the wave, and its answer ends at that sequence.
    case told(upTo: Int64)
    /// The wave told the poll, and the next one tells it what came since.
    case waits
  }

  private struct Wave {
    /// The log's end when the wave began.
    let head: Int64
    /// The log's end when the present part of the wave began: polls are told up to it.
    private(set) var toldUpTo: Int64
    private var nextPartAt: UInt64
    private let timeOfPart: UInt64
    let earliestEnd: UInt64
    /// A wave waits no longer for followers who may not come again.
    let latestEnd: UInt64
    /// How many followers have yet to be told before the wave may end at `earliestEnd`.
    var untold: Int
    /// Whether a change came after the wave began. It begins the next wave.
    var isNextDue = false

    var end: UInt64 { untold > 0 ? latestEnd : earliestEnd }

    init(head: Int64, at now: UInt64, followers: Int, _ settings: Settings) {
      let time = UInt64(followers) * settings.perFollower
      self.head = head
      toldUpTo = head
      timeOfPart = time / settings.parts
      nextPartAt = now + timeOfPart
      earliestEnd = now + time
      latestEnd = now + 3 * time
      untold = followers * 3 / 4
    }

    /// Notes a change that came while the wave is under way.
    mutating func note(sequence: Int64, head: Int64, at now: UInt64) {
      guard sequence > self.head else { return }
      isNextDue = true
      guard now >= nextPartAt else { return }
      toldUpTo = max(toldUpTo, head)
      nextPartAt = now + timeOfPart
    }
  }

  private let settings: Settings
  private var waves: [ChannelKey: Wave] = [:]

  init(_ settings: Settings) { self.settings = settings }

  /// Whether there are none.
  var isEmpty: Bool { waves.isEmpty }

  /// The moment at which the next wave begins; nil: none is due.
  var next: UInt64? { waves.values.lazy.filter(\.isNextDue).map(\.end).min() }

  /// Begins a wave of the channel for a change with that sequence, unless a wave is under way. Returns
  /// whether the channel's `followers` are woken now, at `now`. If not, the present wave tells the change to
  /// those who are told later in it, and the next wave to the others. `head`: the log's end.
  mutating func begin(
    in channel: ChannelKey, followers: Int, at now: UInt64, sequence: Int64, head: Int64
  ) -> Bool {
    if let wave = waves[channel], now < wave.end {
      waves[channel]?.note(sequence: sequence, head: head, at: now)
      return false
    }
    waves[channel] =
      followers < settings.fewest ? nil : Wave(head: head, at: now, followers: followers, settings)
    return true
  }

  /// Forgets the waves that are over. Returns the channels whose next wave begins.
  mutating func takeEnded(at now: UInt64) -> [ChannelKey] {
    let over = waves.filter { $0.value.end <= now }
    for channel in over.keys { waves[channel] = nil }
    return over.filter(\.value.isNextDue).map(\.key)
  }

  /// A follower of the channel is told with the present wave. Returns whether this makes the next wave begin
  /// earlier.
  mutating func noteTold(in channel: ChannelKey) -> Bool {
    guard var wave = waves[channel], wave.untold > 0 else { return false }
    wave.untold -= 1
    waves[channel] = wave
    return wave.untold == 0 && wave.isNextDue
  }

  /// The turn of a poll with this cursor in the channel's present wave.
  func turn(in channel: ChannelKey, after sequence: Int64) -> Turn {
    guard let wave = waves[channel] else { return .free }
    if sequence < wave.head { return .told(upTo: wave.toldUpTo) }
    return wave.isNextDue ? .waits : .free
  }
}
