import ChatCache
import ChatModel
import Platform
import SQLite
import TestFolders

@testable import ChatCache
@testable import ChatSync

/// A cache on its file behind the real adapter, whose answers a test writes.
final class Attacked: Sendable {
  /// Answers every request with the same bytes.
  private final class Scripted: RequestSender {
    let response = Guarded<(status: Int, headers: HTTPResponse.Headers, body: [UInt8])>((200, .init(), []))

    func send(_ request: HTTPRequest) async throws -> HTTPResponse {
      response.withLock { response in
        var body = ByteBuffer(capacity: response.body.count + 1)
        response.body.withUnsafeBytes { body.append($0) }
        return HTTPResponse(status: response.status, headers: response.headers, body: body)
      }
    }

    func pause(_ endpoint: String, milliseconds: Int64) {}
  }

  /// The result of reading an answer.
  enum Taken {
    case channels([ChannelRecord], unreadable: Int)
    case messages([MessageRecord], unreadable: Int)
    case other
    case refused(UpstreamError)
  }

  let cache: Cache
  private let store: CacheStore
  private let sender = Scripted()
  private let upstream: SendbirdUpstream
  private let alice = UserID("alice")
  private let general = ChannelURL("general")

  init() async throws {
    cache = try Cache(Cache.Configuration(directory: TestFolder.make("attacked") + "/data"))
    store = CacheStore(cache)
    upstream = SendbirdUpstream(SendbirdUpstream.Configuration(base: "http://x", token: "t"), client: sender)
    try await store.acknowledge(alice)
    _ = try await take(.channels, Sample.channels.text)
  }

  /// Reads an answer of that kind and stores the readable part. Throws errors of the cache.
  func take(
    _ kind: Sample, _ text: String, status: Int = 200, headers: HTTPResponse.Headers = .init()
  ) async throws -> Taken {
    try await take(kind, Array(text.utf8), status: status, headers: headers)
  }

  /// The same, with the answer as bytes.
  func take(
    _ kind: Sample, _ body: [UInt8], status: Int = 200, headers: HTTPResponse.Headers = .init()
  ) async throws -> Taken {
    sender.response.withLock { $0 = (status, headers, body) }
    do { return try await taken(kind, body) } catch let error as UpstreamError { return .refused(error) }
  }

  private func taken(_ kind: Sample, _ body: [UInt8]) async throws -> Taken {
    let window = MessageWindow(.newest, older: 100, newer: 0)
    switch kind {
    case .user, .refusal: _ = try await upstream.user(alice, .open)
    case .member: _ = try await upstream.isMember(alice, of: general, .open)
    case .webhook:
      do {
        let notes = try body.withUnsafeBytes { try Webhook.notes($0) }
        _ = try await store.note(notes)
      } catch is Webhook.Fault {}
    case .channels:
      let page = try await upstream.channels(of: alice, order: .creation, limit: 100, after: nil, .open)
      _ = try await store.store(page.items, of: alice, .listing(sweep: 1))
      return .channels(page.items, unreadable: page.unreadable)
    case .channelChanges:
      let changes = try await upstream.channelChanges(of: alice, since: .time(0), hasMembers: true, .open)
      _ = try await store.store(
        changes.updated, of: alice, .changelog(deleted: changes.deleted, next: changes.next))
      return .channels(changes.updated, unreadable: changes.unreadable)
    case .channel:
      let record = try await upstream.channel(general, as: alice, .open)
      _ = try await store.store([record], of: alice, .refresh(.channelRefresh))
    case .messages:
      let page = try await upstream.messages(in: general, window, .open)
      let listing = MessageListing(
        window: window, rows: page.items, isWhole: page.unreadable == 0, isEndRead: page.isEndRead,
        breaks: page.breaks, askedAt: store.mark())
      _ = try await store.store([listing], in: general, ListingContext(source: .apiResult, generation: 1))
      return .messages(page.items, unreadable: page.unreadable)
    case .message:
      let record = try await upstream.message(501, in: general, .open)
      try await store.store(record, in: general, .messageUpdated, askedAt: .max)
    case .messageChanges:
      let changes = try await upstream.messageChanges(in: general, since: .time(0), .open)
      _ = try await store.store(changes, in: general, .messageChangelog, askedAt: store.mark())
      return .messages(changes.updated, unreadable: changes.unreadable)
    }
    return .other
  }

  /// A message of another user arrives, which counts as unread for all members.
  func arrive(_ id: Int64) async throws {
    var record = FakeUpstream.record(.init(id: id, at: 1_800_000_000_000 + id, text: "\"message\":\"new\""))
    record.sender = "bob"
    record.mentions = .everybody
    try await store.store(record, in: general, .messageReceived, askedAt: .max)
  }

  /// Reads alice's totals, channels and messages, and throws if one cannot be read.
  func read() throws -> UnreadTotals {
    try cache.read { reader in
      guard let user = try reader.cachedUser(alice) else { return UnreadTotals() }
      for order in ChannelQuery.Order.allCases where order != .metadataValue {
        var query = ChannelQuery()
        query.order = order
        query.includesMembers = true
        query.includesMetadata = true
        _ = try reader.page(query, of: user).count
      }
      return try reader.unread(of: user.key)
    }
  }

  /// The numbers in the cache that are outside the accepted ranges, each with its column.
  func strangeNumbers() throws -> [String] {
    let counts = Limits.counts
    let moments = Limits.moments
    let columns: [(table: String, column: String, range: ClosedRange<Int64>)] = [
      ("membership", "unread", counts), ("membership", "mentions", counts),
      ("membership", "floor_at", moments),
      ("membership", "last_read_at", moments), ("membership", "joined_at", moments),
      ("membership", "invited_at", moments), ("membership", "created_at", moments),
      ("channel", "member_count", counts), ("channel", "joined_member_count", counts),
      ("channel", "created_at", moments), ("member", "read_at", moments), ("message", "created_at", moments),
      ("message", "updated_at", moments), ("message", "message_id", Limits.messageIDs),
    ]
    return try cache.read { reader in
      try columns.flatMap { bound in
        var found: [String] = []
        let sql =
          "SELECT \(bound.column) FROM \(bound.table) WHERE \(bound.column) NOT BETWEEN ?1 AND ?2"
        var rows = try reader.db.rows(composed: sql) {
          $0.bind(1, bound.range.lowerBound)
          $0.bind(2, bound.range.upperBound)
        }
        while let row = try rows.next() {
          found.append("\(bound.table).\(bound.column) = \(row.int64(0))")
        }
        return found
      }
    }
  }
}
