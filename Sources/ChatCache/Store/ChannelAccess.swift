import ChatModel
import Platform
import SQLite

// Before a request reads rows, the cache finds the user, the user's view of the channel and what of the
// channel is covered. These change only with a commit, so they are read once and remembered until the next
// commit. The revision is compared at each use, so that nothing from before the last commit is used.

/// What a user may see of a channel, in one state of the cache.
package struct ChannelAccess: Sendable {
  /// The channel as the user sees it.
  package let view: ChannelView
  /// The stretches of the channel that are in the cache.
  package let coverage: Coverage
  /// The user's pending changes in the channel. Nil: there are none, or more than are kept in memory, and
  /// then each page reads them from the outbox.
  package let pending: PendingChanges?
  /// The revision at which reading began; nil: a COMMIT was under way.
  fileprivate let revision: UInt64?
}

extension Cache {
  /// The user's access to the channel, if it is remembered at the present revision. Its rows are read with
  /// `read(on:)`.
  package func rememberedAccess(of user: UserID, in url: ChannelURL) -> ChannelAccess? {
    log.revision.noteRead()
    guard let revision = log.revision.settled else { return nil }
    return memory.known(in: revision) { $0.access(of: user, in: url, revision) }
  }

  /// The revision that readers see now; nil during a COMMIT.
  package var settledRevision: UInt64? { log.revision.settled }

  /// Whether nothing was committed since the access was read.
  package func isStill(_ access: ChannelAccess) -> Bool {
    log.revision.noteRead()
    return access.revision.map { log.revision.settled == $0 } ?? false
  }

  /// Reads rows for a remembered access. Nil: a commit came between, so the caller begins again.
  package func read<Result: ~Copyable>(
    on access: ChannelAccess, _ body: (CacheReader) throws -> Result
  ) throws -> Result? {
    guard let revision = access.revision else { return nil }
    let result = try read(body)
    guard log.revision.isStill(revision) else { return nil }
    return result
  }

  /// Lends one snapshot with the user's access to the channel; nil if the user is not in the channel, or it
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
      // A view with `heldAt` is not remembered: it becomes wrong as soon as the user's changes are known, and
      // no commit tells of that.
      remember(view.heldAt == nil ? revision : nil) { found in
        let member = FoundAccess.Member(user: user, url: url)
        found.views[member] = view
        found.coverages[view.channel] = coverage
        if view.hasUnsent { found.pending[member] = pending }
      }
      return try body(
        reader, ChannelAccess(view: view, coverage: coverage, pending: pending, revision: revision))
    }
  }

  /// The channel as that user sees it; nil if the user is not in it, or it does not exist (B1).
  package func view(of url: ChannelURL, for user: UserID) throws -> ChannelView? {
    let (revision, member) = (log.revision.settled, FoundAccess.Member(user: user, url: url))
    if let revision,
      let known = memory.find(in: revision, { $0.views[member] }, { $0.views[member] = $1 })
    {
      return known
    }
    let view = try read { reader in
      try reader.userKey(of: user).flatMap { try reader.view(of: url, for: $0) }
    }
    guard let view else { return nil }
    remember(view.heldAt == nil ? revision : nil) { $0.views[member] = view }
    return view
  }

  /// Remembers values read at that revision, unless a commit came meanwhile or a page could not be read.
  private func remember(_ revision: UInt64?, _ keep: (inout FoundAccess) -> Void) {
    guard let revision, log.revision.isStill(revision), !ConnectionPool.metUnreadablePage else { return }
    memory.keep(in: revision, keep)
  }
}

/// The channel views and coverages that requests have read since the last commit.
struct FoundAccess: Findings {
  /// A user in a channel.
  struct Member: Hashable {
    let user: UserID
    let url: ChannelURL
  }

  var views: [Member: ChannelView] = [:]
  var coverages: [ChannelKey: Coverage] = [:]
  /// The users' pending changes that are small enough to be kept in memory.
  var pending: [Member: PendingChanges] = [:]

  var count: Int { max(views.count, coverages.count) }

  mutating func removeAll() {
    views.removeAll(keepingCapacity: true)
    coverages.removeAll(keepingCapacity: true)
    pending.removeAll(keepingCapacity: true)
  }

  /// The user's access to the channel. Nil: its view or its coverage was not read since the last commit.
  func access(of user: UserID, in url: ChannelURL, _ revision: UInt64) -> ChannelAccess? {
    let member = Member(user: user, url: url)
    guard let view = views[member], let coverage = coverages[view.channel] else { return nil }
    let pending = view.hasUnsent ? pending[member] : nil
    return ChannelAccess(view: view, coverage: coverage, pending: pending, revision: revision)
  }
}
