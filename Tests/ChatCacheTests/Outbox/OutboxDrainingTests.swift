import ChatModel
import JSON
import Platform
import Testing

@testable import ChatCache

/// Steps of a lane in the database: the jobs that they begin, and the outcomes that they store.
@Suite struct OutboxDrainingTests {
  /// Alice's lane in `general`, with a clock that the test moves.
  private struct Lane {
    let world: ChannelWithMessages
    let wall: Guarded<Int64>
    let name: OutboxLaneName

    init(at moment: Int64 = 1_000_000) throws {
      let wall = Guarded(moment)
      self.wall = wall
      let clock = Clock(
        wallMilliseconds: { wall.withLock { $0 } },
        monotonicNanoseconds: Clock.system.monotonicNanoseconds)
      world = try ChannelWithMessages(clock: clock)
      let rows = [
        ChannelWithMessages.message(1, at: 10, sender: "bob"),
        ChannelWithMessages.message(2, at: 20, kind: .file, sender: "alice"),
      ]
      try world.listNewest(rows, limit: 100)
      name = OutboxLaneName(user: world.alice, channel: world.url)
    }

    var cache: Cache { world.cache }
    var laneKey: OutboxLaneKey { OutboxLaneKey(user: UserKey(1), channel: world.url) }
    var rows: [OutboxRow] { get throws { try cache.read { try $0.lane(laneKey).rows } } }

    func accept(
      _ name: String, _ kind: OutboxRow.Kind = .message, target: Int64? = nil, unsent: String? = nil,
      _ params: String = #"{"message":"hello"}"#, isAdmin: Bool = false, blocks: Bool = false
    ) throws -> Accepted {
      var request = OutboxTableTests.request(name, kind, params)
      request.target = target
      request.isAdmin = isAdmin
      request.blocksOnFailure = blocks
      request.unsentTarget = unsent.flatMap { RequestID($0) }
      let asked = request
      return try cache.accept {
        try $0.accept(asked, of: world.alice, in: world.url, OutboxPolicy())
      }
    }

    func advance(
      after ended: EndedOutboxJob? = nil, policy: OutboxPolicy = OutboxPolicy()
    ) throws -> LaneProgress {
      let name = name
      return try cache.accept { try $0.advance(name, after: ended, policy, random: 500) }
    }

    /// Sends the first row with an uncertain outcome. Returns the look that begins a minute later.
    func sendUncertainly() throws -> OutboxJob {
      let sent = try #require(try advance().begun)
      _ = try advance(after: EndedOutboxJob(sent, .uncertain))
      wall.withLock { $0 += 60_000 }
      return try #require(try advance().begun)
    }
  }

  private static func record(
    _ id: Int64, request: String, sender: String, text: String = "hello"
  ) -> MessageRecord {
    var record = ChannelWithMessages.message(id, at: id * 10, sender: sender, text: text)
    record.requestID = request
    return record
  }

  @Test("B43: a row that a failed commit left under way is looked for, and blocks nothing")
  func orphaned() throws {
    let lane = try Lane()
    defer { lane.cache.close() }
    _ = try lane.accept("r1")
    #expect(try lane.advance().begun?.job == .send)
    #expect(try lane.rows.map(\.state) == [.inFlight])
    guard case .look = try lane.advance().begun?.job else {
      Issue.record("nothing is looked for: \(try lane.rows)")
      return
    }
    #expect(try lane.rows.map(\.state) == [.uncertain])
  }

  @Test("B1 B39: a look takes no message of somebody else, whatever request it names")
  func sameName() throws {
    let lane = try Lane()
    defer { lane.cache.close() }
    _ = try lane.accept("r1")
    let look = try lane.sendUncertainly()
    let bobs = Self.record(30, request: "r1", sender: "bob")
    _ = try lane.advance(after: EndedOutboxJob(look, .absent, messages: [bobs]))
    #expect(try lane.rows.map(\.state) == [.uncertain])
    lane.wall.withLock { $0 += 60_000 }
    let again = try #require(try lane.advance().begun)
    let own = Self.record(31, request: "r1", sender: "alice")
    _ = try lane.advance(after: EndedOutboxJob(again, .absent, messages: [bobs, own]))
    #expect(try lane.rows.isEmpty)
    let status = try lane.cache.read { try $0.status(of: RequestID("r1")!, of: UserKey(1)) }
    #expect(status == RequestStatus(end: "succeeded", message: 31, isMessage: true))
  }

  @Test("B39: a look that could not finish takes the message it did find, and else goes on where it ended")
  func unfinished() throws {
    let lane = try Lane()
    defer { lane.cache.close() }
    _ = try lane.accept("r1")
    let look = try lane.sendUncertainly()
    let position = Position(createdAt: 400, messageID: 40)
    _ = try lane.advance(after: EndedOutboxJob(look, .uncertain, searched: position))
    #expect(try lane.rows.map(\.anchor) == [position])
    lane.wall.withLock { $0 += 60_000 }
    let again = try #require(try lane.advance().begun)
    #expect(again.job == .look(after: position))
    let own = Self.record(50, request: "r1", sender: "alice")
    _ = try lane.advance(after: EndedOutboxJob(again, .uncertain, messages: [own]))
    #expect(try lane.rows.isEmpty)
  }

  @Test("B43: tries go on by the wall clock after it was set back, and expiry does not")
  func clockSetBack() throws {
    let day: Int64 = 86_400_000
    let lane = try Lane(at: 10 * day)
    defer { lane.cache.close() }
    _ = try lane.accept("r1")
    let sent = try #require(try lane.advance().begun)
    let wait = try lane.advance(after: EndedOutboxJob(sent, .linkFault(code: "x"))).nextTryIn
    #expect(wait == 501)
    lane.wall.withLock { $0 = 9 * day }
    #expect(try lane.advance().begun?.job == .send, "it waits for no clock")
    let next = try #require(try lane.rows.first)
    _ = try lane.advance(
      after: EndedOutboxJob(try #require(OutboxJob(next)), .linkFault(code: "x")))
    lane.wall.withLock { $0 += 2_000 }
    #expect(try lane.advance().begun?.job == .send)
    #expect(try lane.rows.first?.expiresAt == 13 * day)
  }

  @Test("B58 B67: a row waits until the user's channels are listed, and fails if its channel is none of them")
  func unlisted() throws {
    let lane = try Lane()
    defer { lane.cache.close() }
    _ = try lane.accept("r1")
    try lane.cache.write { try $0.clearAll(withUnsent: false) }
    let waits = try lane.advance()
    #expect(waits.begun == nil && waits.nextTryIn == 1_000)
    #expect(try lane.rows.map(\.state) == [.waiting])
    #expect(try lane.rows.map(\.attempts) == [0])
    try lane.cache.write { try $0.endListing(of: lane.world.alice) }
    lane.wall.withLock { $0 += 1_000 }
    #expect(try lane.advance().begun == nil)
    #expect(try lane.rows.map(\.errorCode) == [OutboxRow.notAMember])
  }

  @Test("B46: an edit whose message left the cache is sent, as an edit of its kind; a deleted one is not")
  func targetLeftTheCache() throws {
    let lane = try Lane()
    defer { lane.cache.close() }
    _ = try lane.accept("e1", .edit, target: 2)
    let url = lane.world.url
    try lane.cache.write { try $0.clear(url) }
    let begun = try #require(try lane.advance().begun)
    #expect(begun.kind == .edit && begun.targetKind == .file && begun.target == 2)
    _ = try lane.advance(after: EndedOutboxJob(begun, .success(message: 2)))
    #expect(try lane.rows.isEmpty)
    try lane.world.listNewest([ChannelWithMessages.message(2, at: 20, sender: "alice")], limit: 100)
    _ = try lane.accept("e2", .edit, target: 2)
    try lane.cache.write { try $0.delete(message: 2, in: url, .messageDeleted) }
    #expect(try lane.advance().begun == nil)
    #expect(try lane.rows.isEmpty)
  }

  @Test("B37: a message that was edited where it waits keeps its request")
  func editedInTheOutbox() throws {
    let lane = try Lane()
    defer { lane.cache.close() }
    _ = try lane.accept("r1")
    #expect(try lane.accept("e1", .edit, unsent: "r1", #"{"message":"better"}"#) == .changed(1))
    func status(_ name: String) throws -> RequestStatus? {
      try lane.cache.read { try $0.status(of: RequestID(name)!, of: UserKey(1)) }
    }
    #expect(try status("r1") == RequestStatus(row: 1, isMessage: true))
    #expect(try status("e1") == RequestStatus(end: "merged"))
    lane.wall.withLock { $0 += 8 * 86_400_000 }
    #expect(try lane.cache.accept { try $0.forgetRequests() } == 1, "the edit's alone")
    #expect(try status("r1") == RequestStatus(row: 1, isMessage: true))
  }

  @Test(
    "B46: an edit that went into a message after a copy of it left is made upstream where that copy arrived",
    arguments: [true, false])
  func editedAfterFirstCopy(isAnswer: Bool) throws {
    let lane = try Lane()
    defer { lane.cache.close() }
    var policy = OutboxPolicy()
    policy.deduplicates = true
    _ = try lane.accept("r1")
    let sent = try #require(try lane.advance(policy: policy).begun)
    #expect(try lane.accept("e1", .edit, unsent: "r1", #"{"message":"better"}"#) == .row(2))
    _ = try lane.advance(after: EndedOutboxJob(sent, .uncertain), policy: policy)
    lane.wall.withLock { $0 += 60_000 }
    let look = try #require(try lane.advance(policy: policy).begun)
    let again = try #require(
      try lane.advance(after: EndedOutboxJob(look, .absent), policy: policy).begun)
    #expect(again.params == Array(#"{"message":"better"}"#.utf8))
    let first = Self.record(30, request: "r1", sender: "alice")
    if isAnswer {
      let url = lane.world.url
      try lane.cache.write { _ = try $0.store(first, in: url, .messageReceived) }
    }
    let answer = EndedOutboxJob(again, .success(message: 30), messages: [first])
    let edit = try #require(try lane.advance(after: answer, policy: policy).begun)
    #expect(edit.kind == .edit && edit.target == 30)
    #expect(edit.params == Array(#"{"message":"better"}"#.utf8))
    let edited = Self.record(30, request: "r1", sender: "alice", text: "better")
    _ = try lane.advance(after: EndedOutboxJob(edit, .success(message: 30), messages: [edited]))
    #expect(try lane.rows.isEmpty)
  }

  /// A message that was sent, edited and sent again, both times with an uncertain outcome.
  private func sentTwice(
    _ lane: Lane, edit: String = #"{"message":"better"}"#, isAdmin: Bool = false
  ) throws -> OutboxJob {
    _ = try lane.accept("r1", isAdmin: isAdmin)
    let sent = try #require(try lane.advance(policy: Self.deduplicating).begun)
    _ = try lane.accept("e1", .edit, unsent: "r1", edit)
    _ = try lane.advance(after: EndedOutboxJob(sent, .uncertain), policy: Self.deduplicating)
    lane.wall.withLock { $0 += 60_000 }
    let look = try #require(try lane.advance(policy: Self.deduplicating).begun)
    return try #require(
      try lane.advance(after: EndedOutboxJob(look, .absent), policy: Self.deduplicating).begun)
  }

  private static let deduplicating: OutboxPolicy = {
    var policy = OutboxPolicy()
    policy.deduplicates = true
    return policy
  }()

  @Test("B46: the edit that an answered first copy lacks goes before edits that were asked for later")
  func editsInOrder() throws {
    let lane = try Lane()
    defer { lane.cache.close() }
    let again = try sentTwice(lane)
    _ = try lane.accept("e2", .edit, unsent: "r1", #"{"message":"best"}"#)
    let first = Self.record(30, request: "r1", sender: "alice")
    var edits: [String] = []
    var ended = EndedOutboxJob(again, .success(message: 30), messages: [first])
    while let edit = try lane.advance(after: ended).begun, edits.count < 3 {
      #expect(edit.kind == .edit && edit.target == 30)
      edits.append(String(decoding: edit.params, as: UTF8.self))
      ended = EndedOutboxJob(edit, .success(message: 30))
    }
    #expect(edits == [#"{"message":"better"}"#, #"{"message":"best"}"#])
  }

  @Test("B46: what somebody changed upstream since the edit was sent is not overwritten by it")
  func changedElsewhere() throws {
    let lane = try Lane()
    defer { lane.cache.close() }
    let again = try sentTwice(lane)
    var record = Self.record(30, request: "r1", sender: "alice", text: "from the phone")
    record.updatedAt = record.createdAt + 5
    let answer = EndedOutboxJob(again, .success(message: 30), messages: [record])
    #expect(try lane.advance(after: answer).begun == nil)
    #expect(try lane.rows.isEmpty)
  }

  @Test("B46: an edit of metadata alone is made where a first copy without it may have arrived")
  func metadataEdited() throws {
    let lane = try Lane()
    defer { lane.cache.close() }
    let again = try sentTwice(lane, edit: #"{"metaarray":[{"key":"k","value":["v"]}]}"#)
    let first = Self.record(30, request: "r1", sender: "alice")
    let edit = try #require(
      try lane.advance(after: EndedOutboxJob(again, .success(message: 30), messages: [first])).begun)
    let params = String(decoding: edit.params, as: UTF8.self)
    #expect(edit.kind == .edit && params.contains("metaarray"))
  }

  @Test("B46, B67: the edit that is made has the rights and the time of the message it belongs to")
  func rightsOfTheEdit() throws {
    let lane = try Lane()
    defer { lane.cache.close() }
    let again = try sentTwice(lane, isAdmin: true)
    let expiresAt = try lane.rows.first?.expiresAt
    let first = Self.record(30, request: "r1", sender: "alice")
    _ = try lane.advance(after: EndedOutboxJob(again, .success(message: 30), messages: [first]))
    let edit = try #require(try lane.rows.first)
    #expect(edit.kind == .edit && edit.isAdmin && edit.expiresAt == expiresAt)
  }

  @Test("B35, B43: a row that the upstream asked to wait for longer than any retry waits so long")
  func longPause() throws {
    let lane = try Lane()
    defer { lane.cache.close() }
    _ = try lane.accept("r1")
    let sent = try #require(try lane.advance().begun)
    let end = lane.wall.withLock { $0 } + 75_000
    #expect(try lane.advance(after: EndedOutboxJob(sent, .wait(until: end))).begun == nil)
    lane.wall.withLock { $0 = end - 1 }
    #expect(try lane.advance().begun == nil)
    lane.wall.withLock { $0 = end }
    #expect(try lane.advance().begun?.job == .send)
  }

  @Test("B38: a withheld message is shown when nothing waits for its answer any more, whatever ended that")
  func withheldShown() throws {
    let lane = try Lane()
    defer { lane.cache.close() }
    func withheld() throws -> Int {
      try lane.cache.read { try $0.db.first("SELECT count(*) FROM withheld") { $0.int(0) } } ?? 0
    }
    let url = lane.world.url
    func store(_ record: MessageRecord) throws {
      try lane.cache.write { _ = try $0.store(record, in: url, .messageReceived) }
    }
    _ = try lane.accept("r1")
    _ = try lane.sendUncertainly()
    try store(Self.record(40, request: "", sender: "alice", text: "from the phone"))
    #expect(try withheld() == 1)
    try store(Self.record(41, request: "r1", sender: "alice"))
    #expect(try lane.rows.isEmpty)
    _ = try lane.advance()
    #expect(try withheld() == 0)
    _ = try lane.accept("r2")
    _ = try lane.sendUncertainly()
    try store(Self.record(42, request: "", sender: "alice", text: "from the phone again"))
    #expect(try lane.cache.accept { try $0.keepUpOutbox() } == Limits.withheldMilliseconds)
    lane.wall.withLock { $0 -= 3_600_000 }
    _ = try lane.cache.accept { try $0.keepUpOutbox() }
    #expect(try withheld() == 0, "the clock was set back")
  }

  @Test("B43: commits that change a lane by something else than its turn name it")
  func named() throws {
    let lane = try Lane()
    defer { lane.cache.close() }
    let named = Guarded<[Set<OutboxLaneName>]>([])
    lane.cache.onCommit { commit in
      if !commit.lanes.isEmpty { named.withLock { $0.append(commit.lanes) } }
    }
    for name in ["r1", "r2", "r3"] { _ = try lane.accept(name) }
    let url = lane.world.url
    let own = Self.record(30, request: "r1", sender: "alice")
    try lane.cache.write { _ = try $0.store(own, in: url, .messageReceived) }
    #expect(try lane.rows.map(\.requestID.text) == ["r2", "r3"])
    lane.wall.withLock { $0 += Limits.pendingMilliseconds }
    try lane.cache.accept { try $0.expireOutbox() }
    let laneKey = lane.laneKey
    _ = try lane.accept("r4")
    try lane.cache.accept { try $0.failOutbox(in: laneKey) }
    #expect(named.withLock { $0 } == Array(repeating: [lane.name], count: 3))
  }

  @Test("B42 B43: a commit that removes a failed message names the lane whose messages it held")
  func released() throws {
    let lane = try Lane()
    defer { lane.cache.close() }
    let named = Guarded<[Set<OutboxLaneName>]>([])
    let laneKey = lane.laneKey
    _ = try lane.accept("r1", blocks: true)
    _ = try lane.accept("r2")
    try lane.cache.accept { writer in
      let moment = try writer.outboxMoment()
      let first = try #require(try writer.reader.lane(laneKey).rows.first)
      try writer.changeLane(laneKey) { $0.end(first.id, code: "900020", now: moment) }
    }
    #expect(try lane.rows.map(\.state) == [.failed, .held])
    lane.cache.onCommit { commit in
      if !commit.lanes.isEmpty { named.withLock { $0.append(commit.lanes) } }
    }
    let removed = try lane.cache.accept { try $0.removeFailed(in: laneKey, named: "r1") }
    #expect(removed.map(\.text) == ["r1"])
    #expect(try lane.rows.map(\.state) == [.waiting])
    #expect(named.withLock { $0 } == [[lane.name]])
  }
}

extension OutboxJob {
  /// The send of a row that is in flight.
  fileprivate init?(_ row: OutboxRow) {
    guard row.state == .inFlight else { return nil }
    self.init(
      row: row.id, job: .send, kind: row.kind, requestID: row.requestID, target: row.target,
      targetKind: .user, aspect: row.aspect, params: Array("{}".utf8))
  }
}
