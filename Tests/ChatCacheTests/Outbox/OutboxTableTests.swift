import ChatModel
import JSON
import Platform
import Testing

@testable import ChatCache

/// The outbox in the database: an accepted row is there, once, and survives restarts unchanged.
@Suite struct OutboxTableTests {
  static let laneKey = OutboxLaneKey(user: UserKey(1), channel: ChannelURL("general"))

  static func open(_ folder: String, at wall: Int64 = 1_000_000) throws -> Cache {
    let clock = Clock(
      wallMilliseconds: { wall }, monotonicNanoseconds: Clock.system.monotonicNanoseconds)
    return try Cache(Cache.Configuration(directory: folder, clock: clock))
  }

  static func prepare(_ cache: Cache) throws {
    try cache.accept { writer in
      _ = try writer.db.run(
        """
        INSERT INTO user (id, user_id, phase, seen_at)
        VALUES (1, 'alice', 'connected', 0), (2, 'bob', 'connected', 0)
        """)
    }
  }

  static func request(
    _ name: String, _ kind: OutboxRow.Kind = .message, _ params: String = #"{"message":"hello"}"#
  ) -> UnsentRequest {
    let text = String(params.dropFirst().dropLast())
    return UnsentRequest(
      requestID: RequestID(name)!, kind: kind,
      content: OutboxContent(params: Array(params.utf8), body: Array((text + #","type":"user""#).utf8)),
      contentHash: Array(params.utf8))
  }

  private static func fresh() throws -> Cache {
    let cache = try open(Disk.folder())
    try prepare(cache)
    return cache
  }

  @Test("B38: messages that ended do not hide those that wait, however many they are; the newest of both")
  func listed() throws {
    let cache = try Self.fresh()
    defer { cache.close() }
    for name in ["w1", "w2", "w3", "c1", "c2", "c3"] {
      _ = try cache.accept { try $0.accept(Self.request(name), in: Self.laneKey) }
    }
    for name in ["c1", "c2", "c3"] {
      let request = try #require(RequestID(name))
      #expect(try cache.accept { try $0.takeBack(request, in: Self.laneKey) } == .canceled)
    }
    let unsent = try cache.read { try $0.unsentMessages(Self.laneKey, limit: 2) }
    #expect(unsent.map(\.requestID) == ["w2", "w3", "c2", "c3"])
    #expect(unsent.map(\.status) == [.pending, .pending, .canceled, .canceled])
  }

  @Test("B36: what was accepted is there after a restart, with its content and its order")
  func durable() throws {
    let folder = Disk.folder()
    let cache = try Self.open(folder)
    try Self.prepare(cache)
    for name in ["first", "second", "third"] {
      _ = try cache.accept { try $0.accept(Self.request(name), in: Self.laneKey) }
    }
    cache.close()
    let again = try Self.open(folder)
    defer { again.close() }
    let lane = try again.read { try $0.lane(Self.laneKey) }
    #expect(lane.rows.map(\.requestID.text) == ["first", "second", "third"])
    let content = try again.read { try $0.content(ofUnsent: lane.rows[1].id) }
    #expect(content?.params == Array(#"{"message":"hello"}"#.utf8))
  }

  @Test("B37: the same request again is answered as it stands; other content under its id is a mismatch")
  func idempotency() throws {
    let cache = try Self.fresh()
    defer { cache.close() }
    guard case .row(let id, _) = try cache.accept({ try $0.accept(Self.request("r"), in: Self.laneKey) })
    else {
      Issue.record("not accepted")
      return
    }
    let again = try cache.accept { try $0.accept(Self.request("r"), in: Self.laneKey) }
    #expect(again == .replay(RequestStatus(row: id, isMessage: true)))
    let other = try cache.accept {
      try $0.accept(Self.request("r", .message, #"{"message":"other"}"#), in: Self.laneKey)
    }
    #expect(other == .mismatch)
    #expect(try cache.read { try $0.lane(Self.laneKey).rows.count } == 1)
    let bobs = try cache.accept {
      try $0.accept(Self.request("r"), in: OutboxLaneKey(user: UserKey(2), channel: Self.laneKey.channel))
    }
    #expect(bobs == .row(id + 1), "ids are unique per user")
  }

  @Test("B37: a request is remembered past its end, and forgotten seven days later")
  func memory() throws {
    let folder = Disk.folder()
    let cache = try Self.open(folder)
    try Self.prepare(cache)
    _ = try cache.accept { try $0.accept(Self.request("r"), in: Self.laneKey) }
    try Self.send(cache, .success(message: 77))
    #expect(try cache.read { try $0.lane(Self.laneKey).rows.isEmpty })
    let replayed = try cache.accept { try $0.accept(Self.request("r"), in: Self.laneKey) }
    #expect(replayed == .replay(RequestStatus(end: "succeeded", message: 77, isMessage: true)))
    #expect(try cache.accept { try $0.forgetRequests() } == 0)
    cache.close()
    let later = try Self.open(folder, at: 1_000_001 + Limits.requestMemoryMilliseconds)
    defer { later.close() }
    #expect(try later.accept { try $0.forgetRequests() } == 1)
    #expect(try later.read { try $0.status(of: RequestID("r")!, of: UserKey(1)) } == nil)
  }

  private static func send(_ cache: Cache, _ outcome: OutboxLane.Outcome) throws {
    try cache.accept { writer in
      let now = try writer.outboxMoment()
      try writer.changeLane(laneKey) { lane in
        guard let job = lane.jobs(now: now).first else { return [] }
        let isBegun = lane.dispatch(job.row, job.job, now: now)
        #expect(isBegun)
        return lane.finish(job.row, job.job, outcome, now: now, random: 5)
      }
    }
  }

  @Test("B20 B38: each step of a message's life is one event for its sender, with its source and request")
  func events() throws {
    let cache = try Self.fresh()
    defer { cache.close() }
    let commits = Guarded<[Set<UserKey>]>([])
    cache.onCommit { commit in commits.withLock { $0.append(commit.users) } }
    _ = try cache.accept { try $0.accept(Self.request("r"), in: Self.laneKey) }
    try Self.send(cache, .rejection(code: "900050"))
    try cache.accept { writer in
      try writer.changeLane(Self.laneKey) { $0.resendFailed(now: writer.now) }
    }
    try Self.send(cache, .success(message: 9))
    let told = try cache.read { reader in
      try reader.db.all("SELECT source, reference, user, detail FROM event ORDER BY seq") {
        "\(ChangeSource(rawValue: $0.int64(0))!.text) \($0.string(1)) \($0.int64(2)) \($0.string(3))"
      }
    }
    #expect(
      told == [
        "local.pending_created r 1 ", "local.failed r 1 ", "local.resend_started r 1 ",
        #"event.message_sent r 1 "message_id":"9""#,
      ])
    #expect(commits.withLock { $0 } == Array(repeating: [UserKey(1)], count: 4))
  }

  @Test("B41: a clock that goes back un-expires nothing, not even over a restart")
  func clockGoesBack() throws {
    let folder = Disk.folder()
    let day: Int64 = 86_400_000
    let cache = try Self.open(folder, at: 10 * day)
    try Self.prepare(cache)
    _ = try cache.accept { try $0.accept(Self.request("r"), in: Self.laneKey) }
    cache.close()
    let late = try Self.open(folder, at: 13 * day)
    try late.accept { try $0.expireOutbox() }
    let row = try late.read { try $0.lane(Self.laneKey).rows.first }
    #expect(row?.state == .failed && row?.errorCode == "expired")
    late.close()
    let back = try Self.open(folder, at: 9 * day)
    defer { back.close() }
    #expect(try back.accept { try $0.outboxMoment() } == 13 * day)
    try back.accept { writer in
      try writer.changeLane(Self.laneKey) { lane in lane.resendFailed(now: try writer.outboxMoment()) }
    }
    #expect(try back.read { try $0.lane(Self.laneKey).rows.first?.expiresAt } == 16 * day)
  }

  @Test("B43: a waiting row's next try is stored, and comes at once when the link is back")
  func nextTries() throws {
    let cache = try Self.fresh()
    defer { cache.close() }
    let name = OutboxLaneName(user: UserID("alice"), channel: Self.laneKey.channel)
    func next(isLinkBack: Bool = false) throws -> Int64? {
      try cache.accept {
        try $0.advance(
          name, after: nil, mayBegin: false, isLinkBack: isLinkBack, OutboxPolicy(), random: 1)
      }.nextTryIn
    }
    #expect(try next() == nil)
    _ = try cache.accept { try $0.accept(Self.request("r"), in: Self.laneKey) }
    #expect(try next() == 0)
    try Self.send(cache, .linkFault(code: "unreachable"))
    let wait = try #require(try next())
    #expect(wait > 0 && wait <= 1001)
    #expect(try next(isLinkBack: true) == 0, "the link is back")
  }

  @Test("B39: what was under way when the service died is uncertain afterwards, never blindly repeated")
  func died() throws {
    let folder = Disk.folder()
    let cache = try Self.open(folder)
    try Self.prepare(cache)
    _ = try cache.accept { try $0.accept(Self.request("r"), in: Self.laneKey) }
    try cache.accept { writer in
      try writer.changeLane(Self.laneKey) { lane in
        _ = lane.dispatch(1, .send, now: writer.now)
        return []
      }
    }
    cache.close()
    let again = try Self.open(folder)
    defer { again.close() }
    try again.accept { try $0.recoverOutbox() }
    let row = try again.read { try $0.lane(Self.laneKey).rows.first }
    #expect(row?.state == .uncertain && row?.mayHaveArrived == true && row?.attempts == 1)
  }

  @Test("B46: an edit of an unsent message goes into it, in what is sent and in what is drawn")
  func editUnsent() throws {
    let cache = try Self.fresh()
    defer { cache.close() }
    _ = try cache.accept {
      try $0.accept(Self.request("m", .message, #"{"message":"helo","data":"d"}"#), in: Self.laneKey)
    }
    var edit = Self.request("e", .edit, #"{"message":"hello \"you\"","custom_type":"greeting"}"#)
    edit.unsentTarget = RequestID("m")
    let asked = edit
    #expect(try cache.accept { try $0.accept(asked, in: Self.laneKey) } == .changed(1))
    let content = try #require(try cache.read { try $0.content(ofUnsent: 1) })
    #expect(
      String(decoding: content.params, as: UTF8.self)
        == #"{"message":"hello \"you\"","data":"d","custom_type":"greeting"}"#)
    #expect(
      String(decoding: content.body, as: UTF8.self)
        == #""message":"hello \"you\"","data":"d","type":"user","custom_type":"greeting""#)
    #expect(
      try cache.accept { try $0.accept(asked, in: Self.laneKey) } == .replay(RequestStatus(end: "merged")))
  }

  @Test("B46: an edit of a message under way follows it, and goes into it if that one comes back")
  func editFollows() throws {
    let cache = try Self.fresh()
    defer { cache.close() }
    _ = try cache.accept { try $0.accept(Self.request("m"), in: Self.laneKey) }
    try cache.accept { writer in
      try writer.changeLane(Self.laneKey) { lane in
        _ = lane.dispatch(1, .send, now: writer.now)
        return []
      }
    }
    var edit = Self.request("e", .edit, #"{"message":"better"}"#)
    edit.unsentTarget = RequestID("m")
    let asked = edit
    #expect(try cache.accept { try $0.accept(asked, in: Self.laneKey) } == .row(2))
    try cache.accept { writer in
      try writer.changeLane(Self.laneKey) {
        $0.finish(1, .send, .linkFault(code: "unreachable"), now: writer.now, random: 3)
      }
    }
    #expect(try cache.read { try $0.lane(Self.laneKey).rows.map(\.id) } == [1])
    let content = try #require(try cache.read { try $0.content(ofUnsent: 1) })
    #expect(String(decoding: content.params, as: UTF8.self) == #"{"message":"better"}"#)
  }

  @Test("B46 B47: pending changes stand beside the confirmed message, the latest of each")
  func pendingChanges() throws {
    let cache = try Self.fresh()
    defer { cache.close() }
    let changes: [(String, OutboxRow.Kind, String, String)] = [
      ("e1", .edit, "", #"{"message":"one"}"#), ("e2", .edit, "", #"{"message":"two"}"#),
      ("x1", .reaction, "smile", #"{"add":true}"#), ("x2", .reaction, "smile", #"{"add":false}"#),
      ("x3", .reaction, "wave", #"{"add":true}"#), ("d", .delete, "", "{}"),
    ]
    for (name, kind, aspect, params) in changes {
      var request = Self.request(name, kind, params)
      request.target = 50
      request.aspect = aspect
      let asked = request
      _ = try cache.accept { try $0.accept(asked, in: Self.laneKey) }
    }
    let text = try cache.read { reader in
      "{" + String(decoding: try reader.fragments(in: Self.laneKey)[50] ?? [], as: UTF8.self) + "}"
    }
    #expect(
      text == #"{"pending_delete":{"request_id":"d"},"pending_edit":{"request_id":"e2","#
        + #""changes":{"message":"two"}},"pending_reactions":[{"request_id":"x2","key":"smile","#
        + #""changes":{"add":false}},{"request_id":"x3","key":"wave","changes":{"add":true}}]}"#)
    #expect(try cache.read { try $0.fragments(in: Self.laneKey, of: 51) }.isEmpty)
  }

  @Test("B1, B46: reactions whose keys are the same text in other bytes are two")
  func alikeKeys() throws {
    let cache = try Self.fresh()
    defer { cache.close() }
    for (name, key) in [("x1", "\u{E9}"), ("x2", "e\u{301}")] {
      var request = Self.request(name, .reaction, #"{"add":true}"#)
      request.target = 50
      request.aspect = key
      let asked = request
      _ = try cache.accept { try $0.accept(asked, in: Self.laneKey) }
    }
    let text = try cache.read { reader in
      String(decoding: try reader.fragments(in: Self.laneKey)[50] ?? [], as: UTF8.self)
    }
    #expect(text.contains(#""request_id":"x1""#) && text.contains(#""request_id":"x2""#))
  }

  @Test("B69: in a channel that was lost everything unsent fails with the upstream's code, and stays")
  func lostChannel() throws {
    let cache = try Self.fresh()
    defer { cache.close() }
    for name in ["a", "b"] { _ = try cache.accept { try $0.accept(Self.request(name), in: Self.laneKey) } }
    try cache.accept { try $0.failOutbox(in: Self.laneKey) }
    let rows = try cache.read { try $0.lane(Self.laneKey).rows }
    #expect(rows.map(\.state) == [.failed, .failed] && rows.allSatisfy { $0.errorCode == "900020" })
    let counts = try cache.read { try $0.unsent(of: UserKey(1)) }
    #expect(counts == (pending: 0, failed: 2))
  }
}
