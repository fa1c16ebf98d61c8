import ChatModel
import TestSupport
import Testing

@testable import ChatCache

/// The stored counts against a new count, for random changes in random order.
@Suite struct UnreadPropertyTests {
  /// One user's counts, computed as the rule says.
  private struct Naive {
    var base: [Int64] = [0, 0]
    var counted = Position(createdAt: 0, messageID: 0)
    var readAt: Int64 = 0
    var floor: Int64 = 0

    func counts(_ stored: some Collection<MessageRecord>, of user: String) -> [Int64] {
      let later = stored.filter {
        $0.position > counted && $0.createdAt > readAt && $0.createdAt >= floor && $0.sender != user
          && !$0.isSilent
      }
      let mentions = later.filter {
        switch $0.mentions {
        case .nobody: false
        case .everybody: true
        case .users(let users): users.contains(user)
        }
      }
      return [base[0] + Int64(later.count), base[1] + Int64(mentions.count)]
    }
  }

  private static func message(_ id: Int64, at: Int64, edit: Int64, _ random: inout SeededRandom)
    -> MessageRecord
  {
    let mentions: MessageRecord.Mentions =
      switch Int.random(in: 0..<5, using: &random) {
      case 0: .everybody
      case 1: .users(["alice"])
      case 2: .users(["bob", "alice", "carol"])
      default: .nobody
      }
    return ChannelWithMessages.message(
      id, at: at, updatedAt: edit, sender: ["alice", "bob", "carol"][Int(id) % 3], text: "\(edit)",
      silent: random.chance(20), mentions: mentions)
  }

  @Test(
    "B68: over seeds, each user's counts are the last refresh's and the later unread ones that are stored",
    arguments: 1...30)
  func anyOrder(seed: Int) throws {
    var random = SeededRandom(seed: UInt64(seed))
    // In a third of the seeds the channel becomes crowded on the way.
    let world = try UnreadCountTests.World(mostChangedMembers: [0, .max, .max][seed % 3])
    defer { world.cache.close() }
    var naive = ["alice": Naive(), "bob": Naive()]
    var stored: [Int64: MessageRecord] = [:]
    var gone: Set<Int64> = []
    for step in Int64(1)...80 {
      if seed % 3 == 1, step == 30 { try world.reopen(mostChangedMembers: 1) }
      let id = Int64.random(in: 1...25, using: &random)
      let message = Self.message(id, at: 100 + id / 3 * 10, edit: step, &random)
      switch Int.random(in: 0..<10, using: &random) {
      case 0..<5:
        try world.arrive(message)
        if !gone.contains(id) { stored[id] = message }
      case 5:
        try world.delete(id)
        gone.insert(id)
        stored[id] = nil
      case 6:
        let other = Int64.random(in: 1...25, using: &random)
        try world.change([message], deleted: [other])
        if !gone.contains(id) { stored[id] = message }
        gone.insert(other)
        stored[other] = nil
      default:
        let user = random.chance(50) ? "alice" : "bob"
        var expected = try #require(naive[user])
        let readAt = Int64.random(in: 90...170, using: &random)
        expected.floor = max(expected.floor, random.chance(10) ? .random(in: 100...140, using: &random) : 0)
        let told = (0..<2).map { _ in Int64.random(in: 0...9, using: &random) }
        // A lower read position means an older answer, unless it has a newer message than the last answer.
        let isNewer = message.position > expected.counted && !gone.contains(id)
        let isOld = readAt < expected.readAt && !isNewer
        expected.base = isOld ? [0, 0] : told
        expected.readAt = isOld ? expected.readAt : readAt
        expected.counted = message.position
        try world.refresh(
          unread: told[0], mentions: told[1], last: message, readAt: readAt, floor: expected.floor,
          as: UserID(user))
        naive[user] = expected
      }
      for (user, expected) in naive {
        #expect(
          try world.counts(of: UserID(user)) == expected.counts(stored.values, of: user),
          "\(user), seed \(seed), step \(step)")
        try world.cache.read { try Self.compareWalks($0, of: UserID(user)) }
      }
    }
  }

  /// The user's crowded channels are found among the user's memberships, or among all crowded channels.
  private static func compareWalks(_ reader: CacheReader, of name: UserID) throws {
    let user = try #require(try reader.userKey(of: name))
    let (few, many) = (Int.max, 0)
    #expect(try reader.crowdedMessages(of: user, most: few) == reader.crowdedMessages(of: user, most: many))
    let own = try reader.unreadByRow(of: user, most: few)
    let all = try reader.unreadByRow(of: user, most: many)
    #expect(own.messages == all.messages && own.mentions == all.mentions && own.channels == all.channels)
  }
}
