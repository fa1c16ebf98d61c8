import ChatModel
import Testing

@testable import ChatCache

/// A write to the cache that can be repeated: done twice, it has the same result as done once.
struct Writing: Sendable, CustomTestStringConvertible {
  let name: String
  /// Stores the data that must be there before.
  var prepare: @Sendable (Cache) throws -> Void = { _ in }
  /// The write, as its callers do it.
  let write: @Sendable (Cache) throws -> Void

  var testDescription: String { name }

  /// The folder of a closed cache after `prepare`. Each try opens a copy, because creating a database takes
  /// far longer than one write.
  func prepared() throws -> String {
    let folder = Disk.folder()
    let cache = try Cache(Cache.Configuration(directory: folder))
    defer { cache.close() }
    try prepare(cache)
    return folder
  }

  /// The contents of a cache before and after the write, on a disk that never fails.
  func outcomes(from prepared: String) throws -> (before: Contents, after: Contents) {
    let cache = try Cache(Cache.Configuration(directory: Disk.folder(copying: prepared)))
    defer { cache.close() }
    let before = try Contents(of: cache)
    try write(cache)
    return (before, try Contents(of: cache))
  }

  /// All writes.
  static let all: [Writing] =
    [webhookNote, accepting, sending, expiring] + steps + fromUpstream + lettingGo + connections + gaps
    + views

  /// A webhook note.
  static let webhookNote = Writing(name: "a webhook note") { cache in
    try cache.write { writer in
      _ = try writer.db.run(
        """
        INSERT INTO webhook_note (at, channel_url, kind)
        VALUES (?1, 'general', 'newest')
        ON CONFLICT DO NOTHING
        """
      ) { $0.bind(1, writer.now) }
    }
  }

  private static let unsent = OutboxTableTests.laneKey

  /// A message is accepted.
  static let accepting = Writing(
    name: "accepting a message", prepare: { try OutboxTableTests.prepare($0) },
    write: { cache in
      _ = try cache.accept { try $0.accept(OutboxTableTests.request("r"), in: unsent) }
    })

  /// The waiting message is sent, and the upstream stored it as message 7.
  static let sending = Writing(
    name: "the answer to a send",
    prepare: { cache in
      try accepting.prepare(cache)
      for name in ["a", "b"] {
        _ = try cache.accept { try $0.accept(OutboxTableTests.request(name), in: unsent) }
      }
    },
    write: { cache in
      try cache.accept { writer in
        let moment = try writer.outboxMoment()
        try writer.changeLane(unsent) { lane in
          guard lane.dispatch(1, .send, now: moment) else { return [] }
          return lane.finish(1, .send, .success(message: 7), now: moment, random: 1)
        }
      }
    })

  /// The waiting message fails, because its channel was lost.
  static let expiring = Writing(
    name: "failing what waits", prepare: sending.prepare,
    write: { cache in try cache.accept { try $0.failOutbox(in: unsent) } })
}
