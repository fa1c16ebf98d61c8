import ChatModel
import Glibc
import JSON
import Platform
import TestSupport
import Testing

@testable import ChatCache
@testable import ChatSync
@testable import Origin

extension SendingWorld {
  private static let sender = UserID("alice")

  /// Accepts a file message of alice's as the service does: the bytes first, then the row.
  func sendFile(_ url: String, _ name: String, _ bytes: [UInt8]) async throws {
    let spool = here.cache.spool
    let file = try spool.begin(announced: bytes.count)
    try bytes.withUnsafeBytes { try file.write($0) }
    try file.end()
    let failure = await withCheckedContinuation { continuation in
      spool.keep(file) { continuation.resume(returning: $0) }
    }
    if let failure { throw failure }
    let sent = SentFile(file.spooled, name: "\(name).bin", mime: "application/octet-stream")
    let params =
      #"{"type":"file","file_name":"\#(name).bin","file_mime":"application/octet-stream","file_size":\#(bytes.count)}"#
    var request = UnsentRequest(
      requestID: try #require(RequestID(name)), kind: .file,
      content: OutboxContent(params: Array(params.utf8), body: []), contentHash: sent.file.hash)
    request.upload = .needed
    request.file = sent
    request.sender = Self.sender
    let (asked, channel) = (request, ChannelURL(url))
    _ = try here.cache.accept { try $0.accept(asked, of: Self.sender, in: channel, OutboxPolicy()) }
    spool.settled(sent.file.name)
    await here.worker.accepted(in: [OutboxLaneName(user: Self.sender, channel: channel)])
  }

  /// Whether a message of alice's that she took back is canceled. It is shown as canceled already while the
  /// answer to its send is awaited, and may arrive then.
  func isCanceled(_ request: String) throws -> Bool {
    try here.cache.read { reader in
      try reader.db.first("SELECT state = 'canceled' FROM outbox WHERE request_id = ?1") {
        $0.bind(1, request)
      } _: {
        $0.bool(0)
      } ?? false
    }
  }

  /// Sends a message of alice's again after she took it back.
  func sendAgain(_ request: String, in url: String) async throws {
    let (name, channel) = (try #require(RequestID(request)), ChannelURL(url))
    let isResent = try here.cache.accept { writer in
      let user = try #require(try writer.reader.userKey(of: Self.sender))
      let laneKey = OutboxLaneKey(user: user, channel: channel)
      return try writer.resend(name, of: Self.sender, in: laneKey, isAdmin: false, OutboxPolicy())
    }
    #expect(isResent == true)
    await here.worker.accepted(in: [OutboxLaneName(user: Self.sender, channel: channel)])
  }

  /// The bytes of alice's files upstream, in the order of their messages.
  func arrivedFiles(_ url: String) throws -> [[UInt8]] {
    try there.origin.store.read { db, _ in
      try db.all(
        """
        SELECT u.bytes
        FROM message AS m
        JOIN channel AS c ON c.id = m.channel
        LEFT JOIN upload AS u ON m.file_url = '/files/' || u.id
        WHERE c.url = ?1 AND m.user_id = 'alice' AND m.type = 'FILE'
        ORDER BY m.created_at, m.id
        """
      ) {
        $0.bind(1, url)
      } _: {
        Array($0.bytes(0))
      }
    }
  }

  /// The upload progress events, in the order of the log.
  func progress() throws -> [String] {
    try here.cache.read { reader in
      try reader.db.all("SELECT reference, detail FROM event WHERE kind = 20 ORDER BY seq") { row in
        let object = [UInt8(ascii: "{")] + Array(row.bytes(1)) + [UInt8(ascii: "}")]
        let percent = try JSONParser().parse(String(decoding: object, as: UTF8.self)) { $0["percent"]?.int64 }
        return "\(row.string(0)) \((percent ?? nil) ?? -1)"
      }
    }
  }

  /// Sets one kind of fault in the stand-in.
  func fault(_ fields: [String: Value]) throws {
    try there.origin.setFaults(
      .object([
        "seed": .integer(1), "faults": .array([.object(fields)]), "capabilities": .object(offers),
      ]))
  }

  /// Ends all faults, without urging the worker.
  func noFaults() throws {
    try there.origin.setFaults(.object(["faults": .array([]), "capabilities": .object(offers)]))
  }
}
