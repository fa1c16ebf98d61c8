import ChatCache
import ChatModel
import Platform
import Synchronization

/// Tickets that were first used in time: each is good until it ends, over restarts too (B51).
///
/// They are kept in memory and in the database, at most `mostPerUser` of each user, so that no user pushes
/// out another user's tickets. Memory drops the one used longest ago, the database the one stored first.
final class UsedTickets: Sendable {
  /// How many tickets of one user are kept.
  static let mostPerUser = 100

  private let memory = Guarded(TicketMemory())
  private let cache = Guarded<Cache?>(nil)
  /// How many tickets no request has begun to store.
  private let unstored = Atomic<Int>(0)

  /// Stores tickets in that database from now on.
  func keep(in cache: Cache) { self.cache.withLock { $0 = cache } }

  /// Whether a ticket is accepted: it was used before, or this is its first use and in time.
  func use(_ ticket: StreamTicket, now: Int64) throws -> Bool {
    if change({ $0.use(ticket) }) { return true }
    let isFirst = now - ticket.issued <= StreamTicket.firstUseMilliseconds
    if !isFirst {
      // The database knows it if it was used before the last start, or if memory has dropped it.
      guard let cache = cache.withLock({ $0 }),
        try cache.read({ try $0.isTicketKept(ticket.code, at: now / 1000) })
      else { return false }
    }
    change { $0.add(ticket, isStored: !isFirst, now: now / 1000) }
    return true
  }

  private func change<Result>(_ body: (inout TicketMemory) -> Result) -> Result {
    memory.withLock { memory in
      defer { unstored.store(memory.unstored, ordering: .relaxed) }
      return body(&memory)
    }
  }

  /// Whether a ticket waits to be stored. Each request asks, so this takes no lock.
  var hasUnstored: Bool { unstored.load(ordering: .relaxed) > 0 }

  /// Stores a ticket that is not stored yet, and calls `finish` when the commit is durable. False: there is
  /// nothing to store.
  ///
  /// If the disk fails, the ticket is still accepted, but only until the next start (B60).
  func store(_ ticket: StreamTicket, then finish: @escaping @Sendable () -> Void) -> Bool {
    guard let cache = cache.withLock({ $0 }), change({ $0.take(ticket) }) else { return false }
    let user = UserID(ticket.user)
    cache.accept {
      try $0.keepTicket(ticket.code, of: user, until: ticket.expires, most: UsedTickets.mostPerUser)
    } finish: { outcome in
      if case .failure(let error) = outcome {
        Log.line(.warning, "ticket_not_stored", ["reason": .text("\(error)")])
      }
      finish()
    }
    return true
  }

  /// How many tickets of a user are in memory.
  func count(of user: UserID) -> Int { memory.withLock { $0.count(of: user) } }
}

/// The tickets in memory, for each user in the order of their last use.
private struct TicketMemory {
  private struct Used {
    let code: [UInt8]
    let expires: Int64
    /// Whether the ticket is in the database, or a request has begun to store it.
    var isStored: Bool
  }

  private var byUser: [UserID: [Used]] = [:]
  /// At so many users, those whose tickets have all ended are removed.
  private var usersLookedThroughAt = 1024
  /// How many tickets have `isStored` false.
  private(set) var unstored = 0

  func count(of user: UserID) -> Int { byUser[user]?.count ?? 0 }

  private func index(of ticket: StreamTicket) -> Int? {
    byUser[UserID(ticket.user)]?.firstIndex { $0.code == ticket.code }
  }

  /// Finds a ticket and makes it the last one used.
  mutating func use(_ ticket: StreamTicket) -> Bool {
    guard let index = index(of: ticket) else { return false }
    let user = UserID(ticket.user)
    guard let used = byUser[user]?.remove(at: index) else { return false }
    byUser[user]?.append(used)
    return true
  }

  /// Adds a ticket unless another request added it meanwhile.
  mutating func add(_ ticket: StreamTicket, isStored: Bool, now: Int64) {
    guard index(of: ticket) == nil else { return }
    let user = UserID(ticket.user)
    let before = byUser[user] ?? []
    var after = before.filter { $0.expires > now }
    after.append(Used(code: ticket.code, expires: ticket.expires, isStored: isStored))
    after = Array(after.suffix(UsedTickets.mostPerUser))
    byUser[user] = after
    unstored += after.count { !$0.isStored } - before.count { !$0.isStored }
    guard byUser.count >= usersLookedThroughAt else { return }
    byUser = byUser.filter { $0.value.contains { $0.expires > now } }
    unstored = byUser.values.reduce(0) { $0 + $1.count { !$0.isStored } }
    usersLookedThroughAt = max(1024, byUser.count * 2)
  }

  /// Claims the storing of a ticket for the caller; false if another request claimed it.
  mutating func take(_ ticket: StreamTicket) -> Bool {
    let user = UserID(ticket.user)
    guard let index = index(of: ticket), byUser[user]?[index].isStored == false else { return false }
    byUser[user]?[index].isStored = true
    unstored -= 1
    return true
  }
}
