import ChatModel
import Testing

@testable import ChatCollections

/// When the followers of a chat are woken, if they are many.
@Suite struct WavesTests {
  private let channel = ChannelKey(1)

  /// Waves of ten followers or more, which take 10 ns for each. It is an object so that an
  /// expectation can change it.
  private final class Subject {
    private var waves: Waves

    init() {
      var settings = Waves.Settings()
      (settings.fewest, settings.perFollower) = (10, 10)
      waves = Waves(settings)
    }

    var isEmpty: Bool { waves.isEmpty }
    var next: UInt64? { waves.next }

    /// Whether a change wakes so many followers. `head`: nil: the change is the log's last one.
    func begin(
      in channel: ChannelKey, followers: Int, at now: UInt64, _ sequence: Int64, head: Int64? = nil
    ) -> Bool {
      waves.begin(
        in: channel, followers: followers, at: now, sequence: sequence, head: head ?? sequence)
    }

    func takeEnded(at now: UInt64) -> [ChannelKey] { waves.takeEnded(at: now) }
    func noteTold(in channel: ChannelKey) -> Bool { waves.noteTold(in: channel) }
    func turn(in channel: ChannelKey, after sequence: Int64) -> Waves.Turn {
      waves.turn(in: channel, after: sequence)
    }
  }

  @Test("few followers are woken by each change")
  func few() {
    let waves = Subject()
    for now in UInt64(0)..<3 {
      #expect(waves.begin(in: channel, followers: 9, at: now, 5))
      #expect(waves.isEmpty && waves.next == nil && waves.turn(in: channel, after: 4) == .free)
    }
  }

  @Test("many followers' next wave begins when the time is over and three quarters of them were told")
  func many() {
    let waves = Subject()
    #expect(waves.begin(in: channel, followers: 12, at: 1_000, 5))
    #expect(waves.next == nil, "nothing came since")
    #expect(waves.turn(in: channel, after: 4) == .told(upTo: 5))
    #expect(waves.turn(in: channel, after: 5) == .free)
    #expect(!waves.begin(in: channel, followers: 12, at: 1_001, 6))
    #expect(waves.turn(in: channel, after: 4) == .told(upTo: 5), "the wave is still the first change's")
    #expect(waves.turn(in: channel, after: 5) == .waits && waves.turn(in: channel, after: 6) == .waits)
    #expect(waves.next == 1_360, "three times as long while few were told")
    for number in 1...9 { #expect(waves.noteTold(in: channel) == (number == 9)) }
    #expect(!waves.noteTold(in: channel), "only once")
    #expect(waves.next == 1_120)
    #expect(waves.takeEnded(at: 1_119) == [])
    #expect(waves.takeEnded(at: 1_120) == [channel])
    #expect(waves.isEmpty)
  }

  @Test("who is told late in a wave is told what came in its earlier parts; who was told before waits")
  func parts() {
    let waves = Subject()
    #expect(waves.begin(in: channel, followers: 12, at: 1_000, 5))
    #expect(!waves.begin(in: channel, followers: 12, at: 1_029, 6))
    #expect(waves.turn(in: channel, after: 4) == .told(upTo: 5), "the first part is not over")
    #expect(!waves.begin(in: channel, followers: 12, at: 1_030, 7, head: 8))
    #expect(waves.turn(in: channel, after: 4) == .told(upTo: 8))
    for told in [Int64(5), 6, 8] { #expect(waves.turn(in: channel, after: told) == .waits) }
    #expect(!waves.begin(in: channel, followers: 12, at: 1_040, 9))
    #expect(waves.turn(in: channel, after: 4) == .told(upTo: 8), "a part has one end")
    #expect(!waves.begin(in: channel, followers: 12, at: 1_060, 9))
    #expect(waves.turn(in: channel, after: 4) == .told(upTo: 9))
    #expect(waves.takeEnded(at: 1_360) == [channel], "the next wave tells the others")
  }

  @Test("a change that the wave tells begins no other wave")
  func toldAlready() {
    let waves = Subject()
    #expect(waves.begin(in: channel, followers: 12, at: 0, 5, head: 8))
    for sequence in Int64(6)...8 { #expect(!waves.begin(in: channel, followers: 12, at: 1, sequence)) }
    #expect(waves.next == nil && waves.turn(in: channel, after: 7) == .told(upTo: 8))
    #expect(!waves.begin(in: channel, followers: 12, at: 1, 9))
    #expect(waves.next == 360)
  }

  @Test("a wave does not wait for followers who never come, and is forgotten if nothing came since")
  func absent() {
    let waves = Subject()
    #expect(waves.begin(in: channel, followers: 20, at: 0, 5))
    #expect(!waves.begin(in: channel, followers: 20, at: 599, 6))
    #expect(waves.takeEnded(at: 599) == [] && waves.takeEnded(at: 600) == [channel])
    #expect(waves.begin(in: channel, followers: 20, at: 600, 6))
    #expect(waves.takeEnded(at: 1_200) == [] && waves.isEmpty)
    // A change that finds the last wave over begins the next by itself.
    #expect(waves.begin(in: channel, followers: 20, at: 2_000, 7))
    #expect(waves.begin(in: channel, followers: 20, at: 2_600, 8))
    #expect(waves.turn(in: channel, after: 7) == .told(upTo: 8))
  }

  @Test("each chat has waves of its own")
  func several() {
    let waves = Subject()
    let other = ChannelKey(2)
    #expect(waves.begin(in: channel, followers: 10, at: 0, 5))
    #expect(waves.begin(in: other, followers: 100, at: 0, 5))
    #expect(!waves.begin(in: channel, followers: 10, at: 1, 6))
    #expect(waves.next == 300 && !waves.noteTold(in: other))
    #expect(waves.takeEnded(at: 300) == [channel])
    #expect(waves.turn(in: other, after: 4) == .told(upTo: 5) && waves.next == nil)
  }
}
