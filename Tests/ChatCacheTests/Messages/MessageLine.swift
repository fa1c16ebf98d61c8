import ChatModel
import TestSupport

@testable import ChatCache

/// A random channel: the upstream's messages, the listed ones, and the rows that a page must have, found by
/// plain loops.
struct MessageLine {
  let world: ChannelWithMessages
  private(set) var upstream: [MessageRecord] = []
  private(set) var stored: Set<Int64> = []
  private(set) var segments: [Segment] = []

  /// Fills the cache by listings at random positions, while new messages come.
  init(_ random: inout SeededRandom) throws {
    world = try ChannelWithMessages(floorOfBob: Int64.random(in: 0...60, using: &random))
    for phase in 0..<Int.random(in: 1...4, using: &random) {
      grow(phase, &random)
      for _ in 0..<Int.random(in: 1...4, using: &random) { try list(&random) }
      if random.chance(30), let last = upstream.last { try arrive(last) }
    }
    segments = try world.cache.read { reader in
      guard let key = try reader.userKey(of: world.alice), let view = try reader.view(of: world.url, for: key)
      else { return [] }
      return try reader.coverage(of: view.channel).segments
    }
  }

  private mutating func grow(_ phase: Int, _ random: inout SeededRandom) {
    for _ in 0..<Int.random(in: 0...25, using: &random) {
      let id = Int64(upstream.count + 1)
      let at = Int64(phase) * 40 + Int64.random(in: 1...14, using: &random)
      let parent = random.chance(25) ? upstream.randomElement(using: &random) : nil
      upstream.append(
        ChannelWithMessages.message(
          id, at: at, kind: random.chance(70) ? .user : .file,
          sender: random.chance(60) ? "bob" : "carol", customType: random.chance(70) ? "" : "news",
          parent: parent?.messageID, parentAt: parent?.createdAt, inChannel: random.chance(50)))
    }
    upstream.sort { $0.position < $1.position }
  }

  private mutating func list(_ random: inout SeededRandom) throws {
    let older = Int.random(in: 0...9, using: &random)
    let newer = Int.random(in: 0...9, using: &random)
    let isNewest = random.chance(40)
    let time = Int64.random(in: 0...150, using: &random)
    let before = upstream.filter { isNewest || $0.createdAt < time }.suffix(isNewest ? older + 1 : older)
    let at = upstream.filter { !isNewest && $0.createdAt == time }
    let after = upstream.filter { !isNewest && $0.createdAt > time }.prefix(newer)
    let rows = before + at + after
    let window =
      isNewest
      ? MessageWindow(.newest, older: older + 1, newer: 0)
      : MessageWindow(.time(time), older: older, newer: newer)
    try world.list(
      MessageListing(window: window, rows: Array(rows), isWhole: true, askedAt: world.cache.cursor.sequence))
    stored.formUnion(rows.map(\.messageID))
  }

  private mutating func arrive(_ message: MessageRecord) throws {
    let url = world.url
    try world.cache.write { try $0.store(message, in: url, .messageReceived) }
    stored.insert(message.messageID)
  }

  /// A position to request: a time or a message, perhaps a missing one.
  func randomPosition(_ random: inout SeededRandom) -> Position {
    if random.chance(50), let message = upstream.randomElement(using: &random) { return message.position }
    return random.chance(20) ? .end : .first(at: Int64.random(in: 0...160, using: &random))
  }

  /// The messages in the same covered segment as `position` that a user may see and the filter matches,
  /// oldest first.
  func readable(from position: Position, floor: Int64, _ filter: MessageQuery) -> [MessageRecord] {
    upstream.filter { message in
      guard message.createdAt >= floor, stored.contains(message.messageID) else { return false }
      let between = min(message.position, position)...max(message.position, position)
      return !segments.contains { $0.gap != nil && $0.range.overlaps(between) } && shows(message, filter)
    }
  }

  /// Whether the upstream has a message on one side of a page that a user may see, stored or not. Without the
  /// tail, because the cache cannot know its messages yet.
  func exists(floor: Int64, _ filter: MessageQuery, where isThere: (Position) -> Bool) -> Bool {
    let tail = segments.last?.range.lowerBound ?? .end
    return upstream.contains {
      $0.createdAt >= floor && $0.position < tail && shows($0, filter) && isThere($0.position)
    }
  }

  private func shows(_ message: MessageRecord, _ filter: MessageQuery) -> Bool {
    if let parent = filter.parent {
      if message.parentID != parent { return false }
    } else if message.parentID != nil {
      if filter.replies == .none { return false }
      if filter.replies == .onlyReplyToChannel, !message.isReplyToChannel { return false }
    }
    return (filter.kind == nil || filter.kind == message.kind)
      && (filter.senders.isEmpty || filter.senders.contains(ExactText(message.sender)))
      && (filter.customTypes.isEmpty || filter.customTypes.contains(ExactText(message.customType)))
  }

  func randomFilter(_ random: inout SeededRandom) -> MessageQuery {
    var filter = MessageQuery()
    filter.replies = MessageQuery.Replies.allCases.randomElement(using: &random) ?? .none
    if random.chance(20) { filter.kind = random.chance(50) ? .user : .file }
    if random.chance(20) { filter.senders = ["carol"] }
    if random.chance(20) { filter.customTypes = random.chance(50) ? ["news"] : ["", "x"] }
    if random.chance(20) { filter.parent = upstream.randomElement(using: &random)?.messageID }
    return filter
  }
}
