import ChatCache
import JSON
import MicroHTTP
import Platform

/// The self-check on demand (B64).
enum IntegrityRoute {
  static func routes(_ context: RouteContext) -> [Route] {
    let desk = CheckDesk(context)
    return [
      Route(.get, "/v1/cache/integrity", operation: "checkCache") { request in
        try Parameters(request).end()
        return try context.operated(request, scope: .admin) { caller in
          wait(at: desk, context, request, caller)
        }
      }
    ]
  }

  private static func wait(
    at desk: CheckDesk, _ context: RouteContext, _ request: Request, _ caller: Caller
  ) -> Outcome {
    let waiter = request.makeWaiter()
    let ticket = desk.ask { waiter.wake() }
    return context.hold(
      request, of: caller, scope: .admin, milliseconds: 30_000, refused: { _ = desk.take(ticket) }
    ) { _ in
      switch desk.take(ticket) {
      case .success(let report): return .respond(response(report))
      case .failure(let error as CacheError): throw Problem(error)
      case .failure(let error): throw error
      case nil:
        throw Problem(
          503, "busy", detail: "The check is still running: ask again for its findings.",
          headers: [("Retry-After", "10")])
      }
    }
  }

  private static func response(_ report: CheckReport) -> Response {
    var json = JSONWriter()
    json.beginObject()
    json.field("sound", report.isSound)
    json.field("well", report.isWell)
    json.field("channels", report.channels)
    json.field("started_at", report.startedAt)
    json.field("duration_ms", report.milliseconds)
    json.field("longest_snapshot_ms", report.longestSnapshot)
    json.name("findings")
    json.beginArray()
    for finding in report.findings {
      json.beginObject()
      json.field("fault", finding.fault.rawValue)
      if let channel = finding.channel { json.field("channel_url", channel.text) }
      json.field("detail", finding.detail)
      json.field("healed", finding.isHealed)
      json.endObject()
    }
    json.endArray()
    json.field("more_findings", report.more)
    json.endObject()
    var response = Response.json(json.finish())
    response.add("Cache-Control", "no-store")
    return response
  }
}

/// Runs self-checks: one at a time, on a thread of its own. All requests that come during a check get its
/// findings. If no request waits for the findings any more, the next request gets them.
private final class CheckDesk: Sendable {
  typealias Outcome = Swift.Result<CheckReport, any Error>

  private struct State {
    var isRunning = false
    var lastTicket = 0
    var waiting: [Int: @Sendable () -> Void] = [:]
    var answers: [Int: Outcome] = [:]
    var kept: Outcome?
  }

  private let context: RouteContext
  private let state = Guarded(State())
  private let thread = ThreadSlot()

  init(_ context: RouteContext) { self.context = context }

  /// Asks for findings; `wake` is called when they are there.
  func ask(_ wake: @escaping @Sendable () -> Void) -> Int {
    let (ticket, isAnswered, starts) = state.withLock { state in
      state.lastTicket += 1
      let ticket = state.lastTicket
      if let kept = state.kept {
        state.kept = nil
        state.answers[ticket] = kept
        return (ticket, true, false)
      }
      state.waiting[ticket] = wake
      defer { state.isRunning = true }
      return (ticket, false, !state.isRunning)
    }
    if isAnswered { wake() }
    if starts { start() }
    return ticket
  }

  /// The previous check's thread has ended, or is about to.
  private func start() { thread.start("perch-check") { [self] in run() } }

  /// The findings for that ticket. Nil: the check is not over, and the ticket is dropped.
  func take(_ ticket: Int) -> Outcome? {
    state.withLock { state in
      state.waiting[ticket] = nil
      return state.answers.removeValue(forKey: ticket)
    }
  }

  private func run() {
    let outcome = Outcome { try context.cache.check() }
    if case .success(let report) = outcome { tell(report) }
    let waiting = state.withLock { state in
      state.isRunning = false
      for ticket in state.waiting.keys { state.answers[ticket] = outcome }
      if state.waiting.isEmpty { state.kept = outcome }
      defer { state.waiting = [:] }
      return Array(state.waiting.values)
    }
    for wake in waiting { wake() }
  }

  private func tell(_ report: CheckReport) {
    for finding in report.findings {
      Log.line(
        .error, "cache_fault",
        [
          "fault": .text(finding.fault.rawValue), "channel": .text(finding.channel?.text ?? ""),
          "detail": .text(finding.detail), "healed": .text(finding.isHealed ? "yes" : "no"),
        ])
    }
    if report.findings.contains(where: { $0.isHealed && $0.channel != nil }) { context.syncRequests.healed() }
  }
}
