/// How many writes a batch takes in, and how long it waits for them.
///
/// Clients who were answered together send their next request within moments. If the next batch were
/// committed without them, they would wait for two commits.
///
/// The chat server's answers to sends come one by one, and each commit of them costs a sync. So they wait for
/// half of the sends that are under way. The chat server is asked for the other half while the writer
/// commits.
///
/// A batch with clients' writes takes in one write of other work, such as what sync stores, if the batch
/// before it took in none. Everything that a batch takes in delays its clients' answers, and fills the WAL,
/// whose restarts delay them too. Without that share other work would wait for as long as clients write
/// without a pause.
struct Gathering {
  /// A batch with a client's write takes in no more writes once it has this many.
  private let expected: Int
  /// Whether the last batch had writes of several clients. Their next ones come within moments.
  let followsClients: Bool
  /// How many derived writes the batch takes in if it has clients' writes, and how many it took in.
  private let share: Int
  private var derived = 0
  /// From this moment on the batch waits for nothing more (monotonic ns); 0: it waits for nothing at all.
  private let deadline: UInt64
  /// The number of clients' writes taken in.
  private var promises = 0
  /// The number of answers to sends that the batch has, and the number at which it stops waiting for more.
  private var answers = 0
  private var expectedAnswers = 0
  /// The batch stops waiting at this moment unless another write comes (monotonic ns). Nil while the last
  /// write taken in runs.
  private var quietFrom: UInt64?

  static let longestNanoseconds: UInt64 = 20_000_000
  /// The batch is committed when nothing came for this long.
  static let quietNanoseconds: UInt64 = 3_000_000

  /// The first batch takes the writes that are queued, and waits for none.
  init() { (expected, followsClients, share, deadline) = (0, false, 1, 0) }

  /// The batch after `last`. `arrived`: how many clients' writes came before `last` was answered.
  init(after last: Gathering, arrived: Int, began: UInt64, ended: UInt64) {
    expected = arrived + last.promises
    followsClients = last.promises > 1
    share = last.derived > 0 ? 0 : 1
    // A batch never waits for a single sender, and no longer than the last batch took.
    let isShared = last.promises > 1 || last.answers > 1
    deadline = isShared ? ended + min(ended - began, Gathering.longestNanoseconds) : 0
  }

  /// Counts a write that the batch took in.
  mutating func took(_ importance: CommitQueue.Importance) {
    switch importance {
    case .intent: promises += 1
    case .urgent(let sends):
      answers += 1
      expectedAnswers = max(expectedAnswers, sends / 2)
    case .derived, .room:
      derived += 1
      return
    }
    quietFrom = nil
  }

  /// Whether the batch takes in one more derived write.
  var takesDerived: Bool { derived < share || !(hasClients || followsClients) }

  /// Whether it took in a client's write.
  var hasClients: Bool { promises > 0 }

  /// All writes taken in have run by `now`.
  mutating func ran(by now: UInt64) { quietFrom = quietFrom ?? now + Gathering.quietNanoseconds }

  /// Whether the batch takes one more write that is queued already. A batch with a client's write does so
  /// however long it has run, because the client would otherwise wait for two commits; it waits for no
  /// answers to sends. A batch of derived writes stays open for the clients that were just answered, because
  /// their next writes would come during its commit.
  func isOpen(at now: UInt64) -> Bool {
    if promises > 0 { return promises + answers < expected && deadline > 0 }
    return now < deadline
      && (followsClients || (answers > 0 ? answers < expectedAnswers : expected > 0))
  }

  /// Whether an open batch waits for the next write.
  func isWaiting(at now: UInt64) -> Bool {
    isOpen(at: now) && now < deadline && quietFrom.map { now < $0 } ?? true
  }
}
