import ChatCache
import Glibc
import Platform

/// Opens a directory's cache and kills itself in the migration, before step `step` (0: the first).
struct Opening {
  let directory: String
  let step: Int

  /// Returns an exit code if there are fewer steps, or the cache could not be opened.
  func run() -> Int32 {
    let begun = Guarded(0)
    do {
      let cache = try Cache(Cache.Configuration(directory: directory)) { _ in
        let number = begun.withLock { begun in
          defer { begun += 1 }
          return begun
        }
        if number == step { kill(getpid(), SIGKILL) }
      }
      cache.close()
      return 0
    } catch {
      Log.line(.error, "opening_failed", ["reason": .text("\(error)")])
      return 3
    }
  }
}
