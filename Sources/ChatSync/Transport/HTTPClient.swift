import CCurl
import ChatModel
import Glibc
import Platform

/// Sends requests over libcurl's multi interface on one thread.
///
/// `send` queues a request. The client's thread starts the requests that the queue allows, moves bytes, and
/// passes each result to its continuation. Other threads reach it through its inbox and `curl_multi_wakeup`,
/// so that curl's handles belong to one thread alone. Connections are kept and shared (HTTP/2 where it is
/// offered); redirects are not followed, because the key must not travel to another host. Proxies come from
/// the environment as curl reads them, trusted certificates from `CURL_CA_BUNDLE`, `SSL_CERT_FILE` or
/// `SSL_CERT_DIR`.
package final class HTTPClient: @unchecked Sendable {  // because `multi` is only woken from other threads
  /// The limits of one client.
  package struct Configuration: Sendable {
    /// The longest time until the connection is made.
    package var connectMilliseconds = 5_000
    /// The longest time from the request's start to the answer's first byte.
    package var firstByteMilliseconds = 10_000
    /// The longest time from the request's start to the answer's last byte.
    package var totalMilliseconds = 30_000
    /// The largest answer, in bytes after decompression.
    package var responseBytes = 32 << 20
    /// The most requests in flight at once.
    package var inFlight = 4
    /// The most requests that may wait for a slot; more are refused.
    package var waiting = 4_096
    /// The most requests per second, 0 for no limit.
    package var rate = 0.0
    /// The most requests that may be sent at once after a quiet time.
    package var burst = 20.0
    /// The clocks.
    package var clock = Clock.system

    /// The usual limits.
    package init() {}
  }

  /// Requests sent since the start, for metrics and `perch sync`.
  package var requestsStarted: Int { inbox.withLock { $0.started } }

  /// Pauses that the upstream asked for since the start.
  package var pausesAsked: Int { inbox.withLock { $0.pausesAsked } }

  struct Inbox {
    var arrived: [Transfer] = []
    var canceled: [UInt64] = []
    /// The end of the pause of each kind of call (monotonic ms).
    var pauses: [ExactText: Int64] = [:]
    var isClosing = false
    var nextID: UInt64 = 1
    var started = 0
    /// Pauses that the upstream asked for.
    var pausesAsked = 0
    /// Requests that wait for a slot.
    var waiting = 0
  }

  let configuration: Configuration
  let inbox = Guarded(Inbox())
  private let multi: OpaquePointerBox
  private let thread = ThreadSlot()

  /// curl's handle, which other threads may only wake.
  struct OpaquePointerBox: @unchecked Sendable {  // because curl_multi_wakeup may be called from any thread
    let handle: UnsafeMutableRawPointer
  }

  /// Starts the client's thread.
  package init(_ configuration: Configuration = Configuration()) {
    _ = HTTPClient.initializeLibrary
    self.configuration = configuration
    multi = OpaquePointerBox(handle: curl_multi_init()!)
    let loop = TransferLoop.Handover(multi: multi.handle, configuration: configuration, inbox: inbox)
    thread.start("perch-curl") { TransferLoop(loop).run() }
  }

  deinit { close() }

  private static let initializeLibrary: Void = { _ = curl_global_init(Int(CURL_GLOBAL_DEFAULT)) }()

  /// Sends a request and returns its answer. Ends early when the task is canceled.
  package func send(_ request: HTTPRequest) async throws(TransportFailure) -> HTTPResponse {
    guard !Task.isCancelled else {
      throw TransportFailure(kind: .canceled, mayHaveArrived: false, reason: "canceled")
    }
    let id = inbox.withLock { inbox in
      defer { inbox.nextID += 1 }
      return inbox.nextID
    }
    // The answer is passed under a lock, because the thread sanitizer does not see the order that a
    // continuation makes.
    let answer = Guarded<Result<HTTPResponse, TransportFailure>?>(nil)
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        start(
          Transfer(id: id, request: request) { result in
            answer.withLock { $0 = result }
            continuation.resume()
          })
        // The task may have been canceled before the request was queued.
        if Task.isCancelled { cancel(id) }
      }
    } onCancel: {
      cancel(id)
    }
    guard let result = answer.withLock({ $0 }) else {
      throw TransportFailure(kind: .closed, mayHaveArrived: true, reason: "no answer was handed over")
    }
    return try result.get()
  }

  private func start(_ transfer: Transfer) {
    let limit = configuration.waiting
    var isFull = false
    let isOpen = wake { inbox in
      if inbox.arrived.count + inbox.waiting < limit {
        inbox.arrived.append(transfer)
      } else {
        isFull = true
      }
    }
    if !isOpen { return transfer.end(.failure(TransferLoop.closedFailure)) }
    guard isFull else { return }
    transfer.end(
      .failure(TransportFailure(kind: .crowded, mayHaveArrived: false, reason: "too many requests wait")))
  }

  private func cancel(_ id: UInt64) { wake { $0.canceled.append(id) } }

  /// Pauses calls of this kind for `milliseconds`, as the upstream asked (B35).
  package func pause(_ endpoint: String, milliseconds: Int64) {
    let until = Int64(configuration.clock.monotonicNanoseconds() / 1_000_000) + milliseconds
    let kind = ExactText(endpoint)
    wake { inbox in
      inbox.pauses[kind] = max(inbox.pauses[kind] ?? 0, until)
      inbox.pausesAsked += 1
    }
  }

  /// Reads the clock again, after a test moved it.
  func lookAgain() { wake { _ in } }

  /// Changes the inbox and wakes the thread, under the lock because a closed client's handle is gone.
  @discardableResult
  private func wake(_ change: (inout Inbox) -> Void) -> Bool {
    inbox.withLock { inbox in
      guard !inbox.isClosing else { return false }
      change(&inbox)
      curl_multi_wakeup(multi.handle)
      return true
    }
  }

  /// Ends every request with `closed`, then the thread. A second call does nothing.
  package func close() {
    guard wake({ $0.isClosing = true }) else { return }
    thread.join()
    curl_multi_cleanup(multi.handle)
  }
}
