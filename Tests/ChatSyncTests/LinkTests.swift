import Testing

@testable import ChatSync

/// Random numbers that are the same in every run.
struct Seeded: RandomNumberGenerator {
  var state: UInt64
  init(_ seed: UInt64) { state = seed &* 0x9E37_79B9_7F4A_7C15 | 1 }
  mutating func next() -> UInt64 {
    state ^= state << 13
    state ^= state >> 7
    state ^= state << 17
    return state &* 0x2545_F491_4F6C_DD1D
  }
}

/// An expectation about a `mutating` call, which the macro cannot have.
func check(_ holds: Bool, _ comment: Comment? = nil, sourceLocation: SourceLocation = #_sourceLocation) {
  #expect(holds, comment, sourceLocation: sourceLocation)
}

struct LinkTests {
  private var random = Seeded(7)

  @Test("B3: a backoff's bound starts at 1 s, doubles up to 60 s, and every wait lies under it")
  mutating func backoff() {
    var backoff = Backoff()
    for bound: Int64 in [1, 2, 4, 8, 16, 32, 60, 60] {
      check(backoff.bound == bound * 1000)
      check((1...bound * 1000).contains(backoff.next(using: &random)))
    }
    check(backoff.next(retryAfter: 90_000, using: &random) == 90_000)
    backoff.reset()
    check(backoff.bound == 1000)
  }

  @Test("B3: an untried link probes at once, and one success puts it online")
  func first() {
    var link = Link()
    check(link.tick(now: 0) == [.probe])
    check(link.tick(now: 5) == [], "one probe at a time")
    check(link.probeSucceeded() == [.announce(.online)])
    check(link.generation == 1)
    check(link.succeeded() == [])
  }

  @Test("B3: whose certificate is not trusted is told as that, and one success forgets it")
  mutating func untrusted() {
    var link = Link()
    check(link.tick(now: 0) == [.probe])
    check(
      link.probeFailed(.untrusted, now: 0, using: &random) == [.announce(.offline(.untrusted))])
    check(link.probeSucceeded() == [.announce(.online)])
    check(link.failed(.untrusted, now: 1, using: &random) == [])
    check(link.failed(.untrusted, now: 2, using: &random) == [.announce(.offline(.untrusted))])
    var plan = Plan(seed: 1)
    check(plan.next(now: 0) == [.probe])
    plan.ended(.probe, .failed(.untrusted(reason: "")), now: 1)
    check(plan.link.state == .offline(.untrusted))
  }

  @Test("B3: one transport failure is forgiven, the second in a row means offline")
  mutating func twoFailures() {
    var link = Link()
    _ = link.succeeded()
    check(link.failed(now: 0, using: &random) == [])
    check(link.succeeded() == [])
    check(link.failed(now: 1, using: &random) == [])
    check(link.failed(now: 2, using: &random) == [.announce(.offline(.unreachable))])
    check(link.generation == 2)
    check(link.failed(now: 3, using: &random) == [], "told once")
    let due = link.nextProbeAt ?? 0
    check((3...1002).contains(due))
    check(link.tick(now: due - 1) == [])
    check(link.tick(now: due) == [.probe])
  }

  @Test("B3: one failed probe means offline; Retry-After wins over the jitter")
  mutating func failedProbe() {
    var link = Link()
    _ = link.tick(now: 0)
    check(
      link.probeFailed(.unreachable, now: 10, retryAfter: 30_000, using: &random) == [
        .announce(.offline(.unreachable))
      ])
    check(link.nextProbeAt == 30_010)
    check(link.generation == 1, "it was never online")
  }

  @Test("B3: a connect or a send probes at once, at most one a second")
  mutating func urge() {
    var link = Link()
    _ = link.tick(now: 0)
    _ = link.probeFailed(.unreachable, now: 0, retryAfter: 60_000, using: &random)
    check(link.urge(now: 100) == [.probe])
    check(link.urge(now: 150) == [], "one is under way")
    _ = link.probeFailed(.unreachable, now: 200, retryAfter: 60_000, using: &random)
    check(link.urge(now: 300) == [])
    check(link.nextProbeAt == 1_100)
    check(link.tick(now: 1_100) == [.probe])
  }

  @Test("B40: a refused key is the link's fault and says so")
  mutating func refusedKey() {
    var link = Link()
    _ = link.succeeded()
    check(link.refused(now: 0, using: &random) == [.announce(.offline(.auth))])
    check(link.nextProbeAt != nil)
  }

  @Test("Without an upstream the link is offline for good")
  mutating func noUpstream() {
    var link = Link(hasUpstream: false)
    check(link.state == .offline(.none))
    check(link.tick(now: 99) == [] && link.urge(now: 99) == [])
  }

  @Test("B5: a user is closed by two refusals at least 60 s apart while another call succeeds")
  func closing() {
    var user = UserState(now: 0)
    user.acknowledged()
    check(user.refused(now: 1_000, isCached: true) == .doubtful(askAgainAt: 61_000))
    check(user.refused(now: 30_000, isCached: true) == .doubtful(askAgainAt: 61_000))
    check(
      user.refused(now: 61_000, isCached: true) == .doubtful(askAgainAt: 71_000),
      "the key may be what is wrong")
    user.keyWorked()
    check(user.refused(now: 62_000, isCached: true) == .closed)
    check(user.phase == .closed && !user.isActive)
    check(user.connect(now: 70_000))
    user.acknowledged()
    check(user.phase == .connected, "a good connect reopens")
  }

  @Test("B5: a closed user stays closed until the upstream acknowledges the user, whatever the client does")
  func barred() {
    var user = UserState(.closed, now: 0, refusedAt: 0)
    user.stop()
    check(user.phase == .closed, "DELETE opens nothing")
    check(user.connect(now: 1) && user.isBarred, "PUT opens nothing until the upstream has answered")
    user.stop()
    check(user.phase == .closed)
    check(user.connect(now: 2))
    check(user.refused(now: 3, isCached: true) == .closed, "one refusal is enough after a restart, too")
    check(user.connect(now: 4))
    user.acknowledged()
    check(user.phase == .connected && !user.isBarred)
    user.stop()
    check(user.phase == .stopped)
  }

  @Test("B5: a good answer in between forgets the first refusal")
  func forgiven() {
    var user = UserState(now: 0)
    user.acknowledged()
    _ = user.refused(now: 0, isCached: true)
    user.acknowledged()
    user.keyWorked()
    check(user.refused(now: 120_000, isCached: true) == .doubtful(askAgainAt: 180_000))
  }

  @Test("B2: of a user nobody knows here, the upstream's first word counts")
  func unknownUser() {
    var user = UserState(now: 0)
    check(user.refused(now: 0, isCached: false) == .unknown)
  }

  @Test("B4: 30 minutes without a request and an empty outbox make idle, the next request wakes")
  func idle() {
    var user = UserState(now: 0)
    user.acknowledged()
    check(!user.tick(now: 30 * 60_000 - 1, hasUnsent: false))
    check(!user.tick(now: 30 * 60_000, hasUnsent: true))
    check(user.tick(now: 30 * 60_000, hasUnsent: false))
    check(user.phase == .idle)
    check(user.seen(now: 31 * 60_000))
    check(user.phase == .connecting)
  }

  @Test("B4: a stopped user stays stopped until PUT")
  func stopped() {
    var user = UserState(now: 0)
    user.stop()
    check(!user.seen(now: 1))
    check(user.phase == .stopped)
    check(user.connect(now: 2))
  }

  @Test("B35: a bucket lets a burst through and then its rate")
  func bucket() {
    var bucket = TokenBucket(rate: 5, burst: 2)
    check(bucket.take(now: 0) == nil && bucket.take(now: 0) == nil)
    check(bucket.take(now: 0) == 200)
    check(bucket.take(now: 200) == nil)
    check(bucket.take(now: 10_000) == nil && bucket.take(now: 10_000) == nil)
    check(bucket.take(now: 10_000) != nil)
  }

  @Test("B35: clients' requests go first, and one slot is theirs alone")
  func queueOrder() {
    var queue = RequestQueue<String>(limit: 2, bucket: TokenBucket(rate: 0, burst: 1))
    queue.add("b1", .background)
    queue.add("b2", .background)
    queue.add("o1", .open)
    queue.add("f1", .foreground)
    check(start(&queue) == "f1")
    check(start(&queue) == "o1")
    check(start(&queue) == nil)
    queue.finished(.foreground)
    check(start(&queue) == "b1")
    queue.finished(.open)
    check(start(&queue) == nil, "the last slot is kept free")
    queue.add("f2", .foreground)
    check(start(&queue) == "f2")
  }

  @Test(
    "B35: nothing starts while the upstream wants silence, and what clients wait for is not refused",
    arguments: [Importance.foreground, .listing])
  func pause(importance: Importance) {
    var queue = RequestQueue<String>(limit: 2, bucket: TokenBucket(rate: 0, burst: 1))
    queue.add("f", importance)
    queue.pause(until: 500)
    guard case .wait(until: 500) = queue.next(now: 100) else {
      Issue.record("it did not wait")
      return
    }
    check(start(&queue, now: 500) == "f")
  }

  private func start(_ queue: inout RequestQueue<String>, now: Int64 = 0) -> String? {
    if case .start(let entry) = queue.next(now: now) { return entry }
    return nil
  }
}
