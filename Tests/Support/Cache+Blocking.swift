import ChatCache

// A test's own thread may wait for the disk.
extension Cache {
  /// See `BlockingCommits`.
  @discardableResult
  package func accept<Result: Sendable>(
    _ body: @escaping @Sendable (CacheWriter) throws -> Result
  ) throws -> Result {
    try blocking.accept(body)
  }

  /// See `BlockingCommits`.
  @discardableResult
  package func write<Result: Sendable>(
    _ body: @escaping @Sendable (CacheWriter) throws -> Result
  ) throws -> Result {
    try blocking.write(body)
  }
}
