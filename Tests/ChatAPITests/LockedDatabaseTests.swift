import ChatCache
import ChatCollections
import ChatModel
import Glibc
import JSON
import MicroHTTP
import Platform
import SQLite
import TestSupport
import Testing

@testable import ChatAPI

/// Another process holds the database's write lock: no request that reads waits for it.
@Suite(.serialized, .timeLimit(.minutes(5)))
struct LockedDatabaseTests {
  /// Holds the write lock until the test releases it.
  private final class Locker {
    private let connection: Connection
    init(_ world: CollectionWorld) throws {
      connection = try Connection(path: world.directory + "/perch.db", mode: .readWrite)
      try connection.execute("BEGIN IMMEDIATE")
    }
    func release() throws { try connection.execute("ROLLBACK") }
  }

  private struct Views {
    let world: CollectionWorld
    let paths: [String]
    let edges: [String]
  }

  private func views(_ count: Int, _ kind: String, _ body: String) throws -> Views {
    let world = try CollectionWorld()
    try world.join("alice", "general", name: "General")
    try world.join("alice", "other", name: "Other")
    try world.list(Array(1...100), in: "general")
    let opened = (0..<count).map { _ in world.post("/v1/\(kind)-collections", body) }
    #expect(opened.allSatisfy { $0.status == 201 })
    return Views(
      world: world, paths: opened.map { "/v1/\(kind)-collections/\($0.text("id"))" },
      edges: opened.map { $0.text("previous") })
  }

  /// The milliseconds of each of `count` requests on one connection.
  private func latencies(_ world: CollectionWorld, _ path: String, _ count: Int) -> [Double] {
    let line = Line(world.server, headers: "Perch-User: alice\r\n")
    return (0..<count).map { _ in
      let began = Clock.system.monotonicNanoseconds()
      let status = line.get(path).status
      let took = Double(Clock.system.monotonicNanoseconds() - began) / 1e6
      return status == 200 ? took : .infinity
    }
  }

  @Test("B60: while another holds the write lock, writes wait parked and everything else is answered at once")
  func locked() throws {
    let views = try views(12, "message", #"{"channel_url":"general","previous_size":5}"#)
    let world = views.world
    defer { world.stop() }
    let json = ["Perch-User": "alice", "Content-Type": "application/json"]
    let page = "/v1/channels/general/messages?limit=30"
    #expect(world.ask(page).status == 200)
    let locker = try Locker(world)
    var held: [(HeldAsk, Int)] = []
    func send(_ method: String, _ path: String, _ body: String = "", _ status: Int) {
      held.append((world.held(path, headers: json, method: method, body: body), status))
    }
    for (path, edge) in zip(views.paths.prefix(4), views.edges) {
      send("POST", "\(path)/previous", #"{"before":"\#(edge)","limit":5}"#, 200)
    }
    for path in views.paths[4..<8] { send("DELETE", path, "", 204) }
    for path in views.paths[8..<10] { send("POST", "\(path)/reset", "{}", 201) }
    for _ in 0..<4 { send("POST", "/v1/message-collections", #"{"channel_url":"other"}"#, 201) }
    for _ in 0..<2 { send("POST", "/v1/channel-collections", "{}", 201) }
    send("DELETE", "\(views.paths[10])/failed", "", 200)
    send("DELETE", "/v1/channels/other/cache", "", 204)
    let end = Clock.system.monotonicNanoseconds() + UInt64(patience * 5e9)
    while world.server.counts.parked < held.count, Clock.system.monotonicNanoseconds() < end { usleep(1000) }
    #expect(world.server.counts.parked == held.count, "each of them waits for its commit without a thread")
    let health = latencies(world, "/healthz", 200).sorted()
    let pages = latencies(world, page, 200).sorted()
    let polls = latencies(world, "\(views.paths[11])/events?since=\(world.cache.cursor)&wait=0", 50).sorted()
    let worst = [health[197], pages[197], polls[48]]
    print("p99 of healthz, page and poll while the write lock is held (ms): \(worst)")
    for milliseconds in worst { #expect(milliseconds < 200 * patience) }
    try locker.release()
    for (ask, status) in held { #expect(ask.answer().status == status) }
    let view = world.ask(views.paths[0])
    #expect(view.status == 200 && view.messages.count == 10, "what was told is stored")
    for path in views.paths[4..<8] { #expect(world.ask(path).status == 404) }
  }

  @Test("B22: openings that wait for their commits count against the user's limit")
  func limit() throws {
    var settings = Collections.Settings()
    settings.perUser = 3
    let world = try CollectionWorld(settings: settings)
    defer { world.stop() }
    try world.join("alice", "general", name: "General")
    let locker = try Locker(world)
    let body = #"{"channel_url":"general"}"#
    let json = ["Perch-User": "alice", "Content-Type": "application/json"]
    let asks = (0..<6).map { _ in
      world.held("/v1/message-collections", headers: json, method: "POST", body: body)
    }
    let end = Clock.system.monotonicNanoseconds() + UInt64(patience * 5e9)
    while world.server.counts.parked < 3, Clock.system.monotonicNanoseconds() < end { usleep(1000) }
    try locker.release()
    #expect(asks.map { $0.answer().status }.sorted() == [201, 201, 201, 429, 429, 429])
  }
}

/// How requests write.
@Suite(.serialized, .timeLimit(.minutes(5)))
struct DurableWriteTests {
  private struct Refused: Error {}
  private typealias Finish = @Sendable (Result<Int, any Error>) -> Void

  /// A server with one writing operation. The test finishes its commit, and gets the results that no request
  /// took.
  private final class World: Sendable {
    let server: Server
    let finish = Watched<Finish?>(nil)
    let waiter = Guarded<Waiter?>(nil)
    let unheard = Watched<[Int]>([])

    init(milliseconds: Int) throws {
      server = try Server(Configuration(listen: ListenAddress(host: "127.0.0.1", port: 0)))
      let (finish, waiter, unheard) = (finish, waiter, unheard)
      try server.start([
        Route(.post, "/write", operation: "write") { request in
          let made = request.makeWaiter()
          waiter.withLock { $0 = made }
          let write = DurableWrite<Int>(
            advice: "Count the rows.", milliseconds: milliseconds,
            unheard: { number in unheard.update { $0.append(number) } })
          return try write.answer(request, submit: { done in finish.update { $0 = done } }) { number in
            .respond(.text("\(number)"))
          }
        }
      ])
    }

    func ask() -> HeldAsk { HeldAsk { [server] in ChatAPITests.ask(server, "/write", method: "POST") } }
    func submitted() -> Finish? {
      finish.wait(until: Clock.system.monotonicNanoseconds() + UInt64(patience * 5e9)) { $0 }
    }
  }

  @Test("an answer waits for its commit, whoever else wakes the request")
  func committed() throws {
    let world = try World(milliseconds: 20_000)
    defer { world.server.shutDown(withinSeconds: 1) }
    let asked = world.ask()
    let finish = try #require(world.submitted())
    for _ in 0..<3 { world.waiter.withLock { $0 }?.wake() }
    #expect(asked.answer(within: 0.1).status == 0)
    finish(.success(7))
    let answer = asked.answer()
    #expect(answer.status == 200 && answer.body == "7" && world.unheard.read { $0 }.isEmpty)
  }

  @Test("B60: a commit that takes too long is a 503 that says so, and what it made is taken back")
  func late() throws {
    let world = try World(milliseconds: 100)
    defer { world.server.shutDown(withinSeconds: 1) }
    let asked = world.ask()
    let finish = try #require(world.submitted())
    let answer = asked.answer()
    #expect(answer.status == 503 && answer.text("code") == "storage_unavailable")
    #expect(answer["Retry-After"] == "5" && answer.text("detail").contains("not known"))
    #expect(answer.text("detail").contains("Count the rows."))
    #expect(world.unheard.read { $0 }.isEmpty)
    finish(.success(7))
    #expect(world.unheard.read { $0 } == [7])
  }

  @Test("B60: a write that failed says whether it was stored")
  func failed() throws {
    let world = try World(milliseconds: 20_000)
    defer { world.server.shutDown(withinSeconds: 1) }
    for (error, words) in [
      (CacheError.storage(.unreadablePage), "nothing was stored"),
      (CacheError.tooManyWaiting, "nothing was stored"),
      (CacheError.outcomeUnknown(.unreadablePage), "not known"),
    ] {
      world.finish.update { $0 = nil }
      let asked = world.ask()
      let finish = try #require(world.submitted())
      finish(.failure(error))
      let answer = asked.answer()
      #expect(answer.status == 503 && answer.text("code") == "storage_unavailable")
      #expect(answer.text("detail").contains(words))
    }
  }
}
