import Platform
import TestSupport
import Testing

@testable import ChatCache

/// How many writes share a commit, and how long the first of them waits.
@Suite struct GatheringTests {
  private static let ms: UInt64 = 1_000_000

  /// The gathering after a batch that lasted 6 ms and ended at 10 ms.
  private func next(after taken: [CommitQueue.Importance], arrived: Int = 0) -> Gathering {
    var last = Gathering()
    for importance in taken { last.took(importance, at: 4 * Self.ms) }
    return Gathering(after: last, arrived: arrived, began: 4 * Self.ms, ended: 10 * Self.ms)
  }

  /// That gathering after it took `count` writes and ran them by 11 ms.
  private func taking(
    _ gathering: Gathering, _ importance: CommitQueue.Importance, _ count: Int
  ) -> Gathering {
    var gathering = gathering
    for _ in 0..<count { gathering.took(importance, at: 10 * Self.ms) }
    gathering.ran(by: 11 * Self.ms)
    return gathering
  }

  @Test("a sender alone waits for nobody, whatever came before")
  func alone() {
    for before: [CommitQueue.Importance] in [[], [.intent], [.derived], [.derived, .derived, .intent]] {
      #expect(!taking(next(after: before), .intent, 1).isOpen(at: 11 * Self.ms), "\(before)")
    }
  }

  @Test("a batch waits for those who were answered and for those who came meanwhile, and no longer")
  func together() {
    let four = next(after: [.intent, .intent, .intent, .intent], arrived: 2)
    #expect(taking(four, .intent, 1).isWaiting(at: 11 * Self.ms))
    #expect(taking(four, .intent, 5).isWaiting(at: 11 * Self.ms))
    #expect(!taking(four, .intent, 6).isOpen(at: 11 * Self.ms))
  }

  @Test("a batch waits no longer than the last one took, and 20 ms at most")
  func bounded() {
    var late = next(after: [.intent, .intent])
    late.took(.intent, at: 10 * Self.ms)
    late.ran(by: 15 * Self.ms)
    #expect(late.isWaiting(at: 16 * Self.ms - 1) && !late.isWaiting(at: 16 * Self.ms))
    var last = Gathering()
    for _ in 0..<2 { last.took(.intent, at: 0) }
    var slow = Gathering(after: last, arrived: 0, began: 0, ended: 900 * Self.ms)
    slow.took(.intent, at: 900 * Self.ms)
    slow.ran(by: 919 * Self.ms)
    #expect(slow.isWaiting(at: 920 * Self.ms - 1) && !slow.isWaiting(at: 920 * Self.ms))
  }

  @Test("a batch is committed when nothing came for 3 ms after its writes ran")
  func quiet() {
    let first = taking(next(after: [.intent, .intent]), .intent, 1)
    #expect(first.isWaiting(at: 14 * Self.ms - 1) && !first.isWaiting(at: 14 * Self.ms))
  }

  @Test("what came while slow writes ran is taken in, though nothing was taken for 3 ms")
  func slow() {
    var batch = next(after: Array(repeating: .intent, count: 4), arrived: 4)
    for _ in 0..<4 { batch.took(.intent, at: 10 * Self.ms) }
    #expect(batch.isWaiting(at: 15 * Self.ms), "they run")
    batch.ran(by: 15 * Self.ms)
    #expect(batch.isOpen(at: 15 * Self.ms) && batch.isWaiting(at: 15 * Self.ms))
    batch.took(.derived, at: 15 * Self.ms)
    batch.ran(by: 15 * Self.ms + 1)
    #expect(batch.isWaiting(at: 16 * Self.ms - 1), "a derived write ends nothing")
    batch.ran(by: 90 * Self.ms)
    #expect(batch.isOpen(at: 90 * Self.ms) && !batch.isWaiting(at: 90 * Self.ms), "what is there already")
  }

  @Test("a batch of other work waits for those who were just answered, and for nobody else")
  func otherWork() {
    let after = next(after: [.intent, .intent])
    #expect(taking(after, .derived, 1).isWaiting(at: 11 * Self.ms))
    #expect(!taking(after, .derived, 1).isWaiting(at: 14 * Self.ms), "nobody came for 3 ms")
    #expect(taking(taking(after, .derived, 1), .intent, 1).isWaiting(at: 11 * Self.ms))
    #expect(!taking(next(after: [.derived, .derived]), .derived, 1).isOpen(at: 11 * Self.ms))
    #expect(!taking(next(after: [.intent]), .derived, 1).isOpen(at: 11 * Self.ms), "a sender alone")
  }

  @Test("a batch with clients' writes runs other work for half of the time of the last batch, 2 ms at most")
  func share() {
    let shares: [(UInt64, UInt64)] = [(1, 500_000), (3, 1_500_000), (6, 2_000_000), (900, 2_000_000)]
    for (lasted, share) in shares {
      var last = Gathering()
      last.took(.intent, at: 0)
      var batch = Gathering(after: last, arrived: 0, began: 0, ended: lasted * Self.ms)
      batch.took(.intent, at: lasted * Self.ms)
      var now = (lasted + 1) * Self.ms
      batch.ran(by: now)
      var ran: UInt64 = 0
      while batch.takesDerived, ran < 10 * Self.ms {
        batch.took(.derived, at: now)
        now += 100_000
        ran += 100_000
        batch.ran(by: now)
      }
      #expect(ran == share, "\(lasted) ms")
    }
  }

  @Test("other work that takes longer than its share is paid for by the next batches, and has its turn again")
  func debt() {
    var batch = taking(next(after: [.intent, .intent]), .intent, 1)
    #expect(batch.takesDerived)
    batch.took(.derived, at: 11 * Self.ms)
    batch.ran(by: 18 * Self.ms)
    // 2 ms of the 7 were the batch's own share, and each of the next ones lasts 4 ms.
    var taken: [Bool] = []
    for _ in 0..<4 {
      batch = taking(
        Gathering(after: batch, arrived: 0, began: 6 * Self.ms, ended: 10 * Self.ms), .intent, 1)
      taken.append(batch.takesDerived)
    }
    #expect(taken == [false, false, true, true])
    // Other work before clients came is no debt, and a debt has an end.
    var long = Gathering()
    long.took(.derived, at: 0)
    long.ran(by: 900 * Self.ms)
    #expect(taking(Gathering(after: long, arrived: 1, began: 0, ended: Self.ms), .intent, 1).takesDerived)
    long.took(.intent, at: 900 * Self.ms)
    var batches = 0
    while !taking(long, .intent, 1).takesDerived {
      long = taking(Gathering(after: long, arrived: 0, began: 0, ended: 4 * Self.ms), .intent, 1)
      batches += 1
    }
    #expect((5...12).contains(batches), "\(batches)")
  }

  @Test("other work is bounded only beside clients, and beside those who come soon")
  func unbounded() {
    let quiet = taking(next(after: [.intent]), .derived, 100)
    #expect(quiet.takesDerived)
    var late = quiet
    late.took(.derived, at: 11 * Self.ms)
    late.ran(by: 30 * Self.ms)
    #expect(late.takesDerived && !taking(late, .intent, 1).takesDerived)
    var soon = taking(next(after: [.derived, .intent, .intent]), .derived, 1)
    #expect(soon.takesDerived)
    soon.took(.derived, at: 11 * Self.ms)
    soon.ran(by: 14 * Self.ms)
    #expect(!soon.takesDerived, "clients come soon")
  }

  @Test("a batch that begins with an answer to a send waits for the clients who were just answered")
  func answersFirst() {
    let after = next(after: [.intent, .intent, .intent])
    #expect(taking(after, .urgent(among: 1), 1).isWaiting(at: 11 * Self.ms))
    #expect(!taking(taking(after, .urgent(among: 1), 1), .intent, 2).isOpen(at: 11 * Self.ms))
    #expect(!taking(next(after: [.intent]), .urgent(among: 1), 1).isOpen(at: 11 * Self.ms), "a sender alone")
  }

  @Test("answers to sends wait for half of the sends under way, and a client's write does not wait for them")
  func answers() {
    let answers = next(after: [.urgent(among: 12), .urgent(among: 12)])
    #expect(taking(answers, .urgent(among: 12), 5).isWaiting(at: 11 * Self.ms))
    #expect(!taking(answers, .urgent(among: 12), 6).isOpen(at: 11 * Self.ms))
    #expect(!taking(answers, .urgent(among: 1), 1).isOpen(at: 11 * Self.ms), "nothing else is under way")
    #expect(!taking(taking(answers, .urgent(among: 12), 2), .intent, 1).isOpen(at: 11 * Self.ms))
  }

  @Test("what waits is taken in the order in which it came, and let go of: 200 seeds against an array")
  func order() {
    for seed in 0..<200 as Range<UInt64> {
      var random = SeededRandom(seed: seed)
      var (queue, model, next) = (FirstInFirstOut<Int>(), [Int](), 0)
      for _ in 0..<500 {
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<50:
          queue.append(next)
          model.append(next)
          next += 1
        case 50..<55:
          queue.putFirst(-next)
          model.insert(-next, at: 0)
        case 55..<98:
          #expect(queue.takeFirst() == (model.isEmpty ? nil : model.removeFirst()), "seed \(seed)")
        default:
          #expect(queue.takeAll() == model, "seed \(seed)")
          model = []
        }
        #expect(queue.count == model.count && queue.isEmpty == model.isEmpty, "seed \(seed)")
      }
    }
  }

  private final class Held: Sendable {
    private let count: Guarded<Int>
    init(_ count: Guarded<Int>) {
      self.count = count
      count.withLock { $0 += 1 }
    }
    deinit { count.withLock { $0 -= 1 } }
  }

  @Test("what was taken is not kept")
  func released() {
    let held = Guarded(0)
    var queue = FirstInFirstOut<Held>()
    for _ in 0..<100 { queue.append(Held(held)) }
    for taken in 1...99 {
      _ = queue.takeFirst()
      #expect(held.withLock { $0 } == 100 - taken)
    }
  }
}
