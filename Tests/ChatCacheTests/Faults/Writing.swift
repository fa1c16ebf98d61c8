import ChatModel
import Testing

@testable import ChatCache

/// One way of writing into the cache, repeatable: done twice it leaves what it leaves done once.
struct Writing: Sendable, CustomTestStringConvertible {
  let name: String
  /// What must be there before.
  var prepare: @Sendable (Cache) throws -> Void = { _ in }
  /// The write, as its callers do it.
  let write: @Sendable (Cache) throws -> Void

  var testDescription: String { name }

  /// What a cache holds before and after, on a disk that never fails.
  func outcomes() throws -> (before: Contents, after: Contents) {
    let cache = try Cache(Cache.Configuration(directory: Disk.folder()))
    defer { cache.close() }
    try prepare(cache)
    let before = try Contents(of: cache)
    try write(cache)
    return (before, try Contents(of: cache))
  }

  /// All of them.
  static let all: [Writing] = [doorbell]

  /// A noted doorbell.
  static let doorbell = Writing(name: "a doorbell") { cache in
    try cache.write { writer in
      _ = try writer.db.run(
        """
        INSERT INTO due (at, channel_url, kind)
        VALUES (?1, 'general', 'newest')
        ON CONFLICT DO NOTHING
        """
      ) { $0.bind(1, writer.now) }
    }
  }
}
