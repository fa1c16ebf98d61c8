import ChatCache
import ChatModel

/// The work of all users, and the lines in which they wait: the next one of thousands is found without a
/// search.
struct UserTable: Sendable {
  private(set) var works: [UserID: UserWork] = [:]
  /// The users whom the upstream refused once and who are not closed (B5).
  private(set) var refused: Set<UserID> = []
  /// The users whose channels are being listed, and those with another job, by the moment at which the job
  /// may begin. Each has a line of those who come first and a line of the others.
  private var listings = Lines()
  private var polls = Lines()
  /// The users of whom the upstream is to be asked whether it knows them, by the moment at which it may be.
  /// They are in another line, too.
  private var connects = PriorityLine<UserID, Int64>()
  /// The active users, by a moment before which they do not go idle.
  private var rests = PriorityLine<UserID, Int64>()

  /// The users who may let more lanes begin than before, since `takeOpened`.
  private var opened: Set<UserID> = []

  private struct Lines: Sendable {
    var preferred = PriorityLine<UserID, Int64>()
    var others = PriorityLine<UserID, Int64>()
    /// Whether a client waited for the last one's poll.
    private var wasAwaited = false

    /// The first who is due, of the preferred ones if there are some. After a poll that a client waits for,
    /// one of the others is next, so that clients who ask all the time keep nobody waiting for ever.
    mutating func next(now: Int64, isAwaited: (UserID) -> Bool) -> UserID? {
      let (preferred, other) = (due(preferred, now), due(others, now))
      let next = wasAwaited ? other ?? preferred : preferred ?? other
      wasAwaited = next.map(isAwaited) ?? false
      return next
    }

    private func due(_ line: PriorityLine<UserID, Int64>, _ now: Int64) -> UserID? {
      line.first.flatMap { $0.rank <= now ? $0.key : nil }
    }

    mutating func put(_ turn: UserWork.Turn?, of user: UserID) {
      preferred[user] = turn.flatMap { $0.isPreferred ? $0.since : nil }
      others[user] = turn.flatMap { $0.isPreferred ? nil : $0.since }
    }
  }

  /// All users.
  var names: [UserID] { Array(works.keys) }

  /// The user's work, nil for none. Each change also updates the queues in which the user waits.
  subscript(user: UserID) -> UserWork? {
    get { works[user] }
    _modify {
      let before = Traits(works[user])
      defer { note(user, since: before) }
      yield &works[user]
    }
  }

  /// The user of whom the upstream is to be asked first whether it knows the user, and when it may be.
  var firstConnect: (user: UserID, moment: Int64)? { connects.first.map { ($0.key, $0.rank) } }

  /// The values of a user's work on which the lines depend, and whether the user's lanes may begin.
  private struct Traits {
    let turn: UserWork.Turn?
    let sendGate: Int64
    let mayUpload: Bool
    let connectAt: Int64?

    init(_ work: UserWork?) {
      connectAt = work.flatMap { $0.isFree && $0.phase == .connecting ? $0.pollAt : nil }
      (turn, sendGate, mayUpload) = (work?.turn, work?.sendGate ?? .min, work?.mayUpload ?? false)
    }
  }

  /// The users whose lanes may begin and might not at the last call (`UserWork.sendGate`).
  mutating func takeOpened() -> Set<UserID> {
    defer { opened = [] }
    return opened
  }

  /// How many users are active.
  var active: Int { rests.count }

  /// The first user in line whose next job is due. `isListing`: in the line of listings.
  mutating func next(isListing: Bool, now: Int64) -> UserID? {
    func isAwaited(_ user: UserID) -> Bool { works[user]?.isAwaited ?? false }
    return isListing
      ? listings.next(now: now, isAwaited: isAwaited) : polls.next(now: now, isAwaited: isAwaited)
  }

  /// The first user in line whose listing comes before others and is due.
  func preferredListing(now: Int64) -> UserID? {
    listings.preferred.first.flatMap { $0.rank <= now ? $0.key : nil }
  }

  /// When the poll that comes first of those that no client waits for is or was due; nil: there is none.
  var usualPollDueAt: Int64? { polls.others.first?.rank }

  /// When the next job of a user may begin; nil: none is due.
  func dueAt(withListings: Bool) -> Int64? {
    (withListings ? [polls, listings] : [polls]).flatMap { [$0.preferred, $0.others] }
      .compactMap(\.first?.rank).min()
  }

  /// A user who may go idle at `now`; nil: there is none. The user is looked at again after `later`.
  mutating func nextToRest(now: Int64, later: Int64) -> UserID? {
    guard let (user, moment) = rests.first, moment <= now else { return nil }
    let restAt = works[user]?.restAt ?? now
    rests[user] = restAt > now ? restAt : now + later
    return user
  }

  /// Updates the lines after a change of the user's work.
  private mutating func note(_ user: UserID, since before: Traits) {
    let work = works[user]
    let after = Traits(work)
    if after.sendGate > before.sendGate || after.mayUpload && !before.mayUpload { opened.insert(user) }
    if work?.state.refusedAt != nil { refused.insert(user) } else { refused.remove(user) }
    // A request moves the moment of rest; the user is looked at before it, and then the moment is read again.
    if work?.state.isActive != true {
      rests[user] = nil
    } else if rests[user] == nil {
      rests[user] = work?.restAt
    }
    if after.connectAt != before.connectAt { connects[user] = after.connectAt }
    guard after.turn != before.turn else { return }
    listings.put(after.turn.flatMap { $0.isListing ? $0 : nil }, of: user)
    polls.put(after.turn.flatMap { $0.isListing ? nil : $0 }, of: user)
  }
}
