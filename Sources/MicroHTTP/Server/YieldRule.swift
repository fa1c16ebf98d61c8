/// Whether a worker lets other threads run once before it sleeps (decision 0019).
///
/// Often the next requests come just then, and to fall asleep and be woken costs more than to answer one. If
/// the worker gets the processor back late, another thread computed. That may have been a client, which shows
/// by what the other workers answered meanwhile. If it was none, the worker sleeps without yielding for a
/// while, so that its own clients wait no longer than they must.
struct YieldRule {
  /// A client or a worker gives the processor up sooner.
  private static let lateNanoseconds: UInt64 = 1_000_000
  /// A client that keeps a processor busy asks at least once in this time.
  private static let askNanoseconds: UInt64 = 50_000
  /// How long a worker does not yield after a thread that was no client computed.
  private static let pauseNanoseconds: UInt64 = 50_000_000

  private var pausedUntil: UInt64 = 0

  /// Whether to let others run at `now` (monotonic ns).
  func mayYield(now: UInt64) -> Bool { now >= pausedUntil }

  /// Others ran meanwhile (monotonic ns), and the server's workers answered so many requests.
  mutating func yielded(from began: UInt64, to ended: UInt64, answered: Int) {
    let took = ended - began
    if took > YieldRule.lateNanoseconds, UInt64(answered) < took / YieldRule.askNanoseconds {
      pausedUntil = ended + YieldRule.pauseNanoseconds
    }
  }
}
