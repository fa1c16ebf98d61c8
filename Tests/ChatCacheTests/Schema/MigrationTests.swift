import ChatModel
import Glibc
import Platform
import SQLite
import Testing

@testable import ChatCache

/// A file of schema 1 is opened by a program of today (B63).
@Suite struct MigrationTests {
  /// A database as the first release left it: alice has unsent rows in every state, and used request ids.
  private static func firstSchema() throws -> String {
    try folder(ofSchema: 1) { db in
      try db.execute(
        """
        INSERT INTO user (id, user_id, standing, seen_at) VALUES (1, 'alice', 'connected', 0);
        INSERT INTO outbox (
          id, user, channel_url, request_id, kind, state, place, target_id, aspect, params, body,
          block_on_failure, accepted_at, expires_at, attempts, next_try_at, dispatched_at, may_have_arrived
        )
        VALUES
          (1, 1, 'general', 'waiting', 'message', 'waiting', 1, NULL, '', x'7b7d', x'', 0, 5,
            9000000000000, 0, 5, NULL, 0),
          (2, 1, 'general', 'underway', 'message', 'in_flight', 2, NULL, '', x'7b7d', x'', 0, 6,
            9000000000000, 1, 6, 6, 0),
          (3, 1, 'general', 'failed', 'message', 'failed', 3, NULL, '', x'7b7d', x'', 1, 7, 9000000000000,
            1, 7, 7, 0),
          (4, 1, 'general', 'edit', 'edit', 'held', 4, 70, '', x'7b7d', x'', 0, 8, 9000000000000, 0, 8,
            NULL, 0),
          (5, 1, 'general', 'reaction', 'reaction', 'waiting', 5, 70, 'smile', x'7b7d', x'', 0, 9,
            9000000000000, 0, 9, NULL, 0);
        INSERT INTO request (user, request_id, channel_url, content_hash, message_id, ended_at, ended_as)
        VALUES
          (1, 'waiting', 'general', x'01', NULL, NULL, NULL), (1, 'edit', 'general', x'02', 70, NULL, NULL),
          (1, 'gone', 'general', x'03', 71, 9, 'succeeded')
        """)
    }
  }

  /// Two users, from schema 13 on.
  private static let people = """
    INSERT INTO user (id, user_id, phase, seen_at)
    VALUES (1, 'alice', 'connected', 0), (2, 'bob', 'connected', 0);
    """

  /// A folder with a database of an older schema, which `fill` fills.
  private static func folder(ofSchema version: Int64, _ fill: (WriteAccess) throws -> Void) throws -> String {
    let folder = Disk.folder()
    mkdir(folder, 0o700)
    let connection = try Connection(path: folder + "/perch.db")
    try connection.write { db in
      for step in Migration.steps where step.version <= version {
        for script in step.scripts { try db.execute(String(decoding: script, as: UTF8.self)) }
      }
      try fill(db)
      try db.execute("PRAGMA user_version = \(version)")
    }
    return folder
  }

  @Test("B5: who was refused or closed before the schema knew the file's age is so from the migration on")
  func refused() throws {
    let folder = try Self.firstSchema()
    let connection = try Connection(path: folder + "/perch.db")
    try connection.write { db in
      try db.execute(
        """
        INSERT INTO user (id, user_id, standing, seen_at, refused_at, closed_at)
        VALUES (2, 'bob', 'connected', 0, 5, NULL), (3, 'carol', 'closed', 0, 5, 6)
        """)
    }
    let wall = Guarded<Int64>(1_800_000_000_000)
    let clock = Clock(
      wallMilliseconds: { wall.withLock { $0 } },
      monotonicNanoseconds: Clock.system.monotonicNanoseconds)
    let cache = try Cache(Cache.Configuration(directory: folder, clock: clock))
    defer { cache.close() }
    wall.withLock { $0 += 1_000 }
    let known = try cache.read { try $0.knownUsers() }
    #expect(known.map(\.refusedFor) == [nil, 1_000, 1_000])
    #expect(try cache.write { try $0.forgetClosed(after: 1_000) }.isEmpty)
    wall.withLock { $0 += 1 }
    #expect(try cache.write { try $0.forgetClosed(after: 1_000) } == [UserID("carol")])
  }

  @Test("B63: of a file of schema 7 a list of members is known where one answer showed all of them")
  func members() throws {
    let folder = try Self.folder(ofSchema: 7) { db in
      // Stored rows: 128 of 131 members, of whom 28 have left; three of three members; two of three.
      for (id, count, rows) in [(1, 103, 128), (2, 3, 3), (3, 3, 2)] {
        try db.execute(
          """
          INSERT INTO channel (
            id, channel_url, name, name_key, custom_type, created_at, is_distinct, is_public, is_super,
            is_frozen, member_count, joined_member_count, body, read_receipts
          )
          VALUES (\(id), 'c\(id)', '', '', '', 0, 0, 0, 0, 0, \(count), \(count), x'', x'7b7d')
          """)
        for row in 0..<rows {
          try db.execute(
            """
            INSERT INTO member (channel, user_id, nickname_key, state, body)
            VALUES (\(id), 'p\(row)', '', 'joined', x'')
            """)
        }
      }
    }
    let cache = try Cache(Cache.Configuration(directory: folder))
    defer { cache.close() }
    let complete = try cache.read { reader in
      try ["c1", "c2", "c3"].map { try reader.memberList(of: ChannelURL($0)).isComplete }
    }
    #expect(complete == [false, true, false])
  }

  @Test("B63: of a file of schema 23 the read positions of more than 100 members move to their table")
  func readPositions() throws {
    let text = { (count: Int) in "{" + (1...count).map { "\"u\($0)\":\($0)" }.joined(separator: ",") + "}" }
    let texts = [text(100), text(101), String(repeating: "{", count: 900), text(5_000)]
    let folder = try Self.folder(ofSchema: 23) { db in
      for (id, text) in texts.enumerated() {
        try db.execute(
          """
          INSERT INTO channel (
            id, channel_url, name, name_key, custom_type, created_at, is_distinct, is_public, is_super,
            is_frozen, member_count, joined_member_count, body, read_receipts
          )
          VALUES (\(id), 'c\(id)', '', '', '', 0, 0, 0, 0, 0, 0, 0, x'', CAST('\(text)' AS BLOB));
          INSERT INTO member (channel, user_id, nickname_key, state, body)
          VALUES (\(id), 'u7', '', 'joined', x''), (\(id), 'nobody', '', 'joined', x'')
          """)
      }
    }
    let cache = try Cache(Cache.Configuration(directory: folder))
    defer { cache.close() }
    try cache.read { reader in
      let rows = try reader.db.all(
        """
        SELECT coalesce(reader_count, -1), CAST(read_receipts AS TEXT),
          (SELECT group_concat(read_at) FROM member AS m WHERE m.channel = channel.id ORDER BY user_id)
        FROM channel
        ORDER BY id
        """
      ) { "\($0.int64(0)) \($0.string(1)) \($0.string(2))" }
      #expect(rows == ["-1 \(texts[0]) 0,0", "101 {} 0,7", "-1 \(texts[2]) 0,0", "5000 {} 0,7"])
      let asked = [ExactText("u4999"), ExactText("nobody")]
      #expect(try reader.readPositions(of: asked, in: ChannelKey(3)) == [ExactText("u4999"): 4_999])
    }
  }

  @Test("B63: of a file of schema 10 channels and messages are counted, of all and of each user")
  func counts() throws {
    let folder = try Self.folder(ofSchema: 10) { db in
      for (id, messages) in [(1, 10), (2, 200), (3, 0)] {
        try db.execute(
          """
          INSERT INTO channel (
            id, channel_url, name, name_key, custom_type, created_at, is_distinct, is_public, is_super,
            is_frozen, member_count, joined_member_count, body, read_receipts, cached_messages
          )
          VALUES (\(id), 'c\(id)', '', '', '', 0, 0, 0, 0, 0, 2, 2, x'', x'7b7d', \(messages))
          """)
      }
      for (user, name, channels) in [(1, "alice", [1, 2]), (2, "bob", [2, 3]), (3, "carol", [])] {
        try db.execute(
          "INSERT INTO user (id, user_id, standing, seen_at) VALUES (\(user), '\(name)', 'connected', 0)")
        for channel in channels {
          try db.execute(
            """
            INSERT INTO membership (user, channel, channel_url, name_key, created_at, sort_at, state, role)
            VALUES (\(user), \(channel), 'c\(channel)', '', 0, 0, 'joined', 'none')
            """)
        }
      }
    }
    let cache = try Cache(Cache.Configuration(directory: folder))
    defer { cache.close() }
    let counts = try cache.read { reader in
      try [nil, UserKey(1), UserKey(2), UserKey(3)].map { user in
        let info = try reader.info(of: user)
        return [info.channels, info.messages]
      }
    }
    #expect(counts == [[3, 210], [2, 210], [2, 200], [0, 0]])
  }

  @Test("B63: what webhooks named in a file of schema 11 is still to be looked into")
  func webhookNotes() throws {
    let folder = Disk.folder()
    mkdir(folder, 0o700)
    do {
      let connection = try Connection(path: folder + "/perch.db")
      try connection.write { db in
        for step in Migration.steps where step.version <= 11 {
          for script in step.scripts { try db.execute(String(decoding: script, as: UTF8.self)) }
        }
        try db.execute(
          """
          INSERT INTO due (at, channel_url, kind, message_id, source, users)
          VALUES (5, 'general', 'message', 7, 3, 'alice');
          PRAGMA user_version = 11
          """)
      }
    }
    let cache = try Cache(Cache.Configuration(directory: folder))
    defer { cache.close() }
    let notes = try cache.read { try $0.webhookNotes(in: ChannelURL("general")) }
    #expect(notes.map(\.messageID) == [7] && notes.map(\.users) == [[UserID("alice")]])
  }

  @Test("B63 B50: in a file of schema 28 messages are new after the stored, evicted or listed ones")
  func newMessages() throws {
    let folder = try Self.folder(ofSchema: 28) { db in
      try db.execute(Self.people)
      try db.execute("UPDATE user SET is_synced = 1 WHERE id = 1")
      // Its messages are stored; they are evicted; it is empty and was listed; it was not listed.
      for (id, last, evicted) in [
        (1, "70", "NULL"), (2, "NULL", "50"), (3, "NULL", "NULL"), (4, "90", "NULL"),
      ] {
        try db.execute(
          """
          INSERT INTO channel (
            id, channel_url, name, name_key, custom_type, created_at, is_distinct, is_public, is_super,
            is_frozen, member_count, joined_member_count, body, read_receipts, last_message_at,
            last_message_id, evicted_at, evicted_id
          )
          VALUES (
            \(id), 'c\(id)', '', '', '', 0, 0, 0, 0, 0, 2, 2, x'', x'7b7d', \(last), 7, \(evicted),
            iif(\(evicted), 5, NULL))
          """)
      }
      try db.execute(
        """
        INSERT INTO message (
          channel, created_at, message_id, version, updated_at, type, flags, sender, custom_type, body
        )
        VALUES (1, 40, 4, 1, 0, 0, 0, 'bob', '', x''), (1, 60, 6, 1, 0, 0, 0, 'bob', '', x'');
        INSERT INTO segment (channel, lo_at, lo_id, hi_at, hi_id, kind, id, confirmed_at, generation)
        VALUES
          (3, 0, -9223372036854775808, 9223372036854775807, 9223372036854775807, 2, 1, 5, 1),
          (4, 0, -9223372036854775808, 9223372036854775807, 9223372036854775807, 2, 1, NULL, NULL)
        """)
    }
    let cache = try Cache(Cache.Configuration(directory: folder))
    defer { cache.close() }
    let found = try cache.read { reader in
      try (1...4).map { try reader.newMessages(in: ChannelKey($0)).after }
    }
    #expect(found == [60, 50, 0, nil])
    let listed = try cache.read { reader in
      try reader.db.all("SELECT listed_to FROM user ORDER BY id") { $0.int64OrNil(0) }
    }
    #expect(listed == [90, nil])
  }

  @Test("B63: unsent rows of schema 1 survive the migration, are counted, and go on where they were")
  func outbox() throws {
    let folder = try Self.firstSchema()
    let told = Guarded<[MigrationProgress]>([])
    let cache = try Cache(Cache.Configuration(directory: folder)) { progress in
      told.withLock { $0.append(progress) }
    }
    defer { cache.close() }
    let first = try #require(told.withLock { $0 }.first)
    #expect(first == MigrationProgress(from: 1, to: Migration.newest, percent: 0))
    let laneKey = OutboxLaneKey(user: UserKey(1), channel: ChannelURL("general"))
    let rows = try cache.read { try $0.lane(laneKey).rows }
    #expect(rows.map(\.requestID.text) == ["waiting", "underway", "failed", "edit", "reaction"])
    #expect(rows.map(\.state) == [.waiting, .inFlight, .failed, .held, .waiting])
    #expect(rows.allSatisfy { $0.anchor == nil && !$0.isAdmin })
    let counts = try cache.read { try $0.unsentCounts(of: UserKey(1)) }
    #expect(counts == UnsentCounts(pending: 4, failed: 1, canceled: 0))
    try cache.accept { try $0.recoverOutbox() }
    let step = try cache.read { try $0.laneStep(laneKey) }
    #expect(step.head?.requestID.text == "waiting")
    #expect(try cache.read { try $0.lane(laneKey).row(2)?.state } == .uncertain)
    #expect(try cache.read { try $0.status(of: RequestID("gone")!, of: UserKey(1)) }?.message == 71)
    try cache.accept { writer in
      try writer.changeLane(laneKey, from: try writer.reader.laneStep(laneKey, row: 3)) {
        $0.remove(3, now: 10).notices
      }
    }
    let released = try cache.read { try $0.lane(laneKey).rows }
    #expect(released.first { $0.id == 4 }?.state == .waiting, "nothing holds the edit any more")
  }

  @Test("B63 B45: unsent rows of schema 13 go on as they were, and have no file")
  func uploads() throws {
    let folder = try Self.folder(ofSchema: 13) { db in
      try db.execute(
        """
        INSERT INTO user (id, user_id, phase, seen_at) VALUES (1, 'alice', 'connected', 0);
        INSERT INTO outbox (
          id, user, channel_url, request_id, kind, state, place, params, body, accepted_at, expires_at,
          next_try_at
        )
        VALUES
          (1, 1, 'general', 'text', 'message', 'waiting', 1, x'7b7d', x'', 5, 9000000000000, 5),
          (2, 1, 'general', 'url', 'message', 'failed', 2, x'7b7d', x'', 6, 9000000000000, 6)
        """)
    }
    let cache = try Cache(Cache.Configuration(directory: folder))
    defer { cache.close() }
    let laneKey = OutboxLaneKey(user: UserKey(1), channel: ChannelURL("general"))
    #expect(try cache.read { try $0.lane(laneKey).rows.map(\.state) } == [.waiting, .failed])
    #expect(try cache.read { try $0.upload(of: 1) } == nil)
    #expect(try cache.read { try $0.nextUpload(in: laneKey) } == nil)
  }

  @Test("B63 B37: unsent rows of schema 18 are found by their names, and no id is given twice")
  func names() throws {
    let folder = try Self.folder(ofSchema: 18) { db in
      try db.execute(
        """
        \(Self.people)
        INSERT INTO unsent_count (user, pending, failed, canceled) VALUES (1, 1, 0, 0), (2, 0, 1, 0);
        INSERT INTO outbox (
          id, user, channel_url, request_id, kind, state, place, params, body, accepted_at, expires_at,
          next_try_at
        )
        VALUES
          (1, 1, 'general', 'same', 'message', 'waiting', 1, x'7b7d', x'2261223a31', 5, 9000000000000, 5),
          (2, 2, 'general', 'same', 'message', 'failed', 1, x'7b7d', x'2261223a31', 6, 9000000000000, 6),
          (9, 1, 'general', 'sent', 'message', 'waiting', 2, x'7b7d', x'2261223a31', 7, 9000000000000, 7);
        DELETE FROM outbox WHERE id = 9;
        INSERT INTO request (user, request_id, channel_url, content_hash, message_id, ended_at, ended_as)
        VALUES
          (1, 'same', 'general', x'01', NULL, NULL, NULL), (2, 'same', 'general', x'02', NULL, NULL, NULL),
          (1, 'sent', 'general', x'03', 71, 9, 'succeeded')
        """)
    }
    let cache = try Cache(Cache.Configuration(directory: folder))
    defer { cache.close() }
    let rows = try cache.read { reader in
      try [UserKey(1), UserKey(2)].map { try reader.status(of: RequestID("same")!, of: $0)?.row }
    }
    #expect(rows == [1, 2])
    #expect(try cache.read { try $0.status(of: RequestID("sent")!, of: UserKey(1)) }?.row == nil)
    #expect(try cache.write { try $0.nextUnsentID() } == 10)
    let findings = try cache.check().findings
    #expect(findings.isEmpty, "\(findings)")
  }

  @Test("B63 B37: a file request of schema 26, whose hash is unknown, is recognized by its id")
  func files() throws {
    let folder = try Self.folder(ofSchema: 26) { db in
      try db.execute(
        """
        \(Self.people)
        INSERT INTO unsent_count (user, pending, failed, canceled) VALUES (1, 2, 0, 0);
        INSERT INTO outbox (
          id, user, channel_url, request_id, kind, state, place, params, body, accepted_at, expires_at,
          next_try_at
        )
        VALUES
          (1, 1, 'general', 'file', 'file', 'waiting', 1, x'7b7d', x'2261223a31', 5, 9000000000000, 5),
          (2, 1, 'general', 'text', 'message', 'waiting', 2, x'7b7d', x'2261223a31', 6, 9000000000000, 6);
        INSERT INTO upload (row, file, hash, size, name, mime)
        VALUES (1, '00112233445566778899aabbccddeeff', x'05', 3, 'a.txt', 'text/plain');
        INSERT INTO request (user, request_id, channel_url, content_hash, message_id, ended_at, ended_as)
        VALUES
          (1, 'file', 'general', x'01', NULL, NULL, NULL), (1, 'text', 'general', x'02', NULL, NULL, NULL),
          (1, 'sent', 'general', x'03', 71, 9, 'succeeded'), (2, 'file', 'general', x'04', NULL, NULL, NULL)
        """)
    }
    let cache = try Cache(Cache.Configuration(directory: folder))
    defer { cache.close() }
    let hashes = try cache.read { reader in
      try reader.db.all("SELECT content_hash FROM request ORDER BY user, request_id") { Array($0.bytes(0)) }
    }
    #expect(hashes == [[], [], [2], [4]])
    #expect(try cache.read { try $0.upload(of: 1) }?.hash == [])
    #expect(Acceptance.decide(remembered: hashes[0], asked: [9]) == .replay)
    #expect(Acceptance.decide(remembered: hashes[2], asked: [9]) == .mismatch)
    let text = try cache.read { reader in
      try reader.db.first("SELECT sql FROM sqlite_schema WHERE name = 'upload'") { $0.string(0) }
    }
    #expect(text?.contains("BLAKE2b") == true)
  }

  @Test("B63: a file that the program of schema 1 left opens, and answers what it held")
  func storedFile() throws {
    let folder = Disk.folder()
    mkdir(folder, 0o700)
    let tests = #filePath.split(separator: "/").dropLast(3).joined(separator: "/")
    let stored = "/\(tests)/StoredFiles/schema-1.db.gz"
    try #require(system("gzip -dc '\(stored)' > '\(folder)/perch.db'") == 0)
    let cache = try Cache(Cache.Configuration(directory: folder))
    defer { cache.close() }
    let page = try cache.read { reader in
      let alice = try #require(try reader.cachedUser(UserID("alice")))
      let view = try #require(try reader.view(of: ChannelURL("channel-0"), for: alice.key))
      let ground = try reader.ground(
        .newest, in: view, link: LinkStatus(.online, generation: 1), interval: 1_000, now: 0)
      let page = try reader.page(MessagePageQuery(limit: 5), in: view, on: ground)
      return String(decoding: page.items.array, as: UTF8.self)
    }
    let named = (96...100).map { page.contains(#""message_id":"\#($0)""#) }
    #expect(named == Array(repeating: true, count: 5))
    #expect(!page.contains(#""message_id":"95""#))
    let counts = try cache.read { reader in
      (
        try reader.db.first("SELECT count(*) FROM message") { $0.int(0) },
        try reader.db.first("SELECT count(*) FROM collection") { $0.int(0) }
      )
    }
    #expect(counts == (300, 1))
    let report = try cache.check()
    #expect(report.isSound, "\(report.findings)")
  }
}
