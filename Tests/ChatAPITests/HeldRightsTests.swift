import ChatCache
import ChatModel
import Glibc
import MicroHTTP
import Platform
import Synchronization
import TestFolders
import TestSupport
import Testing

@testable import ChatAPI

/// A held request is answered by the rights at the end of its wait (B1, B51, B61): token, secrets, user,
/// membership, floor, view.
@Suite struct HeldRightsTests {
  private static let alice = UserID("alice")

  /// A request that is held until the sync worker answers, or until a change.
  enum Held: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case page, message, channels, more, previous, openChannels, openMessages, connect
    case channel, members, gaps, unknownPage, unknownOpening, admission
    var testDescription: String { rawValue }
    /// Whether the request asks for messages of the channel, which is in the cache.
    var isOfChannel: Bool { [.page, .message, .previous].contains(self) }
  }

  private final class Time: Sendable {
    let now = Atomic<Int64>(Clock.system.wallMilliseconds())
    var seconds: Int64 { now.load(ordering: .relaxed) / 1000 }
  }

  /// A service with tokens and a clock that the test sets, and a worker that answers when the test releases
  /// it.
  private struct Setting {
    let time = Time()
    let file = SecretFile(inDataDirectory: TestFolder.make("secret"))
    let keyring: Keyring
    let world: CollectionWorld

    init() throws {
      keyring = try Keyring(file: file)
      let clock = Clock(
        wallMilliseconds: { [time] in time.now.load(ordering: .relaxed) },
        monotonicNanoseconds: Clock.system.monotonicNanoseconds)
      world = try CollectionWorld(gate: Gate(.tokens(keyring), clock: clock), clock: clock)
      for channel in ["general", "second"] { try world.join("alice", channel, name: channel, last: 9) }
      try world.list([1, 2, 3, 4, 5], in: "general")
    }

    func headers(_ more: [String: String] = [:]) -> [String: String] {
      let token = BearerToken(user: "alice", scopes: .chat, expires: time.seconds + 60)
      return [
        "Authorization": "Bearer \(token.signed(with: keyring.now.secrets))",
        "Content-Type": "application/json",
      ].merging(more) { $1 }
    }

    private func opened(_ path: String, _ body: String) -> Answer {
      ask(world.server, path, method: "POST", headers: headers(), body: body)
    }

    /// Sends the request, and waits until it has reached the worker.
    func begin(_ held: Held) -> HeldAsk {
      let list = "/v1/channel-collections"
      let chat = "/v1/message-collections"
      let channels = held == .more ? opened(list, #"{"query":{"limit":1,"include_empty":true}}"#) : Answer()
      let view =
        held == .previous ? opened(chat, #"{"channel_url":"general","previous_size":2}"#) : Answer()
      let asked = world.syncRequests.calls.count
      world.syncRequests.tell { script in
        script.isHolding = true
        script.onFind = { _, _ in .success(true) }
        if held == .admission { script.admissions[HeldRightsTests.alice] = .undecided }
      }
      let (path, method, body) =
        switch held {
        case .page: ("/v1/channels/general/messages", "GET", "")
        case .message: ("/v1/channels/general/messages/3", "GET", "")
        case .channels: ("/v1/channels?include_empty=true", "GET", "")
        case .more: ("\(list)/\(channels.text("id"))/more", "POST", #"{"after":"\#(channels.text("next"))"}"#)
        case .previous:
          ("\(chat)/\(view.text("id"))/previous", "POST", #"{"before":"\#(view.text("previous"))"}"#)
        case .openChannels: (list, "POST", "{}")
        case .openMessages: (chat, "POST", #"{"channel_url":"general"}"#)
        case .connect: ("/v1/connection", "PUT", "")
        case .channel: ("/v1/channels/elsewhere", "GET", "")
        case .members: ("/v1/channels/elsewhere/members", "GET", "")
        case .gaps: ("/v1/channels/elsewhere/gaps", "GET", "")
        case .unknownPage: ("/v1/channels/elsewhere/messages", "GET", "")
        case .unknownOpening: (chat, "POST", #"{"channel_url":"elsewhere"}"#)
        case .admission: ("/v1/channels/general", "GET", "")
        }
      let headers = headers(["Cache-Control": "no-cache", "Prefer": "wait=20"])
      let ask = world.held(path, headers: headers, method: method, body: body)
      let end = Clock.system.monotonicNanoseconds() + UInt64(patience * 5e9)
      while !world.syncRequests.calls.dropFirst(asked).contains(where: HeldRightsTests.isHeld) {
        guard Clock.system.monotonicNanoseconds() < end else { return ask }
        usleep(500)
      }
      return ask
    }

    /// Releases the request. If the channel was missing, it is there now.
    func end(_ held: Held) throws {
      if held == .admission { world.syncRequests.tell { $0.admissions[HeldRightsTests.alice] = nil } }
      if held == .openMessages { try world.send(6, in: "general") }
      world.syncRequests.release()
    }
  }

  private static func isHeld(_ call: ScriptedSync.Call) -> Bool {
    switch call {
    case .fetch, .fetchChannels, .find, .admit, .connect, .opened: true
    default: false
    }
  }

  @Test(
    "B1: without a change of rights each of them is answered",
    arguments: Held.allCases.filter { ![.openMessages, .unknownOpening].contains($0) })
  func unchanged(held: Held) throws {
    let setting = try Setting()
    defer { setting.world.stop() }
    let ask = setting.begin(held)
    try setting.world.join("alice", "elsewhere", name: "Elsewhere")
    try setting.end(held)
    let answer = ask.answer()
    #expect([200, 201].contains(answer.status), "\(answer)")
  }

  @Test("B51: a token that ended meanwhile is a 401", arguments: Held.allCases)
  func tokenEnded(held: Held) throws {
    let setting = try Setting()
    defer { setting.world.stop() }
    let ask = setting.begin(held)
    setting.time.now.add(61_000, ordering: .relaxed)
    try setting.world.join("alice", "elsewhere", name: "Elsewhere")
    try setting.end(held)
    let answer = ask.answer()
    #expect(answer.status == 401 && !answer.body.contains("hello"), "\(answer)")
    #expect(setting.world.collections.subscriptions.count == 0)
  }

  @Test("B61: a secret that was withdrawn meanwhile is a 401", arguments: Held.allCases)
  func secretWithdrawn(held: Held) throws {
    let setting = try Setting()
    defer { setting.world.stop() }
    let ask = setting.begin(held)
    try setting.world.replaceSecret(setting.file)
    try setting.keyring.reread()
    try setting.end(held)
    #expect(ask.answer().status == 401)
  }

  @Test("B5: a user who was closed meanwhile is a 403", arguments: Held.allCases)
  func userClosed(held: Held) throws {
    let setting = try Setting()
    defer { setting.world.stop() }
    let ask = setting.begin(held)
    setting.world.syncRequests.tell { $0.admissions[Self.alice] = .refused(.userUnknown) }
    if held == .openMessages { try setting.world.send(6, in: "general") }
    setting.world.syncRequests.release()
    #expect(ask.answer().text("code") == "user_unknown")
  }

  @Test("B1: a membership that was lost meanwhile is a 404", arguments: Held.allCases.filter(\.isOfChannel))
  func membershipLost(held: Held) throws {
    let setting = try Setting()
    defer { setting.world.stop() }
    let ask = setting.begin(held)
    try setting.world.leave("alice", "general")
    try setting.end(held)
    let answer = ask.answer()
    #expect(answer.text("code") == "channel_not_found" && !answer.body.contains("hello"), "\(answer)")
  }

  @Test("B23: a floor that was raised meanwhile holds", arguments: Held.allCases.filter(\.isOfChannel))
  func floorRaised(held: Held) throws {
    let setting = try Setting()
    defer { setting.world.stop() }
    let ask = setting.begin(held)
    try setting.world.join("alice", "general", floor: 45, name: "general", last: 9)
    try setting.end(held)
    let answer = ask.answer()
    for id in 1...4 { #expect(!answer.body.contains(#""message_id":"\#(id)""#), "\(answer)") }
    #expect(answer.status == (held == .message ? 404 : 200))
  }

  @Test("B22: a view that was disposed of meanwhile is a 404", arguments: [Held.more, .previous])
  func viewDisposed(held: Held) throws {
    let setting = try Setting()
    defer { setting.world.stop() }
    let ask = setting.begin(held)
    for view in try setting.world.cache.read({ try $0.collections() }) {
      let path = view.kind == .messages ? "message" : "channel"
      let end = ChatAPITests.ask(
        setting.world.server, "/v1/\(path)-collections/\(view.id)", method: "DELETE",
        headers: setting.headers())
      #expect(end.status == 204)
    }
    try setting.end(held)
    #expect(ask.answer().text("code") == "collection_not_found")
  }
}
