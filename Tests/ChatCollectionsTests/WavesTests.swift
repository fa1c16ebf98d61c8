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
    func begins(in channel: ChannelKey, followers: Int, at now: UInt64, head: Int64) -> Bool {
      waves.begins(in: channel, followers: followers, at: now, head: head)
    }
    func end(at now: UInt64) -> [ChannelKey] { waves.end(at: now) }
    func told(in channel: ChannelKey) -> Bool { waves.told(in: channel) }
    func isFollowed(_ channel: ChannelKey, after sequence: Int64) -> Bool {
      waves.isFollowed(channel, after: sequence)
    }
    func head(of channel: ChannelKey) -> Int64? { waves.head(of: channel) }
  }

  @Test("few followers are woken by each change")
  func small() {
    let waves = Subject()
    for now in UInt64(0)..<3 {
      #expect(waves.begins(in: channel, followers: 9, at: now, head: 5))
      #expect(waves.isEmpty && waves.next == nil && waves.head(of: channel) == nil)
    }
  }

  @Test(
    "many followers' next wave begins when the time is over and three quarters of them were told")
  func crowded() {
    let waves = Subject()
    #expect(waves.begins(in: channel, followers: 12, at: 1_000, head: 5))
    #expect(waves.head(of: channel) == 5 && waves.next == nil)
    #expect(!waves.isFollowed(channel, after: 5), "nothing came since")
    #expect(!waves.begins(in: channel, followers: 12, at: 1_001, head: 6))
    #expect(waves.head(of: channel) == 5, "the wave is still the one of the first change")
    #expect(waves.isFollowed(channel, after: 5) && waves.isFollowed(channel, after: 6))
    #expect(
      !waves.isFollowed(channel, after: 4), "who was not told with this wave does not wait for the next")
    #expect(waves.next == 1_360, "three times as long while few were told")
    for number in 1...9 { #expect(waves.told(in: channel) == (number == 9)) }
    #expect(!waves.told(in: channel), "only once")
    #expect(waves.next == 1_120)
    #expect(waves.end(at: 1_119) == [])
    #expect(waves.end(at: 1_120) == [channel])
    #expect(waves.isEmpty)
  }

  @Test("a wave does not wait for followers who never come, and is forgotten if nothing came since")
  func absent() {
    let waves = Subject()
    #expect(waves.begins(in: channel, followers: 20, at: 0, head: 5))
    #expect(!waves.begins(in: channel, followers: 20, at: 599, head: 6))
    #expect(waves.end(at: 599) == [] && waves.end(at: 600) == [channel])
    #expect(waves.begins(in: channel, followers: 20, at: 600, head: 6))
    #expect(waves.end(at: 1_200) == [] && waves.isEmpty)
    // A change that finds the last wave over begins the next by itself.
    #expect(waves.begins(in: channel, followers: 20, at: 2_000, head: 7))
    #expect(waves.begins(in: channel, followers: 20, at: 2_600, head: 8))
    #expect(waves.head(of: channel) == 8)
  }

  @Test("each chat has waves of its own")
  func several() {
    let waves = Subject()
    let other = ChannelKey(2)
    #expect(waves.begins(in: channel, followers: 10, at: 0, head: 5))
    #expect(waves.begins(in: other, followers: 100, at: 0, head: 5))
    #expect(!waves.begins(in: channel, followers: 10, at: 1, head: 6))
    #expect(waves.next == 300 && !waves.told(in: other))
    #expect(waves.end(at: 300) == [channel])
    #expect(waves.head(of: other) == 5 && waves.next == nil)
  }
}
