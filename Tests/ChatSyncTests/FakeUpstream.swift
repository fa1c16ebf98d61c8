import ChatCache
import ChatModel
import Platform

@testable import ChatSync

/// A small chat server in memory, with faults. It fails the test on calls that no real server would get.
final class FakeUpstream: Upstream {
  struct Message: Equatable {
    var id: Int64
    var at: Int64
    var text: String
    var updatedAt: Int64 = 0
    var sender = "x"
    var requestID = ""
    var reactions: [String] = []
    var position: Position { Position(createdAt: at, messageID: id) }
  }

  struct Channel {
    var members: Set<UserID>
    var messages: [Message] = []
    /// Edits and deletes in order: the index is the token.
    var log: [(at: Int64, id: Int64)] = []
  }

  /// A part of a channel that polls can leave out.
  enum Part { case members, positions }

  struct State {
    var channels: [ChannelURL: Channel] = [:]
    /// Changes of users' channels, in order: the index is the token.
    var log: [(user: UserID, url: ChannelURL, isGone: Bool)] = []
    var users: Set<UserID> = []
    /// The users whose channels are answered with nonsense.
    var failing: Set<UserID> = []
    var lacks: Set<Capability> = []
    var fault: @Sendable (inout Seeded) -> Fault = { _ in .none }
    var random = Seeded(1)
    var clock: Int64 = 1_700_000_000_000
    var nextID: Int64 = 1
    var calls = 0
    /// How often messages were listed, by channel.
    var listings: [ChannelURL: Int] = [:]
    /// Messages by the user and the request id they were sent with, if the server deduplicates.
    var sent: [String: Int64] = [:]
    var deduplicates = true
    /// The moment up to which each user has read each channel.
    var readMarks: [ChannelURL: [UserID: Int64]] = [:]
    /// The number of calls for users, how many of them ended, and how long each takes (ms), canceled or not.
    var userCalls = 0
    var usersAnswered = 0
    var userDelay = 0
    /// How long each list of a user's channels takes (ms).
    var listDelay = 0
    /// How important the requests for each user's channels were.
    var lists: [UserID: [Importance]] = [:]
    /// The number of calls for single channels.
    var channelCalls = 0
    /// How many members with read positions each channel shows, and what polls may leave out.
    var positions: [ChannelURL: Int] = [:]
    var leavesOut: Set<Part> = [.members, .positions]
    /// Whether a poll that leaves them out is refused.
    var refusesPollsWithout = false
    /// The polls of each user, by whether members and read positions were asked for.
    var polls: [UserID: [Bool]] = [:]
    /// Calls for a single channel are refused.
    var isChannelBroken = false
    /// Pages of channels and changelogs fail while single channels do not.
    var isListingBroken = false
    /// Tokens of earlier generations are forgotten.
    var generation = 0

    func token(_ index: Int) -> SyncToken { SyncToken("\(generation).\(index)") }

    func index(_ token: SyncToken) throws -> Int {
      let parts = token.text.split(separator: ".").compactMap { Int($0) }
      guard parts.count == 2, parts[0] == generation else {
        throw UpstreamError.rejection(code: 400111, message: "token")
      }
      return parts[1]
    }
  }

  enum Fault { case none, refuse, lose, garbage, slow, rateLimit, cut }

  let state = Guarded(State())

  // MARK: Other users

  func send(_ url: ChannelURL, _ text: String, sameMillisecond: Bool = false) {
    state.withLock { state in
      if !sameMillisecond { state.clock += 1 }
      let id = state.nextID
      state.nextID += 1
      state.channels[url]?.messages.append(Message(id: id, at: state.clock, text: text))
      for user in state.channels[url]?.members ?? [] { state.log.append((user, url, false)) }
    }
  }

  func edit(_ url: ChannelURL, _ index: Int, _ text: String) {
    state.withLock { state in
      state.clock += 1
      guard var channel = state.channels[url], channel.messages.indices.contains(index) else { return }
      channel.messages[index].text = text
      channel.messages[index].updatedAt = state.clock
      channel.log.append((state.clock, channel.messages[index].id))
      state.channels[url] = channel
    }
  }

  func delete(_ url: ChannelURL, _ index: Int) {
    state.withLock { state in
      state.clock += 1
      guard var channel = state.channels[url], channel.messages.indices.contains(index) else { return }
      channel.log.append((state.clock, channel.messages.remove(at: index).id))
      state.channels[url] = channel
      for user in channel.members { state.log.append((user, url, false)) }
    }
  }

  func join(_ user: UserID, _ url: ChannelURL, leaves: Bool = false) {
    state.withLock { state in
      state.users.insert(user)
      state.channels[url, default: Channel(members: [])].members.formSymmetricDifference(
        state.channels[url]?.members.contains(user) == !leaves ? [] : [user])
      state.log.append((user, url, leaves))
    }
  }

  // MARK: The port

  func ask<Result>(_ body: (inout State) throws -> Result) async throws -> Result {
    let fault = state.withLock { state in
      state.calls += 1
      return state.fault(&state.random)
    }
    switch fault {
    case .refuse: throw UpstreamError.unreachable(reason: "refused", mayHaveArrived: false)
    case .garbage: throw UpstreamError.unusable(reason: "<html>")
    case .rateLimit: throw UpstreamError.rateLimited(milliseconds: 5)
    case .slow: try await Task.sleep(for: .milliseconds(5))
    case .lose:
      _ = try state.withLock(body)
      throw UpstreamError.unreachable(reason: "lost", mayHaveArrived: true)
    case .none, .cut: break
    }
    return try state.withLock { state in
      isCut = fault == .cut
      return try body(&state)
    }
  }

  private let cutting = Guarded(false)
  private var isCut: Bool {
    get { cutting.withLock { $0 } }
    set { cutting.withLock { $0 = newValue } }
  }

  static let gone = UpstreamError.rejection(code: 400201, message: "not found")

  func probe() async throws { try await ask { _ in } }

  func offersUploads(_ importance: Importance) async throws -> Bool {
    try await ask { !$0.lacks.contains(.uploads) }
  }

  func user(_ user: UserID, _ importance: Importance) async throws -> UserRecord {
    let delay = state.withLock { state in
      state.userCalls += 1
      return state.userDelay
    }
    defer { state.withLock { $0.usersAnswered += 1 } }
    if delay > 0 {
      // The call takes this time even if its caller was canceled.
      await Task {
        do { try await Task.sleep(for: .milliseconds(delay)) } catch {}
      }.value
    }
    return try await ask { state in
      guard state.users.contains(user) else { throw FakeUpstream.gone }
      return UserRecord(userID: user.text, isActive: true, body: [])
    }
  }

  private static func record(
    _ url: ChannelURL, _ channel: Channel, _ user: UserID?, positions: Int? = nil,
    without: Set<Part> = []
  ) -> ChannelRecord {
    let names = positions.map { count in (0..<count).map { "reader\($0)" } }
    let receipts = names.map { ReadReceipts(Dictionary(uniqueKeysWithValues: $0.map { (ExactText($0), 7) })) }
    let members = names?.prefix(100).map { name in
      MemberRecord(userID: name, nickname: "", state: .joined, body: Array("\"user_id\":\"\(name)\"".utf8))
    }
    let isMember = user.map { channel.members.contains($0) } ?? false
    return ChannelRecord(
      url: url, name: url.text, customType: "", createdAt: 1, isDistinct: false, isPublic: false,
      isSuper: false,
      isFrozen: false, memberCount: 1, joinedMemberCount: 1, body: [],
      lastMessage: channel.messages.last.map { .message(record($0)) } ?? .none,
      readReceipts: without.contains(.positions) ? nil : receipts, metadata: nil,
      members: without.contains(.members) ? nil : members,
      membership: MembershipRecord(
        state: isMember ? .joined : .outside, isOperator: false, isMuted: false, hiddenState: "unhidden",
        floorAt: 0,
        lastReadAt: 0, unread: 0, mentions: 0, joinedAt: 0, invitedAt: 0, inviter: nil))
  }

  static func record(_ message: Message) -> MessageRecord {
    MessageRecord(
      messageID: message.id, createdAt: message.at, updatedAt: message.updatedAt, kind: .user,
      isSilent: false,
      isReplyToChannel: false, parentID: nil, parentAt: nil, sender: message.sender, customType: "",
      requestID: message.requestID, mentions: .nobody, body: Array(message.text.utf8))
  }

  func members(
    of url: ChannelURL, limit: Int, after token: String?, _ importance: Importance
  ) async throws -> UpstreamPage<MemberRecord> {
    try await ask { state in
      guard let channel = state.channels[url] else { throw FakeUpstream.gone }
      let members = channel.members.map {
        MemberRecord(userID: $0.text, nickname: "", state: .joined, body: Array("\"user_id\":\"\($0)\"".utf8))
      }
      return UpstreamPage(items: members, next: nil, at: nil, unreadable: 0)
    }
  }

  func channels(
    of user: UserID, order: ChannelOrder, limit: Int, after token: String?, _ importance: Importance
  ) async throws -> UpstreamPage<ChannelRecord> {
    let delay = state.withLock { state in
      state.lists[user, default: []].append(importance)
      return state.listDelay
    }
    if delay > 0 { try await Task.sleep(for: .milliseconds(delay)) }
    return try await ask { state in
      if state.failing.contains(user) { throw UpstreamError.unreadable(reason: "nonsense") }
      if state.isListingBroken { throw UpstreamError.rejection(code: 400105, message: "broken") }
      let limit = isCut ? max(1, limit / 2) : limit
      var mine = state.channels.filter { $0.value.members.contains(user) }.sorted {
        $0.key.text < $1.key.text
      }
      if order == .lastMessage {
        mine.sort { $0.value.messages.last?.at ?? 0 > $1.value.messages.last?.at ?? 0 }
      }
      let start = token.flatMap { Int($0) } ?? 0
      let page = mine.dropFirst(start).prefix(limit)
      let next = start + page.count < mine.count ? "\(start + page.count)" : nil
      return UpstreamPage(
        items: page.map { FakeUpstream.record($0.key, $0.value, user) }, next: next,
        at: Int64(state.log.count),
        unreadable: 0)
    }
  }

  func channelChanges(
    of user: UserID, since: ChangesSince, hasMembers: Bool, _ importance: Importance
  ) async throws -> UpstreamChanges<ChannelRecord, ChannelURL> {
    try await ask { state in
      state.polls[user, default: []].append(hasMembers)
      if !hasMembers, state.refusesPollsWithout {
        throw UpstreamError.rejection(code: 400111, message: "show_read_receipt")
      }
      if state.failing.contains(user) { throw UpstreamError.unreadable(reason: "nonsense") }
      if state.lacks.contains(.channelChangelog) {
        throw UpstreamError.rejection(code: 400108, message: "no")
      }
      var start = 0
      if case .token(let token) = since {
        start = try state.index(token)
      }
      let page = state.log.dropFirst(start).prefix(50)
      let urls = Set(page.filter { $0.user == user }.map(\.url))
      let mine = urls.filter { state.channels[$0]?.members.contains(user) ?? false }
      return UpstreamChanges(
        updated: mine.map {
          FakeUpstream.record(
            $0, state.channels[$0]!, user, positions: state.positions[$0],
            without: hasMembers ? [] : state.leavesOut)
        },
        deleted: Array(urls.subtracting(mine)),
        hasMore: start + page.count < state.log.count, next: state.token(start + page.count), unreadable: 0
      )
    }
  }

  func channel(_ url: ChannelURL, as user: UserID?, _ importance: Importance) async throws -> ChannelRecord {
    try await ask { state in
      state.channelCalls += 1
      if state.isChannelBroken { throw UpstreamError.rejection(code: 400105, message: "broken") }
      guard let channel = state.channels[url] else { throw FakeUpstream.gone }
      return FakeUpstream.record(url, channel, user, positions: state.positions[url])
    }
  }

  func isMember(_ user: UserID, of url: ChannelURL, _ importance: Importance) async throws -> Bool {
    try await ask { $0.channels[url]?.members.contains(user) ?? false }
  }

  func messages(
    in url: ChannelURL, _ window: MessageWindow, _ importance: Importance
  ) async throws -> UpstreamPage<MessageRecord> {
    try await ask { state in
      precondition(window.older <= 200 && window.newer <= 200, "a page is too large")
      state.listings[url, default: 0] += 1
      guard let all = state.channels[url]?.messages else { throw FakeUpstream.gone }
      let rows = all.sorted { $0.position < $1.position }
      let (low, high): (Position, Position)
      switch window.anchor {
      case .newest: (low, high) = (.end, .end)
      case .time(let time): (low, high) = (.first(at: time), .last(at: time))
      case .message(let position):
        guard rows.contains(where: { $0.position == position }) else { throw FakeUpstream.gone }
        (low, high) = (position, position)
      }
      let cut = isCut ? 2 : 1
      var at = rows.filter { window.includesAnchor && $0.position >= low && $0.position <= high }
      // The rows at the anchor's time count towards the newer side, or towards the older one if no newer rows
      // are requested.
      if case .time = window.anchor {
        at = window.newer > 0 ? Array(at.prefix(window.newer / cut)) : Array(at.suffix(window.older / cut))
      }
      let isMoment = if case .time = window.anchor { true } else { false }
      let olderTaken = isMoment && window.newer == 0 ? at.count : 0
      let newerTaken = isMoment && window.newer > 0 ? at.count : 0
      let found =
        rows.filter { $0.position < low }.suffix(window.older / cut - olderTaken) + at
        + rows.filter { $0.position > high }.prefix(window.newer / cut - newerTaken)
      return UpstreamPage(items: found.map(FakeUpstream.record), next: nil, at: nil, unreadable: 0)
    }
  }

  func message(_ id: Int64, in url: ChannelURL, _ importance: Importance) async throws -> MessageRecord {
    try await ask { state in
      guard let found = state.channels[url]?.messages.first(where: { $0.id == id }) else {
        throw FakeUpstream.gone
      }
      return FakeUpstream.record(found)
    }
  }

  func messageChanges(
    in url: ChannelURL, since: ChangesSince, _ importance: Importance
  ) async throws -> UpstreamChanges<MessageRecord, Int64> {
    try await ask { state in
      if state.lacks.contains(.messageChangelog) {
        throw UpstreamError.rejection(code: 400108, message: "no")
      }
      guard let channel = state.channels[url] else { throw FakeUpstream.gone }
      var start = 0
      switch since {
      case .time(let time): start = channel.log.firstIndex { $0.at >= time } ?? channel.log.count
      case .token(let token):
        start = try state.index(token)
      }
      let page = channel.log.dropFirst(start).prefix(isCut ? 5 : 100)
      let ids = Set(page.map(\.id))
      let alive = channel.messages.filter { ids.contains($0.id) }
      return UpstreamChanges(
        updated: alive.map(FakeUpstream.record), deleted: Array(ids.subtracting(alive.map(\.id))),
        hasMore: start + page.count < channel.log.count, next: state.token(start + page.count),
        unreadable: 0)
    }
  }
}
