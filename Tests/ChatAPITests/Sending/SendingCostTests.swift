import ChatModel
import Platform
import TestSupport
import Testing

@testable import ChatAPI
@testable import ChatCache

/// The cost of an event in a view whose user has many unsent rows.
@Suite(.serialized, .timeLimit(.minutes(5))) struct SendingCostTests {
  /// Alice's view of `general`, and its cursor.
  private struct Watched {
    let world: CollectionWorld
    let path: String
    var cursor: String
  }

  private static let policy: OutboxPolicy = {
    var policy = OutboxPolicy()
    policy.maximumUnsent = 50_000
    return policy
  }()

  private static func accept(
    _ name: String, _ kind: OutboxRow.Kind, _ writer: borrowing CacheWriter
  ) throws {
    let params = Array((kind.isMessage ? #"{"message":"hi"}"# : #"{"add":true}"#).utf8)
    let id = try #require(RequestID(name))
    let url = ChannelURL("general")
    let body =
      kind.isMessage ? try writer.reader.unsentBody(params, id, of: UserID("alice"), in: url, at: 1) : []
    var request = UnsentRequest(
      requestID: id, kind: kind, content: OutboxContent(params: params, body: body), contentHash: params)
    if kind == .reaction {
      request.target = 2
      request.aspect = name
    }
    _ = try writer.accept(request, of: UserID("alice"), in: url, policy)
  }

  private static func world(_ unsent: Int, _ kind: OutboxRow.Kind) throws -> Watched {
    let world = try CollectionWorld.forSending(policy: policy)
    try world.cache.accept { writer in
      try accept("filler", kind, writer)
      try writer.multiply(unsent: "filler", by: unsent - 1)
    }
    let open = world.post("/v1/message-collections", #"{"channel_url":"general"}"#)
    #expect(open.status == 201)
    return Watched(
      world: world, path: "/v1/message-collections/\(open.text("id"))/events", cursor: open.text("cursor"))
  }

  @Test(
    "B49: an event of a view costs at most 1.5 times as much where its user has 10 000 unsent rows",
    arguments: [OutboxRow.Kind.message, .reaction])
  func events(_ kind: OutboxRow.Kind) throws {
    var views = [try Self.world(1, kind), try Self.world(10_000, kind)]
    defer { for view in views { view.world.stop() } }
    var times = ShortestTimes(of: views.count)
    for round in 0..<240 where round < 60 || !times.isWithin(1.5) {
      for index in views.indices {
        let world = views[index].world
        if round % 2 == 0 {
          try world.cache.accept { try Self.accept("more-\(round)", .message, $0) }
        } else {
          try world.put(Int64(100 + round), from: "bob")
        }
        let path = "\(views[index].path)?since=\(views[index].cursor)&wait=0"
        let began = Clock.system.monotonicNanoseconds()
        let answer = world.ask(path)
        times.add(Clock.system.monotonicNanoseconds() - began, to: index)
        #expect(answer.body.contains(round % 2 == 0 ? "more-\(round)" : "hello \(100 + round)"))
        views[index].cursor = answer.text("cursor")
      }
    }
    #expect(times.isWithin(1.5), "\(times) ns")
  }
}
