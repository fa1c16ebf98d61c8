import ChatModel
import JSON
import Platform
import TestSupport
import Testing

@testable import ChatCache

/// Which messages a listing removes, and which it must not.
@Suite struct StoringTests {
  private static let url = ChannelURL("general")

  private func message(_ id: Int64, edition: Int64 = 0, parent: Int64? = nil) -> MessageRecord {
    ChannelWithMessages.message(
      id, at: id * 10, updatedAt: edition, parent: parent, text: "edition \(edition)")
  }

  private func ids(_ world: ChannelWithMessages) throws -> [Int64] {
    try world.cache.read { reader in
      try reader.db.all("SELECT message_id FROM message ORDER BY created_at, message_id") { $0.int64(0) }
    }
  }

  private func newest(_ ids: [Int64], askedAt: Int64, isWhole: Bool = true) -> MessageListing {
    MessageListing(
      window: MessageWindow(.newest, older: 100, newer: 0), rows: ids.map { message($0) }, isWhole: isWhole,
      askedAt: askedAt)
  }

  /// The doubted messages, newest first.
  private func doubted(_ world: ChannelWithMessages) throws -> [Int64] {
    let url = Self.url
    return try world.cache.read { try $0.doubted(in: url, limit: 100) }.map(\.position.messageID)
  }

  @Test(
    "B27: a listing casts doubt on what it lacks, and on nothing outside its range; the upstream's word decides"
  )
  func doubts() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    try world.listNewest((1...8).map { message($0) }, limit: 100)
    let mark = world.cache.cursor.sequence
    let around = MessageListing(
      window: MessageWindow(.time(40), older: 2, newer: 2), rows: [3, 4, 6].map { message($0) },
      isWhole: true,
      askedAt: mark)
    try world.list(around)
    #expect(try ids(world) == [1, 2, 3, 4, 5, 6, 7, 8] && doubted(world) == [5])
    func told() throws -> [String?] {
      try world.cache.read { try $0.commonChanges(in: ChannelKey(1), after: mark, limit: 10) }
        .filter { $0.change.kind == .messageDeleted }.map(\.change.reference)
    }
    #expect(try told().isEmpty)
    let url = Self.url
    try world.cache.write { try $0.delete(message: 5, in: url, .messageDeleted) }
    #expect(try ids(world) == [1, 2, 3, 4, 6, 7, 8] && told() == ["5"] && doubted(world).isEmpty)
    // A page requested before proves nothing; a later page puts the message in doubt; a later answer brings
    // it back.
    try world.list(newest([1, 2, 3, 4, 5, 6, 7, 8], askedAt: mark))
    #expect(try ids(world) == [1, 2, 3, 4, 6, 7, 8] && doubted(world).isEmpty)
    try world.list(newest([1, 2, 3, 4, 5, 6, 7, 8], askedAt: world.cache.cursor.sequence))
    #expect(try ids(world) == [1, 2, 3, 4, 6, 7, 8] && doubted(world) == [5])
    let (back, now) = (message(5), world.cache.cursor.sequence)
    try world.cache.write { try $0.store(back, in: url, .messageFill, askedAt: now) }
    #expect(try ids(world) == [1, 2, 3, 4, 5, 6, 7, 8] && doubted(world).isEmpty)
  }

  @Test(
    "B31: where a listing overlooked a message between its rows, its position is listed again; not beyond them"
  )
  func overlooked() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    let url = Self.url
    func unverified() throws -> [ClosedRange<Position>] {
      try world.cache.read { try $0.coverage(of: ChannelKey(1)).unverified }
    }
    try world.listNewest((1...8).map { message($0) }, limit: 100)
    // The page lacks 5, which is between its rows, and 1 and 8, which are beyond them.
    try world.list(newest([2, 3, 4, 6, 7], askedAt: world.cache.cursor.sequence))
    #expect(try doubted(world) == [8, 5])
    for id in [8, 5] as [Int64] {
      let asked = world.cache.cursor.sequence
      let back = message(id)
      try world.cache.write { try $0.store(back, in: url, .messageFill, askedAt: asked) }
    }
    #expect(try doubted(world).isEmpty && ids(world) == Array(1...8))
    #expect(try unverified() == [message(5).position...message(5).position])
    try world.list(newest(Array(1...8), askedAt: world.cache.cursor.sequence))
    #expect(try unverified().isEmpty)
  }

  @Test("B27: an empty or shrunken page takes nothing away, and does not say where the newest end is")
  func shrunken() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    try world.listNewest((1...8).map { message($0) }, limit: 100)
    let before = try world.cache.read { try $0.coverage(of: ChannelKey(1)) }
    for rows in [[], [1], [1, 2, 3]] as [[Int64]] {
      try world.list(newest(rows, askedAt: world.cache.cursor.sequence))
      #expect(try ids(world) == [1, 2, 3, 4, 5, 6, 7, 8])
    }
    #expect(
      try world.cache.read { try $0.coverage(of: ChannelKey(1)) } == before, "nor was the end confirmed")
    #expect(try doubted(world) == [8, 7, 6, 5, 4], "the last page showed 1, 2 and 3")
    try world.list(newest([1, 2, 3, 4, 5, 6, 7, 8], askedAt: world.cache.cursor.sequence))
    #expect(try doubted(world).isEmpty)
  }

  @Test("B27: a second listing, asked for to settle it, takes away without a tombstone")
  func settles() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    try world.listNewest((1...4).map { message($0) }, limit: 100)
    try world.list(newest([1, 2, 4], askedAt: world.cache.cursor.sequence))
    var context = ListingContext(source: .messageFill, generation: 1)
    context.settlesDoubts = true
    let listing = newest([1, 2, 4], askedAt: world.cache.cursor.sequence)
    let (settling, url) = (context, Self.url)
    try world.cache.write { try $0.store([listing], in: url, settling) }
    #expect(try ids(world) == [1, 2, 4] && doubted(world).isEmpty)
    try world.list(newest([1, 2, 3, 4], askedAt: world.cache.cursor.sequence))
    #expect(try ids(world) == [1, 2, 3, 4], "a newer answer that shows it wins")
  }

  @Test("B27: a second listing that lacks a deleted message ends the doubt of it")
  func settlesUnstored() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    try world.listNewest((1...4).map { message($0) }, limit: 100)
    let url = Self.url
    try world.cache.write { try $0.delete(message: 3, in: url, .messageDeleted) }
    try world.list(newest([1, 2, 3, 4], askedAt: world.cache.cursor.sequence))
    #expect(try ids(world) == [1, 2, 4] && doubted(world) == [3])
    var context = ListingContext(source: .messageFill, generation: 1)
    context.settlesDoubts = true
    let listing = newest([1, 2, 4], askedAt: world.cache.cursor.sequence)
    let settling = context
    #expect(try !world.cache.write { try $0.store([listing], in: url, settling) })
    #expect(try ids(world) == [1, 2, 4] && doubted(world).isEmpty)
  }

  @Test("B27: what a listing lacks between two items that could not be read is doubted")
  func doubtsInRuns() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    try world.listNewest((1...9).map { message($0) }, limit: 100)
    let before = try world.cache.read { try $0.coverage(of: ChannelKey(1)) }
    var listing = newest([1, 3, 5, 7], askedAt: world.cache.cursor.sequence, isWhole: false)
    listing.breaks = [2]
    try world.list(listing)
    #expect(try doubted(world) == [9, 8, 6], "4 is where an item could not be read, and 1 may be cut")
    #expect(try world.cache.read { try $0.coverage(of: ChannelKey(1)).tail } == before.tail)
  }

  @Test("B31: where a listing lacks more than is doubted at once, it is asked for again")
  func tooMany() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    let last = Int64(CacheWriter.mostDoubted + 3)
    try world.listNewest((1...last).map { message($0) }, limit: 2_000)
    try world.list(newest([1, last], askedAt: world.cache.cursor.sequence))
    func isUnverified() throws -> Bool {
      try !world.cache.read { try $0.coverage(of: ChannelKey(1)).unverified }.isEmpty
    }
    #expect(try isUnverified())
    let url = Self.url
    for id in 2..<Int64(5) { try world.cache.write { try $0.delete(message: id, in: url, .messageDeleted) } }
    try world.list(newest([1, last], askedAt: world.cache.cursor.sequence))
    #expect(try !isUnverified())
  }

  @Test("B24: between the rows of a listing a claim ends at what could not be read")
  func breaks() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    var listing = newest([1, 2, 5, 6, 9], askedAt: world.cache.cursor.sequence, isWhole: false)
    listing.breaks = [0, 2, 4]
    try world.list(listing)
    let covered = try world.cache.read { try $0.coverage(of: ChannelKey(1)) }.segments.filter(\.isCovered)
    #expect(
      covered.map(\.range) == [
        message(2).position...message(2).position, message(5).position...message(6).position,
        message(9).position...message(9).position,
      ], "the limit may have cut the millisecond of the first row")
    #expect(try world.page(MessagePageQuery()).ids == [9] && !world.page(MessagePageQuery()).isComplete)
    listing.rows.swapAt(0, 1)
    let fresh = try ChannelWithMessages()
    defer { fresh.cache.close() }
    try fresh.list(listing)
    func isProven(_ world: ChannelWithMessages) throws -> Bool {
      try world.cache.read { try $0.coverage(of: ChannelKey(1)) }.segments.contains {
        $0.content == .covered(isUnverified: false)
      }
    }
    #expect(try !isProven(fresh), "in another order nothing stands beside anything")
    #expect(try !fresh.page(MessagePageQuery()).isComplete)
  }

  @Test("B24, B31: new rows in another order beside unreadable items are no complete page of a channel")
  func breaksInTail() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    func isComplete(_ rows: Int) throws -> Bool {
      let link = LinkStatus(.online, generation: 1)
      return try world.page(MessagePageQuery(.newest, limit: rows), link: link).isComplete
    }
    try world.listNewest([message(1), message(2)], limit: 100)
    #expect(try isComplete(1))
    var listing = newest([1, 2, 9, 6], askedAt: world.cache.cursor.sequence, isWhole: false)
    listing.breaks = [3]
    try world.list(listing)
    #expect(try world.page(MessagePageQuery()).ids == [1, 2, 6, 9])
    #expect(try !isComplete(3), "others may have come, too")
    try world.listNewest([1, 2, 6, 7, 9].map { message($0) }, limit: 100)
    #expect(try world.page(MessagePageQuery()).ids == [1, 2, 6, 7, 9])
    #expect(try isComplete(4))
  }

  @Test(
    "B27: spared is what changed here after the listing was asked for, and all where an item was unreadable")
  func spares() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    try world.listNewest((1...4).map { message($0) }, limit: 100)
    let asked = world.cache.cursor.sequence
    let (edited, new, url) = (message(2, edition: 5), message(5), Self.url)
    try world.cache.write { try $0.store(edited, in: url, .messageUpdated) }
    try world.cache.write { try $0.store(new, in: url, .messageReceived) }
    try world.list(newest([1], askedAt: asked, isWhole: false))
    #expect(try ids(world) == [1, 2, 3, 4, 5], "absence proves nothing where an item was left out")
    try world.list(newest([1], askedAt: asked))
    #expect(try doubted(world) == [4, 3], "2 and 5 are newer than the question")
    try world.list(newest([1], askedAt: world.cache.cursor.sequence))
    #expect(try doubted(world) == [5, 4, 3, 2])
  }

  @Test("B25: a listing that newer messages overtook says nothing of the gap that came to be meanwhile")
  func overtaken() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    try world.listNewest((1...4).map { message($0) }, limit: 100)
    let asked = world.cache.cursor.sequence
    try world.listNewest((20...21).map { message($0) }, limit: 2)
    func gaps() throws -> [ClosedRange<Position>] {
      try world.cache.read { try $0.coverage(of: ChannelKey(1)).gaps.map(\.range) }
    }
    let before = try gaps()
    #expect(before.contains { $0.contains(Position(createdAt: 100, messageID: 10)) })
    try world.list(newest([1, 2, 3, 4], askedAt: asked))
    #expect(try gaps() == before)
    #expect(try ids(world) == [1, 2, 3, 4, 20, 21])
  }

  @Test(
    "B24, B35: a listing with an item that could not be read is served, and proves neither all nor the end")
  func unreadable() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    func doubted() throws -> [ClosedRange<Position>] {
      try world.cache.read { try $0.coverage(of: ChannelKey(1)).unverified }
    }
    try world.list(newest([1, 2, 4], askedAt: world.cache.cursor.sequence, isWhole: false))
    let page = try world.page(MessagePageQuery())
    #expect(page.ids == [1, 2, 4] && !page.hasNext && !page.isComplete)
    #expect(try doubted() == [message(1).position...message(4).position])
    try world.list(newest([1, 2, 3, 4], askedAt: world.cache.cursor.sequence))
    #expect(try doubted().isEmpty && world.page(MessagePageQuery()).ids == [1, 2, 3, 4])
    // The last row is unreadable, so the newest end is still unknown.
    let fresh = try ChannelWithMessages()
    defer { fresh.cache.close() }
    var cut = newest([1, 2], askedAt: fresh.cache.cursor.sequence, isWhole: false)
    cut.isEndRead = false
    try fresh.list(cut)
    let url = Self.url
    let line = try fresh.cache.read { try $0.line(of: url) }
    #expect(line?.newest == message(2).position && line?.reachedEnd == false)
    let end = try fresh.page(MessagePageQuery())
    #expect(end.ids == [1, 2] && !end.isComplete, "the rows are served, and not said to be all")
  }

  @Test("a message whose time changed upstream is not the channel's last at its old time")
  func moved() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    try world.listNewest((1...4).map { message($0) }, limit: 100)
    let (moved, url) = (ChannelWithMessages.message(4, at: 15, updatedAt: 1), Self.url)
    try world.cache.write { try $0.store(moved, in: url, .messageUpdated) }
    let last = try world.cache.read { try $0.lastMessage(of: ChannelKey(1)) }
    #expect(last == message(3).position)
    // The channel's object with that message does not bring the old time back.
    let told = ChannelWithMessages.channel(url, last: .message(message(4)))
    let alice = world.alice
    try world.cache.write { _ = try $0.store([told], of: alice, .refresh(.channelRefresh)) }
    let report = try world.cache.check()
    #expect(report.findings.filter { $0.fault == .message }.isEmpty, "\(report.findings)")
  }

  @Test("B21: a message from the future stays until the upstream is asked for it by its id")
  func future() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    let (url, now) = (Self.url, Clock.system.wallMilliseconds())
    try world.listNewest((1...4).map { message($0) }, limit: 100)
    func store(_ record: MessageRecord, askedAt: Int64) throws {
      try world.cache.write { try $0.store(record, in: url, .messageFill, askedAt: askedAt) }
    }
    func edition() throws -> (at: Int64?, updatedAt: Int64?, notes: Int?) {
      try world.cache.read { reader in
        let row = try reader.db.first("SELECT created_at, updated_at FROM message WHERE message_id = 4") {
          ($0.int64(0), $0.int64(1))
        }
        return (row?.0, row?.1, try reader.db.first("SELECT count(*) FROM webhook_note") { $0.int(0) })
      }
    }
    let before = world.cache.cursor.sequence
    let tomorrow = now + 86_400_000
    try store(ChannelWithMessages.message(4, at: tomorrow, updatedAt: tomorrow), askedAt: before)
    #expect(try edition() == (tomorrow, tomorrow, 0))
    try store(message(4, edition: 50), askedAt: before)
    #expect(try edition() == (tomorrow, tomorrow, 0), "an answer to an older request says nothing")
    let rows = (1...3).map { message($0) } + [message(4, edition: 50)]
    let after = world.cache.cursor.sequence
    try world.list(
      MessageListing(
        window: MessageWindow(.newest, older: 100, newer: 0), rows: rows, isWhole: true, askedAt: after))
    #expect(try edition() == (tomorrow, tomorrow, 1), "a listing may be behind: the message is asked for")
    try store(message(4, edition: 50), askedAt: after)
    let healed = try edition()
    #expect(healed.at == 40 && healed.updatedAt == 50)
    #expect(try world.cache.read { try $0.lastMessage(of: ChannelKey(1)) } == message(4).position)
    // A clock that is behind by less than an hour is no reason to take an edit back.
    let soon = now + 1_800_000
    try store(message(4, edition: soon), askedAt: world.cache.cursor.sequence)
    try store(message(4, edition: 60), askedAt: world.cache.cursor.sequence)
    #expect(try edition().updatedAt == soon)
    let report = try world.cache.check()
    #expect(report.findings.filter { $0.fault == .message }.isEmpty, "\(report.findings)")
  }

  @Test("B27: replies are spared where the upstream is not known to list them")
  func replies() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    try world.listNewest([message(1), message(2, parent: 1), message(3)], limit: 100)
    let (listing, url) = (newest([1], askedAt: world.cache.cursor.sequence), Self.url)
    var context = ListingContext(source: .apiResult, generation: 1)
    context.listsReplies = false
    let blind = context
    try world.cache.write { try $0.store([listing], in: url, blind) }
    #expect(try doubted(world) == [3])
    try world.list(listing)
    #expect(try doubted(world) == [3, 2])
  }

  @Test("B47: a pending edit stands beside the message whatever rows come, until it is answered")
  func pendingEdit() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    try world.listNewest((1...3).map { message($0) }, limit: 100)
    var request = OutboxTableTests.request("e", .edit, #"{"message":"mine"}"#)
    request.target = 2
    let asked = request
    _ = try world.cache.accept { try $0.accept(asked, in: OutboxTableTests.laneKey) }
    #expect(try pending(2, world) == #"{"pending_edit":{"request_id":"e","changes":{"message":"mine"}}}"#)
    for edition in [0, 4, 2] as [Int64] {
      let (row, url) = (message(2, edition: edition), Self.url)
      try world.cache.write { try $0.store(row, in: url, .messageUpdated) }
      try world.listNewest((1...3).map { message($0, edition: edition) }, limit: 100)
      #expect(try pending(2, world).contains("mine"))
    }
    #expect(try text(2, world).contains("edition 4"), "the confirmed message is the newest the upstream told")
    try world.cache.accept { writer in
      let moment = try writer.outboxMoment()
      try writer.changeLane(OutboxTableTests.laneKey) { lane in
        guard lane.dispatch(1, .send, now: moment) else { return [] }
        return lane.finish(1, .send, .success(message: 2), now: moment, random: 1)
      }
    }
    #expect(try pending(2, world) == "{}")
  }

  private func pending(_ id: Int64, _ world: ChannelWithMessages) throws -> String {
    try world.cache.read { reader in
      let fields = try reader.fragments(in: OutboxTableTests.laneKey, of: id)[id] ?? []
      return "{" + String(decoding: fields, as: UTF8.self) + "}"
    }
  }

  private func text(_ id: Int64, _ world: ChannelWithMessages) throws -> String {
    try world.cache.read { reader in
      try reader.db.first("SELECT body FROM message WHERE message_id = ?1") {
        $0.bind(1, id)
      } _: {
        $0.string(0)
      } ?? ""
    }
  }

  private func parts(_ world: ChannelWithMessages) throws -> [String] {
    try world.cache.read { reader in
      try reader.db.all("SELECT reactions, thread_info FROM message WHERE message_id = 1") {
        ["\($0.stringOrNil(0) ?? "none")", "\($0.stringOrNil(1) ?? "none")"]
      }
    }.first ?? []
  }

  private static func reaction(_ key: String, _ time: Int64) -> String {
    #"{"key":"\#(key)","user_ids":["bob"],"updated_at":\#(time)}"#
  }

  private static func thread(_ replies: Int, _ time: Int64) -> String {
    #"{"reply_count":\#(replies),"updated_at":\#(time)}"#
  }

  @Test(
    "B27: a listing that is behind does not take reactions or a thread back; where that is unclear it is asked",
    arguments: [
      // stored reactions and thread, listed ones, whether these are stored, whether the message is asked for
      (["[\(reaction("a", 5))]", thread(1, 5)], ["[\(reaction("a", 5))]", thread(0, 9)], true, false),
      (["[]", thread(0, 9)], ["[]", thread(1, 5)], false, false),
      (["[\(reaction("a", 5))]", thread(0, 9)], ["[]", thread(1, 5)], false, false),
      (["[\(reaction("a", 5))]", thread(1, 5)], ["[]", thread(2, 9)], true, false),
      (["[]", thread(1, 5)], ["[\(reaction("a", 7))]", thread(1, 5)], false, true),
      (["[\(reaction("a", 7))]", thread(1, 5)], ["[]", thread(1, 5)], false, true),
      (["[\(reaction("b", 9))]", "{}"], ["[\(reaction("a", 7)),\(reaction("b", 9))]", "{}"], false, true),
      (["[]", "{}"], ["[]", thread(1, 5)], false, true),
      (["[]", thread(1, 5)], ["[]", "{}"], false, true),
    ])
  func behind(stored: [String], listed: [String], isTaken: Bool, isAsked: Bool) throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    func message(_ parts: [String]) -> MessageRecord {
      var message = self.message(1)
      (message.reactions, message.threadInfo) = (Array(parts[0].utf8), Array(parts[1].utf8))
      return message
    }
    try world.listNewest([message(stored)], limit: 100)
    try world.listNewest([message(listed)], limit: 100)
    #expect(try parts(world) == (isTaken ? listed : stored))
    let notes = try world.cache.read { try $0.webhookNotes() }
    #expect(notes.map(\.messageID) == (isAsked ? [1] : []))
    // A message that the upstream returns by its id, or in its changelog, is stored as it is.
    let (named, url, now) = (message(listed), Self.url, world.cache.cursor.sequence)
    try world.cache.write { try $0.store(named, in: url, .messageFill, askedAt: now) }
    #expect(try parts(world) == listed)
    let changes = UpstreamChanges<MessageRecord, Int64>(
      updated: [message(stored)], deleted: [], hasMore: false, unreadable: 0)
    // A changelog requested before the row changed has no effect.
    if !isTaken {
      try world.cache.write { _ = try $0.store(changes, in: url, .messageChangelog, askedAt: now) }
      #expect(try parts(world) == listed)
    }
    try world.cache.write { _ = try $0.store(changes, in: url, .messageChangelog) }
    #expect(try parts(world) == stored)
  }

  @Test("B34: the commit that stores a noted message deletes its note, and no other one")
  func answersNotes() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    let url = Self.url
    let notes = (1...3 as ClosedRange<Int64>).map {
      WebhookNote(kind: .newest, channel: url, messageID: $0, source: .messageReceived)
    }
    let other = WebhookNote(kind: .message, channel: url, messageID: 1, source: .messageUpdated)
    try world.cache.write { _ = try $0.note(notes + [other]) }
    // The note of the second message is stored again after it was read.
    let read = try world.cache.read { try $0.webhookNotes(in: url) }
    try world.cache.write { _ = try $0.note([notes[1]]) }
    var context = ListingContext(source: .messageReceived, generation: 1)
    context.answers = read.filter { $0.kind == .newest }
    let (listing, answering) = (newest([1, 2], askedAt: world.cache.cursor.sequence), context)
    try world.cache.write { _ = try $0.store([listing], in: url, answering) }
    let left = try world.cache.read { try $0.webhookNotes(in: url) }
    #expect(left.map(\.messageID).sorted() == [1, 2, 3] && left.contains { $0.kind == .message })
  }
}
