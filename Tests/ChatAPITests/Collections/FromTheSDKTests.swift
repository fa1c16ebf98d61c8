import ChatCollections
import ChatModel
import Glibc
import Platform
import Testing

@testable import ChatAPI
@testable import ChatCache

/// An exercise for each row of `docs/from-the-sdk.md`. A row that is served has an exercise here, and each
/// exercise has its row; rows that are `coming` or `not offered` have none.
@Suite struct FromTheSDKTests {
  typealias Exercise = @Sendable (CollectionWorld) throws -> Void

  /// A row of the document.
  private struct DocumentRow {
    let there: String
    let here: String
    var isServed: Bool { !here.hasPrefix("coming") && !here.hasPrefix("not offered") }
  }

  private func rows() throws -> [DocumentRow] {
    try Repository.text("docs/from-the-sdk.md").split(separator: "\n").compactMap { line in
      let cells = line.split(separator: "|").map {
        String($0.drop { $0 == " " }.reversed().drop { $0 == " " }.reversed())
      }
      guard line.hasPrefix("|"), cells.count == 2, cells[0] != "there", !cells[0].hasPrefix("--") else {
        return nil
      }
      return DocumentRow(there: cells[0], here: cells[1])
    }
  }

  @Test("Every row of the SDK's document that is served is exercised, and no exercise is without its row")
  func complete() throws {
    let served = try rows().filter(\.isServed).map(\.there)
    #expect(served.count > 30)
    #expect(Set(served).subtracting(Self.all.map(\.0)).isEmpty)
    #expect(Set(Self.all.map(\.0)).subtracting(served).isEmpty)
  }

  @Test("What the SDK's document promises is so; a change says its source (B10)", arguments: Self.all.indices)
  func exercise(index: Int) throws {
    let world = try CollectionWorld()
    defer { world.stop() }
    try world.join("alice", "general", name: "General", last: 500)
    try world.list(Array(1...50), in: "general")
    try Self.all[index].1(world)
  }

  private static let all: [(String, Exercise)] =
    connecting + channelCollection + messageCollection + moreOfMessages + sending + store + syncManager
    + byHand

  // MARK: Setting up and connecting

  private static let connecting: [(String, Exercise)] = [
    (
      "init with local caching on",
      { world in
        world.syncRequests.tell { $0.link = LinkStatus(.offline(.unreachable), generation: 2) }
        let page = world.ask("/v1/channels/general/messages?limit=5")
        #expect(page.status == 200 && page["Cache-Status"]?.hasPrefix("perch") == true)
      }
    ),
    (
      "connect: user and no error",
      { world in #expect(world.ask("/v1/connection", method: "PUT").text("state") == "online") }
    ),
    (
      "connect: user and an error (offline)",
      { world in
        world.syncRequests.tell {
          $0.connections[UserID("alice")] = UserConnection(
            UserID("alice"), .offline, error: .unreachable(.unreachable, retryAfter: 1000), isSynced: true)
        }
        let answer = world.ask("/v1/connection", method: "PUT")
        #expect(answer.status == 200 && answer.text("state") == "offline")
        #expect(answer.text("error", "code") == "upstream_unreachable")
        #expect(world.ask("/v1/channels").body.contains("general"))
      }
    ),
    (
      "connect: no user",
      { world in
        world.syncRequests.tell {
          $0.refusals[UserID("nobody")] = .userUnknown
          $0.refusals[UserID("stranger")] = .unreachable(.unreachable, retryAfter: 1000)
        }
        #expect(world.ask("/v1/connection", as: "nobody", method: "PUT").text("code") == "user_unknown")
        let unreachable = world.ask("/v1/connection", as: "stranger", method: "PUT")
        #expect(unreachable.status == 503 && unreachable.text("code") == "upstream_unreachable")
      }
    ),
    (
      "disconnect",
      { world in
        #expect(world.ask("/v1/connection", method: "DELETE").status == 204)
        #expect(world.ask("/v1/connection").text("state") == "stopped")
        #expect(world.ask("/v1/channels").body.contains("general"), "the cache is kept")
      }
    ),
    (
      "logout, clear cached data",
      { world in
        #expect(world.ask("/v1/connection?clear=true", method: "DELETE").status == 204)
        #expect(world.syncRequests.calls.contains(.forget(UserID("alice"), isForced: false)))
      }
    ),
    (
      "connection delegate",
      { world in
        let cursor = world.ask("/v1/events").text("cursor")
        try world.cache.write { try $0.announce(link: "offline") }
        #expect(world.ask("/v1/events?since=\(cursor)&wait=5").events == ["connection.changed"])
      }
    ),
    (
      "background sync of channels and messages",
      { world in
        try world.cache.write { _ = try $0.acknowledge(UserID("bob")) }
        let cursor = world.ask("/v1/events", as: "bob").text("cursor")
        try world.join("bob", "general", name: "General")
        let poll = world.ask("/v1/events?since=\(cursor)&wait=5", as: "bob")
        #expect(poll.events.contains("sync.progress"))
      }
    ),
  ]

  // MARK: Channel collection

  private static func list(_ world: CollectionWorld, _ query: String = "{}") -> (path: String, open: Answer) {
    let open = world.post("/v1/channel-collections", #"{"query":\#(query)}"#)
    return ("/v1/channel-collections/\(open.text("id"))", open)
  }

  private static let channelCollection: [(String, Exercise)] = [
    (
      "create with a list query",
      { world in
        let (path, open) = list(world, #"{"name_contains":"gener"}"#)
        #expect(open.status == 201 && open["Location"] == path)
        #expect(open.body.contains(#""channel_url":"general""#))
      }
    ),
    (
      "load more, has more",
      { world in
        for number in 1...3 { try world.join("alice", "more-\(number)", last: Int64(number)) }
        let (path, open) = list(world, #"{"limit":2}"#)
        #expect(open.body.contains(#""has_next":true"#))
        let page = world.post("\(path)/more", #"{"after":"\#(open.text("next"))"}"#)
        #expect(page.body.contains("more-2") && page.body.contains(#""has_next":false"#))
      }
    ),
    (
      "channels added, updated, deleted",
      { world in
        let (path, open) = list(world)
        try world.join("alice", "new", name: "New", last: 600)
        let added = world.ask("\(path)/events?since=\(open.text("cursor"))&wait=5")
        #expect(added.events == ["channels.added new"])
        try world.join("alice", "new", name: "Renamed", last: 600)
        let updated = world.ask("\(path)/events?since=\(added.text("cursor"))&wait=5")
        #expect(updated.events == ["channels.updated new"])
        try world.leave("alice", "new")
        let deleted = world.ask("\(path)/events?since=\(updated.text("cursor"))&wait=5")
        #expect(deleted.events == ["channels.deleted new"])
      }
    ),
    (
      "the context's source",
      { world in
        let (path, open) = list(world)
        try world.leave("alice", "general")
        let poll = world.ask("\(path)/events?since=\(open.text("cursor"))&wait=5")
        #expect(poll.body.contains(#""source":"event.member_left","is_realtime":true"#))
      }
    ),
    (
      "dispose",
      { world in
        let (path, _) = list(world)
        let (view, _) = chat(world)
        for path in [path, view] {
          #expect(world.ask(path, method: "DELETE").status == 204)
          #expect(world.ask(path).text("code") == "collection_not_found")
        }
      }
    ),
  ]

  // MARK: Message collection

  private static func chat(_ world: CollectionWorld, _ extra: String = "") -> (path: String, open: Answer) {
    let open = world.post("/v1/message-collections", #"{"channel_url":"general"\#(extra)}"#)
    return ("/v1/message-collections/\(open.text("id"))", open)
  }

  private static let messageCollection: [(String, Exercise)] = [
    (
      "create with channel, params, starting point",
      { world in
        let (path, open) = chat(world, #","starting_point":100,"previous_size":3,"next_size":2"#)
        #expect(open.status == 201 && open["Location"] == path)
        #expect(open.messages == [7, 8, 9, 10, 11, 12])
      }
    ),
    (
      "init policy cache and replace by API",
      { world in
        #expect(chat(world, #","init_policy":"cache_and_replace_by_api""#).open.status == 201)
        #expect(chat(world, #","init_policy":"another""#).open.status == 400)
      }
    ),
    ("cache result of the start", { world in #expect(chat(world).open.messages.last == 50) }),
    (
      "API result of the start",
      { world in
        let (path, open) = chat(world)
        let (id, url) = (open.text("id"), ChannelURL("general"))
        try world.cache.write {
          try $0.answered(views: [id], in: url, failure: ("upstream_unreachable", true))
        }
        let failed = world.ask("\(path)/events?since=\(open.text("cursor"))&wait=5")
        #expect(failed.events == ["api_failed"] && failed.body.contains(#""will_retry":true"#))
        try world.cache.write { try $0.answered(views: [id], in: url, failure: nil) }
        let poll = world.ask("\(path)/events?since=\(failed.text("cursor"))&wait=5")
        #expect(poll.events == ["api_result"])
        #expect(poll.body.contains(#""source":"api_result""#))
      }
    ),
    (
      "load previous, load next, has previous, has next",
      { world in
        let (path, open) = chat(world, #","starting_point":250,"previous_size":2,"next_size":2"#)
        #expect(open.messages == [23, 24, 25, 26, 27])
        #expect(open.body.contains(#""has_previous":true"#) && open.body.contains(#""has_next":true"#))
        let older = world.post("\(path)/previous", #"{"before":"\#(open.text("previous"))","limit":2}"#)
        let newer = world.post("\(path)/next", #"{"after":"\#(open.text("next"))","limit":2}"#)
        #expect(older.messages == [21, 22] && newer.messages == [28, 29])
      }
    ),
    (
      "succeeded, pending, failed messages",
      { world in
        let open = chat(world).open
        #expect(open.messages.count == 40)
        #expect(open.body.contains(#""pending":[]"#) && open.body.contains(#""failed":[]"#))
      }
    ),
    ("messages added, updated, deleted", threeKinds),
    (
      "channel updated, channel deleted",
      { world in
        let (path, open) = chat(world)
        try world.join("alice", "general", name: "Renamed", last: 500)
        let poll = world.ask("\(path)/events?since=\(open.text("cursor"))&wait=5")
        #expect(poll.events == ["channel.updated general"])
        try world.leave("alice", "general")
        let next = world.ask("\(path)/events?since=\(poll.text("cursor"))&wait=5")
        #expect(next.events == ["channel.deleted general"])
      }
    ),
  ]

  private static let threeKinds: Exercise = { world in
    let (path, open) = chat(world)
    try world.send(51, in: "general")
    try world.send(50, in: "general", text: "changed", updatedAt: 9_999)
    try world.delete(49, in: "general")
    let poll = world.ask("\(path)/events?since=\(open.text("cursor"))&wait=5")
    #expect(poll.events == ["messages.deleted 49", "messages.added 51", "messages.updated 50"])
    #expect(poll.body.contains(#""sending_status":"succeeded""#))
  }

  private static let moreOfMessages: [(String, Exercise)] = [
    (
      "huge gap detected",
      { world in
        let (path, open) = chat(world)
        try world.listAfterGap(Array(1000...1010), missing: 700, in: "general")
        let poll = world.ask("\(path)/events?since=\(open.text("cursor"))&wait=5")
        let event = poll.events.contains("huge_gap.detected")
        #expect(event && poll.body.contains(#""state":"huge""#))
        #expect(
          !poll.events.contains { $0.hasPrefix("messages.added") }, "what is behind it is not in the view")
        #expect(world.ask(path).messages == open.messages)
        #expect(poll.body.contains(#""has_next":true"#))
        let anew = world.post("\(path)/reset", "{}")
        #expect(anew.status == 201 && anew.messages.last == 1010)
      }
    ),
    (
      "gap check and fill",
      { world in
        let (path, open) = chat(world)
        try world.list(Array(1...60), in: "general", .messageFill)
        let poll = world.ask("\(path)/events?since=\(open.text("cursor"))&wait=5")
        #expect(poll.events.contains("messages.added 51 52 53 54 55 56 57 58 59 60"))
        #expect(poll.body.contains(#""source":"message_fill""#))
      }
    ),
    (
      "remove failed, remove all failed",
      { world in
        let (path, _) = chat(world)
        #expect(world.ask("\(path)/failed", method: "DELETE").body == #"{"request_ids":[]}"#)
        #expect(world.ask("\(path)/failed?request_id=r1", method: "DELETE").body == #"{"request_ids":[]}"#)
      }
    ),
    (
      "starting over elsewhere (older: reset the viewpoint)",
      { world in
        let (path, open) = chat(world)
        let anew = world.post("\(path)/reset", #"{"starting_point":100}"#)
        #expect(anew.status == 201 && anew.text("id") != open.text("id") && anew.messages.contains(10))
      }
    ),
  ]

  // MARK: The store

  /// A crossed limit: rows that no view shows are evicted and become a gap, the view's rows stay.
  private static let size: Exercise = { world in
    let (path, open) = chat(world)
    let text = String(repeating: "x", count: 8_000)
    try world.join("alice", "old", name: "Old", last: 9)
    // A hundred messages of 8 KB; the pass must evict only some of them.
    for id in Int64(1)...100 { try world.send(id, in: "old", text: text) }
    world.cache.usage.set(
      CacheLimit(
        exactly: world.cache.usage.usedBytes, order: [CacheLimit.Term(.messages, isDescending: true)]))
    try world.cache.write { _ in }
    try world.cache.evict()
    let info = world.ask("/v1/cache").body
    #expect(info.contains(#""field":"cached_message_count","direction":"desc""#))
    #expect(world.cache.usage.evictedMessages > 0)
    let gone = world.ask("/v1/channels/old/messages?limit=200")
    #expect(gone.messages.count < 100 && gone.body.contains("evicted"))
    #expect(world.ask(path).messages == open.messages)
    let poll = world.ask("\(path)/events?since=\(open.text("cursor"))&wait=1")
    #expect(poll.status == 200 && !poll.events.contains { $0.hasPrefix("messages.deleted") })
  }

  private static let store: [(String, Exercise)] = [
    ("maximum size, clear order", size),
    (
      "cached data size",
      { world in #expect(world.ask("/v1/cache").body.contains(#""size_bytes":"#)) }
    ),
    (
      "clear one channel's cached messages",
      { world in
        let (path, open) = chat(world)
        #expect(world.ask("/v1/channels/general/cache", method: "DELETE").status == 204)
        let poll = world.ask("\(path)/events?since=\(open.text("cursor"))&wait=5")
        #expect(poll.events.contains("gap.changed"))
        #expect(!poll.events.contains { $0.hasPrefix("messages.deleted") })
      }
    ),
    (
      "clear all cached data",
      { world in
        let cursor = world.ask("/v1/events").text("cursor")
        #expect(world.ask("/v1/cache", method: "DELETE").status == 204)
        #expect(world.ask("/v1/events?since=\(cursor)").status == 410)
      }
    ),
    (
      "cached channel info",
      { world in
        let info = world.ask("/v1/cache/channels").body
        #expect(info.contains(#""cached_message_count":50"#) && info.contains(#""accessed_at":"#))
      }
    ),
  ]

  // MARK: The older sync manager

  private static let syncManager: [(String, Exercise)] = [
    (
      "create a collection with a filter and a viewpoint",
      { world in
        let (_, open) = chat(world, #","starting_point":100,"sender_user_ids":["bob"],"next_size":1"#)
        #expect(open.messages.suffix(2) == [10, 11])
        #expect(chat(world, #","starting_point":100,"sender_user_ids":["nobody"]"#).open.messages == [])
      }
    ),
    (
      "fetch in a direction",
      { world in
        let (path, open) = chat(world, #","starting_point":250,"previous_size":1,"next_size":1"#)
        let edges = (open.text("previous"), open.text("next"))
        #expect(world.post("\(path)/previous", #"{"before":"\#(edges.0)","limit":1}"#).messages == [23])
        #expect(world.post("\(path)/next", #"{"after":"\#(edges.1)","limit":1}"#).messages == [27])
      }
    ),
    (
      "fetch succeeded messages",
      { world in
        let (path, open) = chat(world)
        #expect(world.ask(path).messages == open.messages)
      }
    ),
    ("insert, update, remove actions", threeKinds),
    (
      "move action of the channel list",
      { world in
        try world.join("alice", "other", name: "Other", last: 600)
        let (path, open) = list(world)
        try world.send(51, in: "general")
        let poll = world.ask("\(path)/events?since=\(open.text("cursor"))&wait=5")
        #expect(poll.events == ["channels.updated general"])
      }
    ),
    (
      "clear action",
      { world in
        let (path, open) = chat(world)
        try world.join("alice", "general", floor: 485, name: "General", last: 500)
        let poll = world.ask("\(path)/events?since=\(open.text("cursor"))&wait=5")
        #expect(poll.events.contains("messages.replaced 49 50"))
      }
    ),
    (
      "reset the viewpoint timestamp",
      { world in
        let (path, _) = chat(world)
        #expect(world.post("\(path)/reset", #"{"starting_point":200}"#).messages.contains(20))
      }
    ),
    (
      "everything of one user, event by event",
      { world in
        let cursor = world.ask("/v1/events").text("cursor")
        try world.send(51, in: "general")
        try world.send(51, in: "general", text: "changed", updatedAt: 9_999)
        try world.delete(50, in: "general")
        try world.leave("alice", "general")
        try world.join("alice", "other", name: "Other")
        let events = world.ask("/v1/events?since=\(cursor)&wait=5").events
        #expect(events.contains("channel.left general") && events.contains("channel.joined other"))
        #expect(!events.contains { $0.hasPrefix("message.") }, "what was left is nobody's any more")
      }
    ),
  ]

  // MARK: Caches made by hand

  private static let byHand: [(String, Exercise)] = [
    (
      "a table of messages and one of channels",
      { world in
        let file = open("\(world.directory)/perch.db", O_RDONLY)
        defer { close(file) }
        var head = [UInt8](repeating: 0, count: 15)
        #expect(read(file, &head, head.count) == head.count)
        #expect(String(decoding: head, as: UTF8.self) == "SQLite format 3")
        let schema = try Repository.text("docs/schema.md")
        #expect(schema.contains("`message`") && schema.contains("`channel`"))
      }
    )
  ]
}

/// Files of this repository.
enum Repository {
  /// The text of a file, by its path from the top.
  static func text(_ path: String, from here: String = #filePath) throws -> String {
    let top = here.split(separator: "/").dropLast(4).joined(separator: "/")
    guard let file = fopen("/\(top)/\(path)", "re") else { throw ViewError.notFound }
    defer { fclose(file) }
    var text: [UInt8] = []
    var room = [UInt8](repeating: 0, count: 65_536)
    while case let count = fread(&room, 1, room.count, file), count > 0 { text += room[..<count] }
    return String(decoding: text, as: UTF8.self)
  }
}
