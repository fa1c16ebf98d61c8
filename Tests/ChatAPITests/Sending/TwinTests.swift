import ChatModel
import JSON
import Platform
import TestSupport
import Testing

@testable import ChatAPI
@testable import ChatCache

/// A strict client checks every answer while messages arrive by the reply, or by a listing before it, after
/// it or instead of it (B38). No answer, and no state that the client makes from its answers, shows a pending
/// message beside the message that it became.
@Suite(.timeLimit(.minutes(5))) struct TwinTests {
  @Test(
    "B38 B49: no client ever shows twins, and events make of its state what a fresh answer shows",
    arguments: [(true, false), (false, false), (true, true), (false, true)], 0..<10)
  func strict(kind: (saysRequests: Bool, takesBack: Bool), group: Int) throws {
    for seed in group * 10..<group * 10 + (kind.takesBack ? 5 : 10) {
      let story = try SendingStory(
        seed: UInt64(seed), saysRequests: kind.saysRequests, takesBack: kind.takesBack)
      defer { story.world.stop() }
      var client = try StrictClient(story.world)
      for step in 0..<18 {
        let said = try story.step(step)
        if let broken = try client.look(ahead: story.ahead) {
          Issue.record("seed \(seed), \(kind), step \(step), after \(said): \(broken)")
          return
        }
      }
      try story.end()
      if let broken = try client.look(ahead: story.ahead) ?? client.leftovers() {
        Issue.record("seed \(seed), \(kind), at the end: \(broken)")
        return
      }
      let report = try story.world.cache.check()
      #expect(report.findings.isEmpty, "seed \(seed), \(kind): \(report.findings)")
    }
  }
}

/// The sync worker and the chat server of a test: a sent message arrives or not, and is answered or not.
private final class SendingStory {
  let world: CollectionWorld
  private let wall: Guarded<Int64>
  private let saysRequests: Bool
  /// Whether messages are taken back, some of them while they are in flight.
  private let takesBack: Bool
  private let policy: OutboxPolicy
  private var random: SeededRandom
  /// The chat server's messages, and those of them that were not listed yet.
  private var upstream: [MessageRecord] = []
  private var lastID: Int64 = 99
  private var unlisted: [MessageRecord] = []
  /// The last message that an answer about the channel told of, if the cache has not listed it yet.
  var ahead: MessageRecord? { told.flatMap { told in unlisted.first { $0.messageID == told } } }
  private var told: Int64?
  /// The job under way, and the message that it became.
  private var underWay: (job: OutboxJob, arrived: MessageRecord?)?
  private static let lane = OutboxLaneName(user: UserID("alice"), channel: ChannelURL("general"))

  init(seed: UInt64, saysRequests: Bool, takesBack: Bool) throws {
    let wall = Guarded(Clock.system.wallMilliseconds())
    self.wall = wall
    self.saysRequests = saysRequests
    self.takesBack = takesBack
    random = SeededRandom(seed: seed)
    var policy = OutboxPolicy()
    policy.backoffMaximum = 1
    policy.uncertainGrace = 1
    self.policy = policy
    world = try CollectionWorld(
      clock: Clock(
        wallMilliseconds: { wall.withLock { $0 } },
        monotonicNanoseconds: Clock.system.monotonicNanoseconds), policy: policy)
    for user in ["alice", "bob"] { try world.join(user, "general") }
    try world.list([1, 2, 3], in: "general")
  }

  func step(_ step: Int) throws -> String {
    wall.withLock { $0 += 3 }
    if takesBack, Int.random(in: 0..<4, using: &random) == 0 { return try takeBack() }
    switch Int.random(in: 0..<12, using: &random) {
    case 0..<3:
      #expect(world.send("r\(step)", #","data":"\#(step)""#).status == 202)
      return "a send"
    case 3..<5: return try begin()
    case 5..<7: return try answer()
    case 7: return try hear(of: Int.random(in: 0..<max(1, unlisted.count), using: &random))
    case 8: return try hear(of: unlisted.count - 1)
    case 9: return try edit()
    case 10: return try seeChannel()
    default:
      let sender = Bool.random(using: &random) ? "bob" : "alice"
      arrive(from: sender, request: "", data: "\(sender)'s other device \(step)")
      return try hear(of: unlisted.count - 1)
    }
  }

  /// Takes back the message in flight, or else any other.
  private func takeBack() throws -> String {
    let names = try world.rows().map(\.requestID.text)
    guard let name = underWay?.job.requestID.text ?? names.randomElement(using: &random) else {
      return "nothing to take back"
    }
    _ = world.ask("/v1/channels/general/messages/request_id:\(name)", method: "DELETE")
    return "taking back \(name)"
  }

  /// Answers all jobs and lists all messages.
  func end() throws {
    for _ in 0..<200 {
      wall.withLock { $0 += 3 }
      if underWay == nil, try begin() == "nothing to begin", try world.rows().isEmpty { break }
      _ = try answer()
    }
    while !unlisted.isEmpty { _ = try hear(of: 0) }
  }

  @discardableResult
  private func arrive(from sender: String, request: String, data: String) -> MessageRecord {
    lastID += 1
    let id = lastID
    var json = JSONWriter()
    json.name("message_id")
    json.value(quoting: id)
    if saysRequests { json.field("request_id", request) }
    json.field("message", "hi")
    json.field("data", data)
    json.field("created_at", id * 10)
    let record = MessageRecord(
      messageID: id, createdAt: id * 10, updatedAt: 0, kind: .user, isSilent: false, isReplyToChannel: false,
      parentID: nil, parentAt: nil, sender: sender, customType: "", requestID: saysRequests ? request : "",
      mentions: .nobody, body: json.finish().array, parent: nil)
    upstream.append(record)
    unlisted.append(record)
    return record
  }

  private func begin() throws -> String {
    guard underWay == nil else { return "nothing: something is under way" }
    return take(try advance(nil))
  }

  private func advance(_ ended: EndedOutboxJob?) throws -> LaneProgress {
    let (policy, dice) = (policy, random.next())
    return try world.cache.accept { try $0.advance(Self.lane, after: ended, policy, random: dice) }
  }

  private func take(_ progress: LaneProgress) -> String {
    guard let job = progress.begun else { return "nothing to begin" }
    var arrived: MessageRecord?
    if job.job == .send, Int.random(in: 0..<4, using: &random) > 0 {
      let data = JSONParser().parseData(job.params)
      arrived = arrive(from: "alice", request: job.requestID.text, data: data)
    }
    underWay = (job, arrived)
    return "\(job.job) \(job.requestID.text), which \(arrived == nil ? "gets lost" : "arrives")"
  }

  /// Ends the job: the reply comes or is lost, or a look is answered.
  private func answer() throws -> String {
    guard let (job, arrived) = underWay else { return "no answer" }
    underWay = nil
    var ended = EndedOutboxJob(job, .uncertain)
    if case .look(let position) = job.job {
      ended = EndedOutboxJob(job, .absent, messages: upstream.filter { $0.position > position })
    } else if case .deleteSent(let message) = job.job {
      ended = try delete(job, message)
    } else if let arrived, Int.random(in: 0..<3, using: &random) > 0 {
      ended = EndedOutboxJob(job, .success(message: arrived.messageID), messages: [arrived])
    }
    return "the answer \(ended.outcome); then \(take(try advance(ended)))"
  }

  /// Deletes a message that was taken back; or the deletion is refused, or its outcome is uncertain.
  private func delete(_ job: OutboxJob, _ message: Int64) throws -> EndedOutboxJob {
    switch Int.random(in: 0..<4, using: &random) {
    case 0: return EndedOutboxJob(job, .rejection(code: "400108"))
    case 1: return EndedOutboxJob(job, .uncertain)
    default:
      upstream.removeAll { $0.messageID == message }
      unlisted.removeAll { $0.messageID == message }
      return EndedOutboxJob(job, .success(message: nil))
    }
  }

  /// Edits a message of alice's elsewhere and lists it. An answer under way has its older state.
  private func edit() throws -> String {
    let known = upstream.indices.filter { index in
      upstream[index].sender == "alice" && !unlisted.contains { $0.messageID == upstream[index].messageID }
    }
    guard let index = known.randomElement(using: &random) else { return "nothing to edit" }
    upstream[index].updatedAt += 1
    var json = JSONWriter()
    json.field("edition", upstream[index].updatedAt)
    upstream[index].body = try Fields.lay(json.finish().array, over: upstream[index].body)
    let record = upstream[index]
    try world.cache.write { _ = try $0.store(record, in: ChannelURL("general"), .messageUpdated) }
    return "an edit of \(record.messageID)"
  }

  /// Stores the chat server's answer about the channel, as another member's poll gets it. Its last message
  /// may not be listed yet.
  private func seeChannel() throws -> String {
    guard let last = upstream.last else { return "no last message" }
    var record = CollectionWorld.channel("general", floor: 0, name: "", last: nil)
    record.lastMessage = .message(last)
    told = last.messageID
    let stored = record
    try world.cache.write { _ = try $0.store([stored], of: UserID("bob"), .refresh(.channelChangelog)) }
    return "the channel with \(last.messageID)"
  }

  /// Lists a message, as after a webhook.
  private func hear(of index: Int) throws -> String {
    guard unlisted.indices.contains(index) else { return "no webhook" }
    let record = unlisted.remove(at: index)
    try world.cache.write { _ = try $0.store(record, in: ChannelURL("general"), .messageReceived) }
    return "a listing with \(record.messageID)"
  }
}

extension JSONParser {
  /// The field `data` of an unsent message.
  fileprivate func parseData(_ params: [UInt8]) -> String {
    (params.withUnsafeBytes { read($0) { $0["data"]?.string } } ?? nil) ?? ""
  }
}

/// A client's messages: unsent ones by request and sent ones by id, each with its `data`.
private struct Shown: Equatable {
  var pending: [String: String] = [:]
  var messages: [String: String] = [:]
  /// The messages that events told of as received, and one of which two events did.
  private var received: Set<String> = []
  private(set) var receivedTwice: String?

  init(pending: [String: String] = [:], messages: [String: String] = [:]) {
    self.pending = pending
    self.messages = messages
  }

  /// A message that is shown twice.
  var twin: String? {
    let sent = Set(messages.values)
    return pending.values.first { !$0.isEmpty && sent.contains($0) }
  }

  mutating func add(_ items: JSONValue?) {
    for item in items?.items ?? JSONValue.Items() {
      let (request, id) = (item["request_id"]?.string ?? "", item["message_id"]?.string ?? "")
      if id.isEmpty {
        pending[request] = item["data"]?.string ?? ""
      } else {
        pending[request] = nil
        messages[id] = item["data"]?.string ?? ""
      }
    }
  }

  mutating func take(_ event: JSONValue) {
    if event["type"]?.string == "messages.replaced" { messages = [:] }
    if event["type"]?.string == "message.received" {
      for item in event["messages"]?.items ?? JSONValue.Items() {
        guard let id = item["message_id"]?.string, !received.insert(id).inserted else { continue }
        receivedTwice = id
      }
    }
    add(event["messages"])
    for item in event["message_refs"]?.items ?? JSONValue.Items() {
      if let id = item["message_id"]?.string { messages[id] = nil }
      if let request = item["request_id"]?.string { pending[request] = nil }
    }
  }
}

/// A client that follows a view and the user's feed, and reads pages, the outbox and single messages. It also
/// reads the feed a second time, several steps at once.
private struct StrictClient {
  private let world: CollectionWorld
  private let path: String
  private var cursor: String
  private var feedCursor: String
  private var shown = Shown()
  private var feed = Shown()
  private var lateCursor: String
  private let list: String
  private var listCursor: String
  /// The `data` of the channel's last message, as the list's events left it.
  private var listed = ""
  private var lateFeed = Shown()
  private var answers = 0

  init(_ world: CollectionWorld) throws {
    self.world = world
    let open = world.post("/v1/message-collections", #"{"channel_url":"general"}"#)
    path = "/v1/message-collections/\(open.text("id"))"
    cursor = open.text("cursor")
    feedCursor = world.ask("/v1/events?since=now").text("cursor")
    lateCursor = feedCursor
    let opened = world.post("/v1/channel-collections", "{}")
    list = "/v1/channel-collections/\(opened.text("id"))"
    listCursor = opened.text("cursor")
    shown = try Self.view(open)
  }

  private static func view(_ answer: Answer) throws -> Shown {
    try JSONParser().parse(answer.body) { json in
      var shown = Shown()
      shown.add(json["messages"])
      shown.add(json["pending"])
      shown.add(json["failed"])
      return shown
    }
  }

  /// Makes every request once. Returns the first fault; nil: there is none.
  ///
  /// `ahead`: the channel's last message, if it is not listed yet.
  mutating func look(ahead: MessageRecord?) throws -> String? {
    answers += 1
    // A client that reads pages first has messages whose events the view did not send yet.
    if answers % 2 == 0, let wrong = try pages(ahead) { return wrong }
    if let wrong = try poll(path + "/events", &cursor, &shown) { return "view: " + wrong }
    let fresh = try Self.view(world.ask(path))
    if let twin = fresh.twin { return "the view shows \(twin) twice" }
    if fresh != shown { return "events made \(shown), and the view is \(fresh)" }
    if let wrong = try poll("/v1/events", &feedCursor, &feed) { return "feed: " + wrong }
    if answers % 5 == 0, let wrong = try poll("/v1/events", &lateCursor, &lateFeed) {
      return "feed, read late: " + wrong
    }
    // The feed has only sent messages, and numbers of unsent ones.
    if let twin = Shown(pending: shown.pending, messages: feed.messages).twin {
      return "the feed told of \(twin), which is unsent"
    }
    return answers % 2 == 0 ? nil : try pages(ahead)
  }

  private func poll(_ path: String, _ cursor: inout String, _ shown: inout Shown) throws -> String? {
    let answer = world.ask("\(path)?since=\(cursor)&wait=0")
    guard answer.status == 200 else { return answer.body }
    var next = shown
    let twin: String? = try JSONParser().parse(answer.body) { json in
      for event in json["events"]?.items ?? JSONValue.Items() {
        next.take(event)
        if let twin = next.twin ?? next.receivedTwice { return twin }
      }
      return nil
    }
    shown = next
    cursor = answer.text("cursor")
    return twin.map { "\($0) is shown twice after \(answer.body)" }
  }

  /// A page and a single message beside the outbox.
  private mutating func pages(_ ahead: MessageRecord?) throws -> String? {
    let page = world.ask(
      "/v1/channels/general/messages?limit=100", extra: ["Cache-Control": "only-if-cached"])
    var all = Shown()
    try JSONParser().parse(page.body) { all.add($0["items"]) }
    let outbox = world.ask("/v1/outbox?limit=200")
    try JSONParser().parse(outbox.body) { json in
      for row in json["items"]?.items ?? JSONValue.Items() {
        guard let name = row["request_id"]?.string, let message = row["message"] else { continue }
        all.pending[name] = message["data"]?.string ?? ""
      }
    }
    if let twin = all.twin { return "a page shows \(twin), which is unsent: \(page.body) \(outbox.body)" }
    if let wrong = try lists(all, ahead) { return wrong }
    if let name = all.pending.keys.min() {
      let one = world.ask("/v1/channels/general/messages/request_id:\(name)")
      if one.status != 200 || !one.text("message_id").isEmpty { return "\(name) is \(one.body)" }
    }
    return nil
  }

  /// The channel, alone and in a list that followed its events.
  private mutating func lists(_ all: Shown, _ ahead: MessageRecord?) throws -> String? {
    func last(_ channel: JSONValue?) -> String { channel?["last_message"]?["data"]?.string ?? "" }
    let alone = world.ask("/v1/channels/general")
    let shown = try JSONParser().parse(alone.body) { last($0) }
    let newest = all.messages.max { Int($0.key)! < Int($1.key)! }?.value ?? ""
    if let ahead, ahead.sender == "bob" || shown != newest {
      guard shown == JSONParser().parseData([UInt8(ascii: "{")] + ahead.body + [UInt8(ascii: "}")]) else {
        return "the channel's last message is \(shown), and the chat server's \(ahead)"
      }
      if all.pending.values.contains(shown) { return "the channel's last message \(shown) is unsent" }
    } else if shown != newest {
      return "the channel's last message is \(shown), and the page's is \(newest)"
    }
    let fresh = try JSONParser().parse(world.ask(list).body) { json in
      last(json["channels"]?.items.first { _ in true })
    }
    let events = world.ask("\(list)/events?since=\(listCursor)&wait=0")
    listCursor = events.text("cursor")
    let before = listed
    listed = try JSONParser().parse(events.body) { json in
      var told = before
      for event in json["events"]?.items ?? JSONValue.Items() {
        if let channel = event["channels"]?.items.first(where: { _ in true }) { told = last(channel) }
      }
      return told
    }
    return fresh == shown && listed == shown
      ? nil : "the last message is \(shown), in the list \(fresh), and its events made \(listed) of it"
  }

  /// The messages that are still unsent; nil: none.
  func leftovers() throws -> String? {
    var left = Shown()
    try JSONParser().parse(world.ask(path).body) { left.add($0["pending"]) }
    return left == Shown() ? nil : "unsent at the end: \(left.pending)"
  }
}
