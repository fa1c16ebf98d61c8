import ChatCache
import ChatModel
import Testing

@testable import ChatAPI

/// Random clients of one chat: they poll, lose answers, come back with the cursor before, load older pages,
/// while messages come, change and go and the service restarts.
@Suite struct CollectionModelTests {
  /// What one client shows.
  private struct Client {
    let id: String
    var cursor: String
    var shown: Set<Int64>
    /// Before the last answer, for answers that are lost.
    var earlier: (cursor: String, shown: Set<Int64>)?

    mutating func take(_ events: [String]) {
      for event in events {
        let parts = event.split(separator: " ")
        let ids = parts.dropFirst().compactMap { Int64($0) }
        switch parts.first {
        case "messages.added", "messages.updated": shown.formUnion(ids)
        case "messages.deleted": shown.subtract(ids)
        case "messages.replaced": shown = Set(ids)
        default: break
        }
      }
    }
  }

  @Test(
    "B49: whatever is lost and restarted, each client's list converges to the fresh snapshot",
    arguments: 0..<6)
  func converges(seed: Int) throws {
    var random = SeededRandom(seed: UInt64(seed))
    let world = try CollectionWorld()
    defer { world.stop() }
    try world.join("alice", "general", name: "General")
    try world.list(Array(1...30), in: "general")
    var clients: [Client] = []
    for size in [3, 10, 40] {
      let open = world.post(
        "/v1/message-collections", #"{"channel_url":"general","previous_size":\#(size)}"#)
      clients.append(
        Client(id: open.text("id"), cursor: open.text("cursor"), shown: Set(open.messages), earlier: nil))
    }
    var next: Int64 = 31
    for step in 0..<60 {
      switch Int.random(in: 0..<10, using: &random) {
      case 0...3:
        try world.send(next, in: "general")
        next += 1
      case 4: try world.delete(Int64.random(in: 1..<next, using: &random), in: "general")
      case 5 where step % 4 == 3: try world.restart()
      default: break
      }
      let index = Int.random(in: 0..<clients.count, using: &random)
      var client = clients[index]
      if Int.random(in: 0..<5, using: &random) == 0, let earlier = client.earlier {
        (client.cursor, client.shown) = earlier
      }
      let path = "/v1/message-collections/\(client.id)"
      if Int.random(in: 0..<6, using: &random) == 0 {
        let token = world.ask(path).text("previous")
        if !token.isEmpty {
          let page = world.post("\(path)/previous", #"{"from":"\#(token)"}"#)
          #expect(page.status == 200)
          client.shown.formUnion(page.messages)
          client.earlier = nil
        }
      }
      let poll = world.ask("\(path)/events?since=\(client.cursor)&wait=0")
      #expect(poll.status == 200)
      client.earlier = (client.cursor, client.shown)
      client.take(poll.events)
      client.cursor = poll.text("cursor")
      clients[index] = client
      let fresh = world.ask(path)
      #expect(client.shown == Set(fresh.messages), "step \(step)")
    }
  }
}
