import ChatModel

// The unsent messages and changes of one user in one channel, in order, and their states. A value: the cache
// reads the rows, calls this value, and writes the changed rows and their events, all in one transaction.
//
//     waiting --dispatch--> in flight --success-----------> (gone: succeeded)
//       ^ ^                   | |
//       | +--wait, link fault-+ +-----rejection-----------> failed; a change is dropped
//       |                     |
//       |                     +--no usable answer--> uncertain --found-------------> (gone: succeeded)
//       |                                              |
//       +--a look does not show it, or a second one----+
//       |
//     failed, canceled: by resend
//
// Messages, files, edits and deletes keep their order: only the first pending one, the head, is ever under
// way. Reactions and read marks go beside them, one at a time, in order only for the same target. A waiting
// row always has a moment of its next try. Only these end a row: the outcome of a try, a request of its user,
// its expiry, and the loss of its channel.
//
// A message that is canceled while under way keeps its state and gets `isCancelWanted`. If the message has
// arrived, its row gets the message's id as `target`, and the row's job is to delete that message upstream.

/// One user's unsent messages and changes in one channel.
package struct OutboxLane: Hashable, Sendable {
  /// In order of rank.
  package private(set) var rows: [OutboxRow]

  /// The rank of the last row when the rows were read. That row may be missing in `rows`.
  private let lastRankRead: Int64

  /// Takes rows of one user and channel, in any order. `lastRank`: the rank of the lane's last row, if `rows`
  /// need not have it.
  package init(rows: [OutboxRow], lastRank: Int64 = 0) {
    self.rows = rows.sorted { $0.rank < $1.rank }
    lastRankRead = lastRank
  }

  /// The rank that no row exceeds.
  var lastRank: Int64 { max(lastRankRead, rows.last?.rank ?? 0) }

  /// A request to the upstream for one row.
  package enum Job: Hashable, Sendable {
    /// Send the message or change, under its request id.
    case send
    /// Upload the file.
    case upload
    /// Look for the message in a listing of everything after that position.
    case look(after: Position)
    /// Delete the sent message with that id, which its sender canceled too late.
    case deleteSent(Int64)
  }

  /// What happened to a row, for events.
  package enum Notice: Hashable, Sendable {
    case pendingCreated(Int64)
    case resendStarted(Int64)
    /// The row has left the outbox: it was sent as `message`, or its change is done.
    case succeeded(Int64, message: Int64?)
    case failed(Int64, code: String)
    case canceled(Int64)
    /// A change that was refused, or a read mark overtaken by a later one; its row is gone.
    case dropped(Int64, code: String)
    /// The user removed the row.
    case removed(Int64)
    /// The content of the edit `from` goes into the row `to`; the edit's row is gone.
    case merged(from: Int64, to: Int64)

    /// Whether the notice tells that the row failed.
    func isFailure(of row: Int64) -> Bool {
      if case .failed(row, _) = self { return true }
      return false
    }
  }

  /// The row named `id`.
  package func row(_ id: Int64) -> OutboxRow? { rows.first { $0.id == id } }

  /// The row of a request.
  package func row(_ request: RequestID) -> OutboxRow? { rows.first { $0.requestID == request } }

  /// The first ordered row that is still pending.
  package var head: OutboxRow? { rows.first { $0.kind.isOrdered && $0.state.isPending } }

  /// The failed message that holds a row, else the head if it precedes the row.
  package func blocker(of id: Int64) -> OutboxRow? {
    guard let row = row(id), row.kind.isOrdered, row.state.isPending else { return nil }
    if let failed = failedBlocker(before: row.rank) { return failed }
    guard let head, head.id != id else { return nil }
    return head
  }

  /// The jobs that are due at `now`; each is begun with `dispatch`. The caller begins none while the link is
  /// down.
  package func jobs(now: Int64) -> [(row: Int64, job: Job)] {
    var due: [(row: Int64, job: Job)] = []
    for row in triable where row.nextTryAt <= now {
      if row.upload == .needed, row.state == .waiting {
        due.append((row.id, .upload))
      } else if let job = job(for: row),
        row.kind.isOrdered || !due.contains(where: { self.row($0.row)?.kind.isOrdered == false })
      {
        due.append((row.id, job))
      }
    }
    return due
  }

  /// The next moment at which `jobs` returns a job if nothing else happens, ms; nil: never.
  package var nextTryAt: Int64? { triable.map(\.nextTryAt).min() }

  /// The next moment at which a send or a look may be due, ms. Uploads are not counted.
  var nextSendAt: Int64? {
    triable.filter { $0.upload != .needed || $0.state != .waiting }.map(\.nextTryAt).min()
  }

  /// The rows that wait only for the time of their next try.
  private var triable: [OutboxRow] {
    let head = head?.id
    let side = rows.filter { !$0.kind.isOrdered && $0.state.isPending }
    let isSideBusy = side.contains { $0.state == .inFlight }
    return rows.filter { row in
      guard row.state == .waiting || row.state == .uncertain else { return false }
      if row.state == .waiting, row.upload == .needed { return true }
      if row.kind.isOrdered { return row.id == head && row.follows == nil && row.upload != .running }
      return !isSideBusy
        && !side.contains {
          $0.rank < row.rank && $0.kind == row.kind && $0.target == row.target
            && $0.aspect.utf8.elementsEqual(row.aspect.utf8)
        }
    }
  }

  /// Marks a job as begun. False: the job is no longer due.
  ///
  /// `newest`: the newest position known in the channel. `policy`: how long to wait for a look's answer.
  package mutating func dispatch(
    _ id: Int64, _ job: Job, now: Int64, newest: Position = .start,
    policy: OutboxPolicy = OutboxPolicy()
  ) -> Bool {
    guard let row = row(id) else { return false }
    if job == .upload {
      guard row.upload == .needed, row.state == .waiting else { return false }
      return change(id) { $0.upload = .running }
    }
    guard row.state == .waiting || row.state == .uncertain else { return false }
    if case .look = job {
      // Only the row's time of the next try marks a running look: if its answer is lost, the look is repeated
      // then.
      guard row.state == .uncertain else { return false }
      return change(id) { $0.nextTryAt = now + policy.uncertainGrace }
    }
    return change(id) {
      $0.state = .inFlight
      $0.attempts += 1
      $0.errorCode = nil
      if job == .send {
        $0.dispatchedAt = now
        if $0.anchor == nil { $0.anchor = newest }
      }
    }
  }

  private func job(for row: OutboxRow) -> Job? {
    switch row.state {
    case .waiting:
      if row.isCancelWanted, let target = row.target { return .deleteSent(target) }
      return row.upload == .needed || row.upload == .running || row.follows != nil ? nil : .send
    case .uncertain:
      // Changes are idempotent and may be repeated. A message is looked for before it is sent again.
      if row.isCancelWanted, let target = row.target { return .deleteSent(target) }
      return row.kind.isMessage ? .look(after: row.anchor ?? .start) : .send
    default: return nil
    }
  }

  /// The ranks of failed messages that hold the rows behind them.
  var blocking: [Int64] { rows.filter { $0.state == .failed && $0.blocksOnFailure }.map(\.rank) }

  func failedBlocker(before rank: Int64) -> OutboxRow? {
    rows.first { $0.rank < rank && $0.state == .failed && $0.blocksOnFailure }
  }

  @discardableResult
  mutating func change(_ id: Int64, _ body: (inout OutboxRow) -> Void) -> Bool {
    guard let index = rows.firstIndex(where: { $0.id == id }) else { return false }
    let rank = rows[index].rank
    body(&rows[index])
    if rows[index].rank != rank { rows.sort { $0.rank < $1.rank } }
    return true
  }

  mutating func insert(_ row: OutboxRow) {
    rows.append(row)
    rows.sort { $0.rank < $1.rank }
  }

  mutating func drop(_ id: Int64) { rows.removeAll { $0.id == id } }

  /// Holds the rows behind a failed message that blocks, and releases held rows that no such message precedes
  /// any more.
  mutating func holdOrRelease(now: Int64) {
    let firstBlocking = rows.first { $0.state == .failed && $0.blocksOnFailure }?.rank ?? .max
    for index in rows.indices where rows[index].kind.isOrdered {
      let isBehind = rows[index].rank > firstBlocking
      if isBehind, rows[index].state == .waiting {
        rows[index].state = .held
      } else if !isBehind, rows[index].state == .held {
        rows[index].state = .waiting
        rows[index].nextTryAt = min(rows[index].nextTryAt, now)
      }
    }
  }
}

extension OutboxRow {
  /// The code of a row that was not sent within its time (B41).
  package static let outOfTime = "expired"
}
