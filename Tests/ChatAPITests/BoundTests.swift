import ChatCollections
import Testing

@testable import ChatAPI

/// Bounds on the requests of one user, and of all users.
@Suite(.timeLimit(.minutes(5))) struct BoundTests {
  private func world(_ settings: Collections.Settings = Collections.Settings()) throws -> CollectionWorld {
    let world = try CollectionWorld(settings: settings)
    for user in ["alice", "bob"] { try world.join(user, "general", name: "General") }
    try world.list([1, 2, 3], in: "general")
    return world
  }

  @Test("B12: a page of messages has at most 200 rows, one of channels at most 100")
  func pageRows() throws {
    let world = try world()
    defer { world.stop() }
    for (path, most) in [("/v1/channels/general/messages", 200), ("/v1/channels", 100)] {
      #expect(world.ask("\(path)?limit=\(most)").status == 200)
      for limit in ["\(most + 1)", "9223372036854775807", "0", "-1"] {
        let answer = world.ask("\(path)?limit=\(limit)")
        #expect(answer.status == 400 && answer.body.contains(#""field":"limit""#), "\(path) \(limit)")
      }
    }
  }

  @Test("a query of very many parameters is a 400 that says so, and they are not all compared")
  func parameters() throws {
    let world = try world()
    defer { world.stop() }
    let query = (0..<800).map { "%61\(String($0, radix: 36))" }.joined(separator: "&")
    let answer = world.ask("/v1/channels?\(query)")
    #expect(answer.status == 400 && answer.body.contains(#""field":"query""#))
    #expect(answer.body.utf8.count < 4096)
  }

  @Test("B22: a user opens no more views than allowed, of both kinds together; others open theirs")
  func viewsPerUser() throws {
    var settings = Collections.Settings()
    settings.perUser = 2
    let world = try world(settings)
    defer { world.stop() }
    let messages = ("/v1/message-collections", #"{"channel_url":"general"}"#)
    let channels = ("/v1/channel-collections", "{}")
    for (path, body) in [messages, channels] { #expect(world.post(path, body).status == 201) }
    for (path, body) in [messages, channels] {
      let answer = world.post(path, body)
      #expect(answer.status == 429 && answer.text("code") == "too_many_collections")
    }
    #expect(world.post(messages.0, messages.1, as: "bob").status == 201)
  }

  @Test("B54: more parked requests than allowed for all users together are a 503")
  func parkedInAll() throws {
    var settings = Collections.Settings()
    settings.parked = 1
    let world = try world(settings)
    defer { world.stop() }
    let cursor = world.cache.cursor.description
    let held = world.held("/v1/events?since=\(cursor)&wait=20")
    #expect(world.waitParked(1))
    let refused = world.ask("/v1/events?since=\(cursor)&wait=20", as: "bob")
    #expect(refused.status == 503 && refused.text("code") == "busy")
    try world.send(4, in: "general")
    #expect(held.answer().status == 200)
  }
}
