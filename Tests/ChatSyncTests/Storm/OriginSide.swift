import ChatCache
import ChatModel
import MicroHTTP
import Platform

@testable import ChatSync
@testable import Origin

/// The stand-in upstream of a storm: its users' actions, its faults, and the receiver of its webhooks.
final class OriginSide: Sendable {
  let origin: OriginServer
  private let hook: Server
  /// The worker that receives the webhooks; nil while none runs.
  let receiver = Guarded<SyncWorker?>(nil)
  /// Every webhook that came.
  let webhooks = Guarded<[[UInt8]]>([])
  /// Those of them that the worker has taken.
  let taken = Guarded<[[UInt8]]>([])
  /// The ids of each channel's messages in the order they were sent, for edits and deletes.
  private let made = Guarded<[String: [Int64]]>([:])

  static let people = ["alice", "bob", "carol", "dave", "erin"]

  init(hasWebhooks: Bool, clock: Clock = .system) throws {
    hook = try Server(Configuration(listen: ListenAddress(host: "127.0.0.1", port: 0)))
    let receiver = receiver
    let (webhooks, taken) = (webhooks, taken)
    try hook.start([
      Route(.post, "/hook", operation: "hook", body: .collected(limit: 1 << 20)) { request in
        guard let worker = receiver.withLock({ $0 }) else { return .respond(.empty(503)) }
        let bytes = Array(request.body)
        webhooks.withLock { $0.append(bytes) }
        let waiter = request.makeWaiter()
        Task {
          _ = await worker.takeWebhook(bytes)
          taken.withLock { $0.append(bytes) }
          waiter.wake()
        }
        return .park(Parking(waiter, milliseconds: 4_000) { _ in .respond(.empty(200)) })
      }
    ])
    var configuration = OriginServer.Configuration()
    configuration.clock = clock
    if hasWebhooks { configuration.webhookURL = "http://127.0.0.1:\(hook.port)/hook" }
    origin = try OriginServer(configuration)
    try origin.start()
    for person in OriginSide.people {
      try perform(.write(Users.create), [:], ["user_id": .string(person), "nickname": .string(person)])
    }
  }

  func stop() {
    origin.stop()
    hook.shutDown(withinSeconds: 1)
  }

  var url: String { "http://127.0.0.1:\(origin.port)" }

  func perform(_ operation: Origin.Operation, _ path: [String: String], _ body: [String: Value])
    throws
  {
    let arguments = Arguments(path: path, query: [:], body: .object(body), parts: [])
    _ = try origin.run(arguments, path: "others", base: url, operation)
  }

  /// Tries an operation that the server may refuse, such as a reply to a deleted message.
  private func attempt(_ operation: Origin.Operation, _ path: [String: String], _ body: [String: Value]) {
    do { try perform(operation, path, body) } catch is Refusal {} catch { preconditionFailure("\(error)") }
  }

  func makeChannel(_ url: String, _ members: [String]) throws {
    try perform(
      .write(Channels.create), [:],
      [
        "channel_url": .string(url), "name": .string(url), "user_ids": .array(members.map(Value.string)),
        "is_public": .bool(true),
      ])
  }

  /// Deletes the person from the server.
  func forget(_ person: String) throws { try perform(.write(Users.delete), ["user_id": person], [:]) }

  /// Adds the person to the server.
  func remember(_ person: String) throws {
    try perform(.write(Users.create), [:], ["user_id": .string(person), "nickname": .string(person)])
  }

  /// The number of uploaded files.
  var uploads: Int {
    get throws {
      try origin.store.read { db, _ in try db.first("SELECT count(*) FROM upload") { $0.int(0) } ?? 0 }
    }
  }

  /// Whether the network between Perch and the server is cut.
  var isCutOff: Bool {
    get { origin.desk.isCutOff }
    set { origin.desk.isCutOff = newValue }
  }

  // MARK: Users' actions

  @discardableResult
  func send(_ url: String, _ text: String, by user: String = "bob", at: Int64? = nil, parent: Int64? = nil)
    -> Int64
  {
    var body: [String: Value] = [
      "message_type": .string("MESG"), "user_id": .string(user), "message": .string(text),
    ]
    if let at { body["created_at"] = .integer(at) }
    if let parent { body["parent_message_id"] = .integer(parent) }
    // Some mention alice, some everybody: by their text, so that nothing else of an old seed's storm changes.
    if text.hasSuffix("7") { body["mentioned_user_ids"] = .array([.string("alice")]) }
    if text.hasSuffix("3") { body["mention_type"] = .string("channel") }
    attempt(.write(Messages.send), ["channel_url": url], body)
    let newest = newestID()
    made.withLock { $0[url, default: []].append(newest) }
    return newest
  }

  /// The position of a random message of the channel, which may be deleted by now.
  func position(of url: String, _ random: inout Seeded) -> Position {
    let id = made.withLock { $0[url]?.randomElement(using: &random) } ?? 1
    let time: Int64?
    do {
      time = try origin.store.read { db, _ in
        try db.first("SELECT created_at FROM message WHERE id = ?1") {
          $0.bind(1, id)
        } _: {
          $0.int64(0)
        }
      }
    } catch { time = nil }
    return Position(createdAt: time ?? Clock.system.wallMilliseconds(), messageID: id)
  }

  /// The channels the user is in, by name.
  func channels(of user: String) async throws -> [String] {
    try origin.store.read { db, _ in
      try db.all(
        "SELECT c.url FROM member m JOIN channel c ON c.id = m.channel WHERE m.user_id = ?1 ORDER BY c.url"
      ) {
        $0.bind(1, user)
      } _: {
        $0.string(0)
      }
    }
  }

  private func newestID() -> Int64 {
    do {
      return try origin.store.read { db, _ in
        try db.first("SELECT coalesce(max(id), 0) FROM message") { $0.int64(0) } ?? 0
      }
    } catch { return 0 }
  }

  private func one(of url: String, _ random: inout Seeded) -> Int64? {
    made.withLock { $0[url]?.suffix(80).randomElement(using: &random) }
  }

  func edit(_ url: String, _ id: Int64, _ text: String) {
    attempt(
      .write(MessageEdits.update), ["channel_url": url, "message_id": "\(id)"],
      ["message_type": .string("MESG"), "message": .string(text)])
  }

  func delete(_ url: String, _ id: Int64) {
    attempt(.write(Messages.delete), ["channel_url": url, "message_id": "\(id)"], [:])
  }

  /// Bob likes the message, or takes that back.
  func react(_ url: String, _ id: Int64, isAdded: Bool) {
    attempt(
      .write(isAdded ? Reactions.add : Reactions.remove), ["channel_url": url, "message_id": "\(id)"],
      ["user_id": .string("bob"), "reaction": .string("like")])
  }

  func join(_ person: String, _ url: String) {
    attempt(.write(Members.join), ["channel_url": url], ["user_id": .string(person)])
  }

  func leave(_ person: String, _ url: String) {
    attempt(.write(Members.leave), ["channel_url": url], ["user_ids": .array([.string(person)])])
  }

  /// A random action of a random user.
  func act(_ urls: [String], _ random: inout Seeded) {
    let url = urls.randomElement(using: &random) ?? urls[0]
    let person = ["bob", "carol"].randomElement(using: &random) ?? "bob"
    let message = ["channel_url": url, "message_id": "\(one(of: url, &random) ?? 1)"]
    switch Int.random(in: 0..<100, using: &random) {
    case 0..<55: send(url, "t\(random.next() % 1000)", by: person)
    case 55..<60: send(url, "r\(random.next() % 1000)", by: person, parent: one(of: url, &random))
    case 60..<72: edit(url, one(of: url, &random) ?? 1, "e\(random.next() % 1000)")
    case 72..<82: attempt(.write(Messages.delete), message, [:])
    case 82..<88:
      attempt(.write(Reactions.add), message, ["user_id": .string(person), "reaction": .string("like")])
    case 88..<90:
      attempt(.write(Reactions.remove), message, ["user_id": .string(person), "reaction": .string("like")])
    case 90: leave("alice", url)
    case 91..<94: join("alice", url)
    case 94: leave("dave", url)
    case 95: join("dave", url)
    case 96:
      attempt(.write(ReadMarks.resetHistory), ["channel_url": url], ["user_id": .string("alice")])
    case 97:
      attempt(.write(Channels.update), ["channel_url": url], ["name": .string("n\(random.next() % 99)")])
    case 98: attempt(.write(ReadMarks.markAsRead), ["channel_url": url], ["user_id": .string("alice")])
    default:
      attempt(.write(Moderation.freeze), ["channel_url": url], ["freeze": .bool(Bool.random(using: &random))])
    }
  }

  // MARK: Faults

  struct Weather: Sendable {
    var hasChangelogs = true
    var listsReplies = true
    var takesUploads = true
  }

  /// Sets one kind of fault for some of the requests, and one for some webhooks.
  func storm(_ weather: Weather, _ random: inout Seeded) throws {
    let kinds: [[String: Value]] = [
      ["kind": .string("dark")], ["kind": .string("refuse")],
      ["kind": .string("delay"), "milliseconds": .integer(30)],
      ["kind": .string("status"), "status": .integer(500)],
      ["kind": .string("status"), "status": .integer(429), "retry_after": .integer(0)],
      ["kind": .string("html")], ["kind": .string("lose_reply")], ["kind": .string("cut_page")],
      ["kind": .string("cut_body")], ["kind": .string("forget_tokens")],
    ]
    var faults: [Value] = []
    if Int.random(in: 0..<5, using: &random) > 0, var fault = kinds.randomElement(using: &random) {
      fault["path"] = .string("/v3/*")
      fault["probability"] = .double(Double.random(in: 0.1...1, using: &random))
      faults.append(.object(fault))
    }
    for kind in ["drop_webhook", "duplicate_webhook", "shuffle_webhook"] where Bool.random(using: &random) {
      faults.append(
        .object([
          "kind": .string(kind), "path": .string("others"), "milliseconds": .integer(50),
          "probability": .double(Double.random(in: 0.1...0.9, using: &random)),
        ]))
    }
    try set(weather, faults, seed: Int64(random.next() % 1_000_000))
  }

  /// Ends all faults, but not the missing features. Empties the changelogs of `forgotten`; the server refuses
  /// a token of theirs the first time.
  func calm(_ weather: Weather, forgotten: [String] = []) throws {
    try origin.store.write { db, _ in
      for url in forgotten {
        try db.run("DELETE FROM message_change WHERE channel = (SELECT id FROM channel WHERE url = ?1)") {
          $0.bind(1, url)
        }
      }
    }
    let refusals = forgotten.map { url in
      Value.object([
        "kind": .string("forget_tokens"), "path": .string("/v3/group_channels/\(url)/messages/changelogs"),
        "count": .integer(1),
      ])
    }
    try set(weather, refusals, seed: 1)
    origin.desk.isCutOff = false
  }

  /// Delays every answer by `milliseconds`.
  func slow(milliseconds: Int64) throws {
    try set(
      Weather(),
      [
        .object([
          "kind": .string("delay"), "path": .string("/v3/*"), "milliseconds": .integer(milliseconds),
        ])
      ], seed: 1)
  }

  /// Moves all past changes back by `milliseconds`, so that no changelog since then names them.
  func age(milliseconds: Int64) throws {
    try origin.store.write { db, _ in
      for table in ["member", "departure", "message_change"] {
        try db.execute("UPDATE \(table) SET stamp = stamp - \(milliseconds * 1_000)")
      }
    }
  }

  func set(_ weather: Weather, _ faults: [Value], seed: Int64) throws {
    try origin.setFaults(
      .object([
        "seed": .integer(seed), "faults": .array(faults),
        "capabilities": .object([
          "changelogs": .bool(weather.hasChangelogs), "reply_listing": .bool(weather.listsReplies),
          "uploads": .bool(weather.takesUploads),
        ]),
      ]))
  }
}
