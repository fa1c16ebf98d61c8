import ChatCache
import ChatCollections
import ChatModel
import Glibc
import JSON
import MicroHTTP
import Platform
import TestFolders
import TestSupport

@testable import ChatAPI

/// A service over a real cache and real sockets, with a scripted sync worker. The test stores the upstream's
/// data in the cache.
final class CollectionWorld {
  let directory: String
  private(set) var cache: Cache
  let syncRequests = ScriptedSync()
  private(set) var collections: Collections
  private(set) var server: Server
  /// Decides which users are answered.
  private var gate: Gate
  private let clock: Clock
  private let policy: OutboxPolicy

  init(
    settings: Collections.Settings = Collections.Settings(), retention: Retention = Retention(),
    gate: Gate = Gate(.named), clock: Clock = .system, policy: OutboxPolicy = OutboxPolicy(),
    mostChangedMembers: Int = Cache.Configuration.mostChangedMembers
  ) throws {
    self.gate = gate
    self.policy = policy
    self.clock = clock
    directory = TestFolder.make("collections")
    (cache, collections, server) = try Self.start(
      directory, syncRequests, settings, retention, gate, clock, policy, mostChangedMembers)
  }

  private static func start(
    _ directory: String, _ syncRequests: ScriptedSync, _ settings: Collections.Settings,
    _ retention: Retention, _ gate: Gate, _ clock: Clock, _ policy: OutboxPolicy, _ mostChangedMembers: Int
  ) throws -> (Cache, Collections, Server) {
    var configuration = Cache.Configuration(directory: directory, clock: clock)
    configuration.retention = retention
    configuration.mostChangedMembers = mostChangedMembers
    let cache = try Cache(configuration)
    let collections = Collections(cache: cache, syncRequests: syncRequests, settings: settings)
    try collections.start()
    let server = try Server(Configuration(listen: ListenAddress(host: "127.0.0.1", port: 0)))
    try server.start(
      Routes.all(
        RouteParts(
          status: ServiceStatus(), metrics: Metrics([]), cache: cache, syncRequests: syncRequests, gate: gate,
          webhookSignature: nil, collections: collections, outboxPolicy: policy)))
    return (cache, collections, server)
  }

  /// Stops the service and starts another one over the same data, with another gate if one is given.
  /// `mostChangedMembers`: with more members a channel is crowded.
  func restart(
    gate other: Gate? = nil, mostChangedMembers: Int = Cache.Configuration.mostChangedMembers
  ) throws {
    stop()
    if let other { gate = other }
    (cache, collections, server) = try Self.start(
      directory, syncRequests, Collections.Settings(), Retention(), gate, clock, policy, mostChangedMembers)
  }

  func stop() {
    server.shutDown(withinSeconds: 2)
    collections.stop()
    cache.close()
  }

  // MARK: Data from upstream

  func join(
    _ user: String, _ channel: String, floor: Int64 = 0, name: String = "", last: Int64? = nil
  ) throws {
    let user = UserID(user)
    let record = Self.channel(channel, floor: floor, name: name, last: last)
    try cache.write { writer in
      try writer.acknowledge(user)
      _ = try writer.store([record], of: user, .refresh(.channelChanged))
      try writer.endListing(of: user)
    }
  }

  func leave(_ user: String, _ channel: String) throws {
    try cache.write {
      try $0.removeMembership(of: UserID(user), in: ChannelURL(channel), .memberLeft)
    }
  }

  static func channel(_ url: String, floor: Int64, name: String, last: Int64?) -> ChannelRecord {
    var json = JSONWriter()
    json.field("channel_url", url)
    json.field("name", name)
    return ChannelRecord(
      url: ChannelURL(url), name: name, customType: "", createdAt: 1, isDistinct: false, isPublic: false,
      isSuper: false, isFrozen: false, memberCount: 2, joinedMemberCount: 2, body: json.finish().array,
      lastMessage: last.map { .message(message($0, at: $0)) } ?? .absent,
      membership: MembershipRecord(
        state: .joined, isOperator: false, isMuted: false, hiddenState: "unhidden", floorAt: floor,
        lastReadAt: 0, unread: 0, mentions: 0, joinedAt: 1, invitedAt: 0))
  }

  static func message(_ id: Int64, at: Int64, text: String = "hello", updatedAt: Int64 = 0) -> MessageRecord {
    var json = JSONWriter()
    json.name("message_id")
    json.value(quoting: id)
    json.field("message", text)
    json.field("created_at", at)
    return MessageRecord(
      messageID: id, createdAt: at, updatedAt: updatedAt, kind: .user, isSilent: false,
      isReplyToChannel: false, parentID: nil, parentAt: nil, sender: "bob", customType: "", requestID: "",
      mentions: .nobody, body: json.finish().array, parent: nil)
  }

  /// Stores all of a channel's messages, as one listing from the newest end to the beginning. `generation`:
  /// the link's.
  func list(
    _ ids: [Int64], in channel: String, _ source: ChangeSource = .apiResult, generation: Int64 = 1
  ) throws {
    try list(ids.map { Self.message($0, at: $0 * 10) }, in: channel, source, generation: generation)
  }

  /// The same, with the upstream's rows.
  func list(
    _ rows: [MessageRecord], in channel: String, _ source: ChangeSource = .apiResult, generation: Int64 = 1
  ) throws {
    let asked = cache.cursor.sequence
    try cache.write {
      try $0.store(
        [
          MessageListing(
            window: MessageWindow(.newest, older: 100, newer: 0), rows: rows, isWhole: true, askedAt: asked)
        ], in: ChannelURL(channel), ListingContext(source: source, generation: generation))
    }
  }

  /// Stores the newest messages, after a gap. `missing`: how many messages the gap lacks, if it is too large
  /// to be filled automatically.
  func listAfterGap(_ ids: [Int64], missing: Int?, in channel: String) throws {
    let rows = ids.map { Self.message($0, at: $0 * 10) }
    let asked = cache.cursor.sequence
    try cache.write {
      try $0.store(
        [
          MessageListing(
            window: MessageWindow(.newest, older: rows.count, newer: 0), rows: rows, isWhole: true,
            askedAt: asked)
        ], in: ChannelURL(channel),
        ListingContext(source: .messageFill, generation: 1, hugeMissing: missing))
    }
  }

  /// Stores the messages after `first` up to `last`, in pages of 100, as missed messages are fetched.
  func fill(after first: Int64, through last: Int64, in channel: String, text: String = "hello") throws {
    let asked = cache.cursor.sequence
    let listings = stride(from: first, through: last, by: 100).map { from in
      MessageListing(
        window: MessageWindow(
          .message(Position(createdAt: from * 10, messageID: from)), older: 0, newer: 100),
        rows: (from...min(from + 100, last)).map { Self.message($0, at: $0 * 10, text: text) },
        isWhole: true, askedAt: asked)
    }
    try cache.write {
      try $0.store(
        listings, in: ChannelURL(channel), ListingContext(source: .messageFill, generation: 1))
    }
  }

  func send(_ id: Int64, in channel: String, text: String = "hello", updatedAt: Int64 = 0) throws {
    let row = Self.message(id, at: id * 10, text: text, updatedAt: updatedAt)
    try cache.write { try $0.store(row, in: ChannelURL(channel), .messageReceived) }
  }

  func delete(_ id: Int64, in channel: String) throws {
    try cache.write { try $0.delete(message: id, in: ChannelURL(channel), .messageDeleted) }
  }

  /// Writes another secret to the file.
  func replaceSecret(_ file: SecretFile) throws {
    let text = SigningSecrets.makeText()
    let opened = open(file.path, O_WRONLY | O_TRUNC)
    defer { close(opened) }
    _ = write(opened, text, text.utf8.count)
  }

  // MARK: Requests

  func ask(
    _ path: String, as user: String = "alice", method: String = "GET", body: String = "",
    extra: [String: String] = [:]
  ) -> Answer {
    let headers = ["Perch-User": user, "Content-Type": "application/json"].merging(extra) { $1 }
    return ChatAPITests.ask(server, path, method: method, headers: headers, body: body)
  }

  /// Sends a request that is held, on a thread of its own.
  func held(
    _ path: String, headers: [String: String] = ["Perch-User": "alice"], method: String = "GET",
    body: String = ""
  ) -> HeldAsk {
    HeldAsk { [server] in ChatAPITests.ask(server, path, method: method, headers: headers, body: body) }
  }

  /// Waits, at most 5 s, until `count` requests are parked.
  func waitParked(_ count: Int) -> Bool {
    let end = Clock.system.monotonicNanoseconds() + UInt64(patience * 5e9)
    while collections.subscriptions.count != count {
      guard Clock.system.monotonicNanoseconds() < end else { return false }
      usleep(500)
    }
    return true
  }

  func post(_ path: String, _ body: String, as user: String = "alice") -> Answer {
    ask(path, as: user, method: "POST", body: body)
  }
}

/// A request that waits for its answer on a thread of its own.
final class HeldAsk: Sendable {
  private let came = Watched<Answer?>(nil)
  private let thread: Thread

  init(_ ask: @escaping @Sendable () -> Answer) {
    let came = came
    thread = Thread("ask") {
      let answer = ask()
      came.update { $0 = answer }
    }
  }

  /// The answer; an empty one if none came in time.
  func answer(within seconds: Double = 5) -> Answer {
    let end = Clock.system.monotonicNanoseconds() + UInt64(patience * seconds * 1e9)
    return came.wait(until: end) { $0 } ?? Answer()
  }
}

extension Answer {
  /// The text in the body at a path of names.
  func text(_ names: String...) -> String {
    let found = try? JSONParser().parse(body) { json -> String? in
      var value: JSONValue? = json
      for name in names { value = value?.field(named: name) }
      return value?.string
    }
    return (found ?? nil) ?? ""
  }

  /// The ids of the messages of a view or of a page, in order.
  var messages: [Int64] {
    let found = try? JSONParser().parse(body) { json in
      let rows = (json["messages"] ?? json["items"])?.items
      return rows.map { $0.compactMap { $0["message_id"]?.string.flatMap(Int64.init) } } ?? []
    }
    return found ?? []
  }

  /// The events, each with its type and the ids it names.
  var events: [String] {
    let found = try? JSONParser().parse(body) { json in
      (json["events"]?.items).map { events in events.map { Answer.brief($0) } } ?? []
    }
    return found ?? []
  }

  private static func brief(_ event: JSONValue) -> String {
    var parts = [event["type"]?.string ?? "?"]
    for name in ["messages", "message_refs", "channels"] {
      for item in event.field(named: name)?.items ?? JSONValue.Items() {
        parts.append(item["message_id"]?.string ?? item["channel_url"]?.string ?? "?")
      }
    }
    for item in event["channel_urls"]?.items ?? JSONValue.Items() { parts.append(item.string ?? "?") }
    return parts.joined(separator: " ")
  }
}
