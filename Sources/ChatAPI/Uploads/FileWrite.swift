import ChatCache
import MicroHTTP

/// Stores a file and then the row that names it. If the row is not stored, the file is removed.
struct FileWrite: Sendable {
  private let cache: Cache
  private let file: IncomingFile

  init(_ cache: Cache, _ file: IncomingFile) {
    self.cache = cache
    self.file = file
  }

  /// Calls `finish` when file and row are on the disk, or could not be stored. `keeps`: whether the stored
  /// row names the file.
  func store<Made: Sendable>(
    _ body: @escaping @Sendable (CacheWriter) throws -> Made, _ keeps: @escaping @Sendable (Made) -> Bool,
    _ finish: @escaping @Sendable (Result<Made, any Error>) -> Void
  ) {
    let (cache, name, isOnlyHashed) = (cache, file.name, file.isOnlyHashed)
    cache.spool.keep(file) { error in
      if let error { return finish(.failure(Problem(error))) }
      cache.accept { writer in
        let made = try body(writer)
        if isOnlyHashed, keeps(made) { throw Problem(SpoolError.forgotten) }
        return made
      } finish: { result in
        switch result {
        case .success(let made) where keeps(made): cache.spool.settled(name)
        // Nobody knows whether the row is there: `SpoolJanitor` looks.
        case .failure(CacheError.outcomeUnknown): cache.spool.settled(name)
        case .success, .failure: cache.spool.remove(name)
        }
        finish(result)
      }
    }
  }
}
