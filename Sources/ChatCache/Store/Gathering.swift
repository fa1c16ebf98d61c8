/// How many writes a batch takes in, and how long it waits for them.
///
/// Clients who were answered together send their next request within moments. If the next batch were
/// committed without them, they would wait for two commits.
///
/// The chat server's answers to sends come one by one, and each commit of them costs a sync. So they wait for
/// half of the sends that are under way. The chat server is asked for the other half while the writer
/// commits.
///
/// Everything that a batch takes in delays its clients' answers, and fills the WAL, whose restarts delay them
/// too. Yet other work, such as what sync stores, may not wait for as long as clients write without a pause.
/// So a batch with clients' writes runs other work for half of the time that the last batch took, and no
/// longer than 2 ms. If it takes longer, the next batches with clients' writes make up for it, up to 20 ms.
struct Gathering {
  /// A batch with a client's write takes in no more writes once it has this many.
  private let expected: Int
  /// Whether the last batch had writes of several clients. Their next ones come within moments.
  let followsClients: Bool
  /// For how long the batch may run derived writes if it has clients' writes (ns). Nothing, or less, if such
  /// writes took longer in the batches before.
  private var leftForDerived: Int64
  /// Since when the derived write that was taken in last has run (monotonic ns). Nil: none runs.
  private var derivedSince: UInt64?
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
  private static let mostDebt: Int64 = -20_000_000
  private static let longestShareNanoseconds: UInt64 = 2_000_000
  /// The batch is committed when nothing came for this long.
  static let quietNanoseconds: UInt64 = 3_000_000

  /// The first batch takes the writes that are queued, and waits for none.
  init() { (expected, followsClients, leftForDerived, deadline) = (0, false, 1, 0) }

  /// The batch after `last`. `arrived`: how many clients' writes came before `last` was answered.
  init(after last: Gathering, arrived: Int, began: UInt64, ended: UInt64) {
    expected = arrived + last.promises
    followsClients = last.promises > 1
    let share = min((ended - began) / 2, Gathering.longestShareNanoseconds)
    let debt = last.hasClients ? min(max(last.leftForDerived, Gathering.mostDebt), 0) : 0
    leftForDerived = debt + Int64(share)
    // A batch never waits for a single sender, and no longer than the last batch took.
    let isShared = last.promises > 1 || last.answers > 1
    deadline = isShared ? ended + min(ended - began, Gathering.longestNanoseconds) : 0
  }

  /// Counts a write that the batch took in at `now`.
  mutating func took(_ importance: CommitQueue.Importance, at now: UInt64) {
    switch importance {
    case .intent: promises += 1
    case .urgent(let sends):
      answers += 1
      expectedAnswers = max(expectedAnswers, sends / 2)
    case .derived, .room:
      derivedSince = now
      return
    }
    quietFrom = nil
  }

  /// Whether the batch takes in one more derived write.
  var takesDerived: Bool { leftForDerived > 0 || !(hasClients || followsClients) }

  /// Whether it took in a client's write.
  var hasClients: Bool { promises > 0 }

  /// All writes taken in have run by `now`.
  mutating func ran(by now: UInt64) {
    if let since = derivedSince { leftForDerived -= Int64(now - since) }
    derivedSince = nil
    quietFrom = quietFrom ?? now + Gathering.quietNanoseconds
  }

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
