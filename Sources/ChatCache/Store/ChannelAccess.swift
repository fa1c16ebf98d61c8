import ChatModel
import Platform
import SQLite

// Before any row is read for a request it is decided who asks, how that user sees the channel and what of the
// channel is covered. Each changes with a commit alone, so it is read once after a commit and remembered
// until the next one. Nothing of it is ever older than the last commit: the revision is compared at each use.

/// What a user may see of a channel, in one state of the cache.
package struct ChannelAccess: Sendable {
  /// The channel as the user sees it.
  package let view: ChannelView
  /// What of the channel is in the cache.
  package let coverage: Coverage
  /// What the user has unsent in the channel; nil where there is nothing, or too much to be remembered.
  package let pending: PendingChanges?
  /// The state, where it was the same before and after reading.
  fileprivate let revision: UInt64?
}

extension Cache {
  /// What the user may see of the channel, if that is remembered of the present state: rows are read by
  /// `read(on:)`.
  package func rememberedAccess(of user: UserID, in url: ChannelURL) -> ChannelAccess? {
    log.revision.noteRead()
    guard let revision = log.revision.settled else { return nil }
    return memory.shelf(revision) { shelf in
      let place = ChannelAccessCache.Place(user: user, url: url)
      guard let view = shelf.views[place], let coverage = shelf.coverages[view.channel] else { return nil }
      let pending = view.hasUnsent ? shelf.pending[place] : nil
      return ChannelAccess(view: view, coverage: coverage, pending: pending, revision: revision)
    }
  }

  /// The number of the state that readers see now; nil while it changes.
  package var settledRevision: UInt64? { log.revision.settled }

  /// Whether nothing was committed since the access was read.
  package func isStill(_ access: ChannelAccess) -> Bool {
    log.revision.noteRead()
    return access.revision.map { log.revision.settled == $0 } ?? false
  }

  /// Reads what belongs to a remembered access; nil where a commit came between: begin again.
  package func read<Result: ~Copyable>(
    on access: ChannelAccess, _ body: (CacheReader) throws -> Result
  ) throws -> Result? {
    guard let revision = access.revision else { return nil }
    let result = try read(body)
    guard log.revision.isStill(revision) else { return nil }
    return result
  }

  /// Lends one snapshot with the access of the user; without one where the user is not in the channel, or it
  /// does not exist (B1).
  package func read<Result: ~Copyable>(
    _ user: UserID, in url: ChannelURL, _ body: (CacheReader, ChannelAccess?) throws -> Result
  ) throws -> Result {
    let revision = log.revision.settled
    return try read { reader in
      guard let key = try reader.userKey(of: user), let view = try reader.view(of: url, for: key) else {
        return try body(reader, nil)
      }
      let coverage = try reader.coverage(of: view.channel)
      let pending = try reader.pendingChanges(in: view).flatMap { $0.isSmall ? $0 : nil }
      remember(revision) { shelf in
        let place = ChannelAccessCache.Place(user: user, url: url)
        shelf.views[place] = view
        shelf.coverages[view.channel] = coverage
        if view.hasUnsent { shelf.pending[place] = pending }
      }
      return try body(
        reader, ChannelAccess(view: view, coverage: coverage, pending: pending, revision: revision))
    }
  }

  /// The channel as that user sees it; nil where the user is not in it, or it does not exist (B1).
  package func view(of url: ChannelURL, for user: UserID) throws -> ChannelView? {
    let (revision, place) = (log.revision.settled, ChannelAccessCache.Place(user: user, url: url))
    if let revision, let known = memory.find(revision, { $0.views[place] }, { $0.views[place] = $1 }) {
      return known
    }
    let view = try read { reader in
      try reader.userKey(of: user).flatMap { try reader.view(of: url, for: $0) }
    }
    guard let view else { return nil }
    remember(revision) { $0.views[place] = view }
    return view
  }

  /// Keeps what was read since that state was found, unless a commit came meanwhile.
  private func remember(_ revision: UInt64?, _ keep: (inout ChannelAccessCache.Shelf) -> Void) {
    guard let revision, log.revision.isStill(revision), !ConnectionPool.metUnreadablePage else { return }
    memory.keep(revision, keep)
  }
}

/// What was read since the last commit. A thread has a shelf that it seldom shares, so nobody waits; what is
/// not on it may be on the one of all.
final class ChannelAccessCache: Sendable {
  /// A user in a channel.
  struct Place: Hashable {
    let user: UserID
    let url: ChannelURL
  }

  /// What is remembered of one state.
  struct Shelf {
    fileprivate var revision: UInt64 = 0
    var views: [Place: ChannelView] = [:]
    var coverages: [ChannelKey: Coverage] = [:]
    /// What users have unsent, where it is little.
    var pending: [Place: PendingChanges] = [:]

    /// Forgets all rather than choose, where so much of each is kept.
    mutating func makeRoom(_ most: Int) {
      if views.count >= most { views.removeAll(keepingCapacity: true) }
      if coverages.count >= most { coverages.removeAll(keepingCapacity: true) }
      if pending.count >= most { pending.removeAll(keepingCapacity: true) }
    }

    fileprivate mutating func turn(to revision: UInt64) {
      guard revision != self.revision else { return }
      self.revision = revision
      views.removeAll(keepingCapacity: true)
      coverages.removeAll(keepingCapacity: true)
      pending.removeAll(keepingCapacity: true)
    }
  }

  private let shelves = (0..<16).map { _ in Guarded(Shelf()) }
  private let common = Guarded(Shelf())
  /// How much of each is kept by a thread, and by all.
  private static let (mostOfThread, mostOfAll) = (192, 1536)

  /// Lends this thread's shelf with what it has of the state of that number.
  func shelf<Result>(_ revision: UInt64, _ body: (inout Shelf) -> Result) -> Result {
    shelves[Thread.currentNumber % shelves.count].withLock { shelf in
      shelf.turn(to: revision)
      return body(&shelf)
    }
  }
  /// What this thread has of the state of that number, or else what any has, which it keeps then.
  func find<Value>(
    _ revision: UInt64, _ look: (borrowing Shelf) -> Value?, _ keep: (inout Shelf, Value) -> Void
  ) -> Value? {
    if let known = shelf(revision, { look($0) }) { return known }
    let found = common.withLock { common in common.revision == revision ? look(common) : nil }
    if let found {
      shelf(revision) { shelf in
        shelf.makeRoom(ChannelAccessCache.mostOfThread)
        keep(&shelf, found)
      }
    }
    return found
  }

  /// Keeps what was read of the state of that number.
  func keep(_ revision: UInt64, _ keep: (inout Shelf) -> Void) {
    shelf(revision) { shelf in
      shelf.makeRoom(ChannelAccessCache.mostOfThread)
      keep(&shelf)
    }
    common.withLock { common in
      // A later state than this one may be there already.
      guard revision >= common.revision else { return }
      common.turn(to: revision)
      common.makeRoom(ChannelAccessCache.mostOfAll)
      keep(&common)
    }
  }
}
