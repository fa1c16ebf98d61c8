import CCurl
import Platform

/// The client's thread: takes requests from the inbox, starts those that the queue allows, moves bytes, and
/// ends those that are complete, overdue or canceled.
final class TransferLoop {
  /// What the client passes to its thread.
  struct Handover: @unchecked Sendable {  // because the client only wakes the handle that is handed over here
    let multi: UnsafeMutableRawPointer
    let configuration: HTTPClient.Configuration
    let inbox: Guarded<HTTPClient.Inbox>
  }

  static let closedFailure = TransportFailure(
    kind: .closed, mayHaveArrived: false, reason: "the service is stopping")

  private let multi: UnsafeMutableRawPointer
  private let configuration: HTTPClient.Configuration
  private let inbox: Guarded<HTTPClient.Inbox>
  private var queue: RequestQueue<Transfer>
  private var running: [UInt64: Transfer] = [:]
  /// Until this time (monotonic ms) requests get connections of their own: one was overdue, and its
  /// connection may carry others. By then these are overdue, too, and the last one closes that connection.
  private var apartUntil: Int64 = 0

  init(_ handover: Handover) {
    multi = handover.multi
    configuration = handover.configuration
    inbox = handover.inbox
    queue = RequestQueue(
      limit: configuration.inFlight, bucket: TokenBucket(rate: configuration.rate, burst: configuration.burst)
    )
    _ = perch_curl_multi_long(multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, configuration.inFlight)
    _ = perch_curl_multi_long(multi, CURLMOPT_MAXCONNECTS, configuration.inFlight)
  }

  private var now: Int64 { Int64(configuration.clock.monotonicNanoseconds() / 1_000_000) }

  func run() {
    while takeInbox() {
      let nextStart = startAllowed()
      var stillRunning: Int32 = 0
      curl_multi_perform(multi, &stillRunning)
      endCompleted()
      let nextDeadline = endOverdue()
      if startCouldGoOn { continue }
      let wait = min(nextStart, nextDeadline) - now
      curl_multi_poll(multi, nil, 0, Int32(max(0, min(wait, 60_000))), nil)
    }
    endAll()
  }

  private var startCouldGoOn = false

  private func takeInbox() -> Bool {
    let taken = inbox.withLock { inbox in
      defer {
        inbox.arrived = []
        inbox.canceled = []
        inbox.pauses = [:]
      }
      return inbox
    }
    for transfer in taken.arrived {
      queue.add(transfer, transfer.request.importance, endpoint: transfer.request.endpoint)
    }
    for (endpoint, moment) in taken.pauses { queue.pause(endpoint.text, until: moment) }
    for id in taken.canceled { cancel(id) }
    return !taken.isClosing
  }

  private func cancel(_ id: UInt64) {
    if let waiting = queue.remove(where: { $0.id == id }) {
      waiting.end(.failure(TransportFailure(kind: .canceled, mayHaveArrived: false, reason: "canceled")))
    } else if let transfer = running[id] {
      let failure = TransportFailure(
        kind: .canceled, mayHaveArrived: transfer.mayHaveArrived, reason: "canceled")
      detach(transfer)
      transfer.end(.failure(failure))
    }
  }

  /// Starts the requests that may start. Returns when to look again.
  private func startAllowed() -> Int64 {
    var started = 0
    defer { note(started) }
    startCouldGoOn = false
    while true {
      switch queue.next(now: now) {
      case .idle: return .max
      case .wait(let until): return until
      case .refuse(let transfer, let until):
        transfer.end(
          .failure(
            TransportFailure(
              kind: .paused, mayHaveArrived: false, reason: "the upstream asked for a pause",
              retryAfter: until - now)))
      case .start(let transfer):
        started += 1
        guard let easy = transfer.prepare(configuration, isApart: now < apartUntil, now: now),
          curl_multi_add_handle(multi, easy) == CURLM_OK
        else {
          queue.finished(transfer.request.importance)
          transfer.end(
            .failure(TransportFailure(kind: .broken, mayHaveArrived: false, reason: "out of memory")))
          continue
        }
        running[transfer.id] = transfer
      }
    }
  }

  private func note(_ started: Int) {
    let waiting = queue.count
    inbox.withLock { inbox in
      inbox.started += started
      inbox.waiting = waiting
    }
  }

  private func endCompleted() {
    var left: Int32 = 0
    while let message = curl_multi_info_read(multi, &left) {
      guard message.pointee.msg == CURLMSG_DONE, let easy = message.pointee.easy_handle else { continue }
      let code = perch_curl_message_result(message)
      var owner: UnsafeMutableRawPointer?
      _ = perch_curl_owner(easy, &owner)
      guard let owner else { continue }
      let transfer = Unmanaged<Transfer>.fromOpaque(owner).takeUnretainedValue()
      detach(transfer)
      transfer.complete(code)
    }
  }

  /// Ends overdue transfers. Returns when the next one will be overdue.
  private func endOverdue() -> Int64 {
    let now = now
    var next = Int64.max
    for transfer in running.values {
      guard transfer.deadline <= now else {
        next = min(next, transfer.deadline)
        continue
      }
      let failure = transfer.overdue()
      apartUntil = now + Int64(configuration.firstByteMilliseconds)
      detach(transfer)
      transfer.end(.failure(failure))
    }
    return next
  }

  private func detach(_ transfer: Transfer) {
    if let easy = transfer.easy { curl_multi_remove_handle(multi, easy) }
    running[transfer.id] = nil
    queue.finished(transfer.request.importance)
    startCouldGoOn = queue.count > 0
  }

  private func endAll() {
    for transfer in queue.removeAll() { transfer.end(.failure(TransferLoop.closedFailure)) }
    for transfer in Array(running.values) {
      let failure = TransportFailure(
        kind: .closed, mayHaveArrived: transfer.mayHaveArrived, reason: "the service is stopping")
      detach(transfer)
      transfer.end(.failure(failure))
    }
    let late = inbox.withLock { inbox in
      defer { inbox.arrived = [] }
      return inbox.arrived
    }
    for transfer in late { transfer.end(.failure(TransferLoop.closedFailure)) }
  }
}
