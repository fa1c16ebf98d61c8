/// Whether a worker lets other threads run once before it sleeps (decision 0019).
///
/// Often the next requests come just then, and to fall asleep and be woken costs more than to answer one. If
/// the worker gets the processor back late, another thread computed. If that was a client, the other workers
/// have answered it meanwhile. If not, the worker sleeps without yielding for a while, so that its own
/// clients wait no longer than they must.
struct YieldRule {
  /// A yield of more than this is late: a client or a worker gives the processor up sooner.
  private static let lateNanoseconds: UInt64 = 1_000_000
  /// A client that keeps a processor busy sends at least one request in this time.
  private static let askNanoseconds: UInt64 = 50_000
  /// How long a worker does not yield after a thread that was no client computed.
  private static let pauseNanoseconds: UInt64 = 50_000_000

  private var pausedUntil: UInt64 = 0

  /// Whether to let others run at `now` (monotonic ns).
  func mayYield(now: UInt64) -> Bool { now >= pausedUntil }

  /// Notes a yield (monotonic ns) during which the server's workers answered `answered` requests.
  mutating func yielded(from began: UInt64, to ended: UInt64, answered: Int) {
    let took = ended - began
    if took > YieldRule.lateNanoseconds, UInt64(answered) < took / YieldRule.askNanoseconds {
      pausedUntil = ended + YieldRule.pauseNanoseconds
    }
  }
}
