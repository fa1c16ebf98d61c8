/// Writing calls that block the calling thread until the commit is durable.
///
/// They are for threads that answer no requests, and for tests. A thread that answers requests parks the
/// request and uses `Cache.accept` or `Cache.write`; an architecture test refuses `blocking` where such
/// threads run.
package struct BlockingCommits: Sendable {
  fileprivate let queue: CommitQueue

  /// Stores a client's write, which goes before data from the upstream. Returns after the fsync.
  package func accept<Result: Sendable>(
    _ body: @escaping @Sendable (CacheWriter) throws -> Result
  ) throws -> Result {
    try queue.wait(.intent, body)
  }

  /// Stores data from the upstream; clients' writes go first. Returns after the fsync.
  package func write<Result: Sendable>(
    _ body: @escaping @Sendable (CacheWriter) throws -> Result
  ) throws -> Result {
    try queue.wait(.derived, body)
  }
}

extension Cache {
  /// Writing calls that block the calling thread until the commit is durable.
  package var blocking: BlockingCommits { BlockingCommits(queue: queue) }
}
