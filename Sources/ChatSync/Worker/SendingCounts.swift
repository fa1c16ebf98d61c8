import ChatCache
import Synchronization

/// How requests that send ended, counted since the start, for `/metrics`.
package final class SendingCounts: Sendable {
  /// How a request ended. The names are the metric's labels.
  package enum End: String, CaseIterable, Sendable {
    /// The chat server carried the request out, or a look found that it had.
    case done
    /// The chat server says that it has the request already.
    case duplicate
    /// The chat server refused it.
    case rejected
    /// The chat server asked to wait (429).
    case rateLimited = "rate_limited"
    /// The link was at fault: nothing was done.
    case unreachable
    /// The chat server may have carried it out.
    case uncertain
    /// A look did not find the message.
    case absent
  }

  private let done = Atomic<Int64>(0)
  private let duplicate = Atomic<Int64>(0)
  private let rejected = Atomic<Int64>(0)
  private let rateLimited = Atomic<Int64>(0)
  private let unreachable = Atomic<Int64>(0)
  private let uncertain = Atomic<Int64>(0)
  private let absent = Atomic<Int64>(0)
  private let lookCount = Atomic<Int64>(0)
  private let uploadCount = Atomic<Int64>(0)
  private let refusedCount = Atomic<Int64>(0)
  private let interruptedCount = Atomic<Int64>(0)

  /// Files that were uploaded, refused, and those whose upload ended otherwise and is tried again.
  package var uploads: (done: Int64, refused: Int64, interrupted: Int64) {
    (
      uploadCount.load(ordering: .relaxed), refusedCount.load(ordering: .relaxed),
      interruptedCount.load(ordering: .relaxed)
    )
  }

  /// An upload ended.
  func countUpload(_ outcome: OutboxLane.Outcome) {
    switch outcome {
    case .success: uploadCount.add(1, ordering: .relaxed)
    case .rejection: refusedCount.add(1, ordering: .relaxed)
    default: interruptedCount.add(1, ordering: .relaxed)
    }
  }

  /// Listings that looked for a message that may have arrived.
  package var looks: Int64 { lookCount.load(ordering: .relaxed) }

  /// How many requests ended in this way.
  package subscript(_ end: End) -> Int64 {
    switch end {
    case .done: done.load(ordering: .relaxed)
    case .duplicate: duplicate.load(ordering: .relaxed)
    case .rejected: rejected.load(ordering: .relaxed)
    case .rateLimited: rateLimited.load(ordering: .relaxed)
    case .unreachable: unreachable.load(ordering: .relaxed)
    case .uncertain: uncertain.load(ordering: .relaxed)
    case .absent: absent.load(ordering: .relaxed)
    }
  }

  /// A request of a lane ended.
  func count(_ job: OutboxLane.Job, _ outcome: OutboxLane.Outcome) {
    if case .look = job { lookCount.add(1, ordering: .relaxed) }
    switch outcome {
    case .success: done.add(1, ordering: .relaxed)
    case .duplicate: duplicate.add(1, ordering: .relaxed)
    case .rejection: rejected.add(1, ordering: .relaxed)
    case .wait: rateLimited.add(1, ordering: .relaxed)
    case .linkFault: unreachable.add(1, ordering: .relaxed)
    case .uncertain: uncertain.add(1, ordering: .relaxed)
    case .absent: absent.add(1, ordering: .relaxed)
    }
  }
}
