import ChatCache
import ChatCollections
import ChatModel
import JSON
import MicroHTTP
import Platform

/// A poll's parameters: its cursor, and how long it waits (B51).
struct PollParameters {
  static let defaultWait: Int64 = 25
  static let longestWait: Int64 = 30

  let since: String?
  let milliseconds: Int
  let isStream: Bool
  /// Whether `since` came as `Last-Event-ID`.
  private let isResumed: Bool
  private let hasWait: Bool

  /// The cursor to begin at; nil: the present one. Throws a 400 if `since` is no cursor, or if a stream has
  /// `wait`.
  func cursor() throws -> EventCursor? {
    if isStream, hasWait {
      throw Problem.invalid("wait", "A stream does not end by itself: leave it out.")
    }
    guard let since else { return nil }
    guard let cursor = EventCursor(since) else {
      throw Problem.invalid(
        isResumed ? "Last-Event-ID" : "since", "Give back the cursor an answer gave, or now.")
    }
    return cursor
  }

  init(_ request: Request, _ parameters: inout Parameters) {
    isStream = request.headerText("Accept")?.contains("text/event-stream") ?? false
    let given = parameters.text("since")
    let resumed = isStream ? request.headerText("Last-Event-ID").flatMap { $0.isEmpty ? nil : $0 } : nil
    let from = resumed ?? given
    since = from == "now" ? nil : from
    isResumed = resumed != nil
    let wait = parameters.number("wait", 0...PollParameters.longestWait)
    hasWait = wait != nil
    milliseconds = Int(wait ?? PollParameters.defaultWait) * 1000
  }
}

/// One poll: answered at once if there are events, else parked until there are or the time is over.
final class Poll: Follower {
  private let since: EventCursor
  private let endsAt: UInt64
  /// Whether a change woke the poll, which then waits for no wave.
  private var isWoken = false
  /// Whether the poll counted as told since it was woken, because it has everything already.
  private var isCounted = false
  private lazy var rights = RightsWait(request.makeWaiter())

  private init(
    _ followed: Followed, _ request: Request, since: EventCursor, milliseconds: Int
  ) throws {
    self.since = since
    endsAt = Clock.system.monotonicNanoseconds() + UInt64(milliseconds) * 1_000_000
    try super.init(followed, request)
  }

  /// Answers a poll or opens a stream.
  static func answer(
    _ followed: Followed, _ request: Request, _ parameters: PollParameters
  ) throws -> Outcome {
    let cursor = try parameters.cursor()
    if parameters.isStream {
      return try EventsOverTime.open(Follower(followed, request), request, since: cursor)
    }
    guard let since = cursor else {
      let now = try Follower(followed, request).cursorNow
      return .respond(CollectionContext.answer(EventsBody().finish(now, hasMore: false)))
    }
    let poll = try Poll(followed, request, since: since, milliseconds: parameters.milliseconds)
    if parameters.milliseconds > 0 { try poll.subscribe(request.makeWaiter(), isOnce: true) }
    return try poll.end { try poll.look(isLast: parameters.milliseconds == 0) }
  }

  /// Runs `body`. If it throws, ends the subscription.
  private func end(_ body: () throws -> Outcome) throws -> Outcome {
    do { return try body() } catch {
      unsubscribe()
      throw error
    }
  }

  private func look(isLast: Bool) throws -> Outcome {
    let moment = context.moment
    if let moment, let known = known(moment) {
      unsubscribe()
      return .respond(known.response)
    }
    try admit(since)
    guard isReady else { return try store(isLast: isLast) }
    let now = Clock.system.monotonicNanoseconds()
    let mayWait = !isLast && now < endsAt
    var end: Int64?
    switch mayWait ? try turn(since) : .free {
    case .told(let sequence): end = sequence
    case .waits where !isWoken: return try park(now)
    case .waits, .free:
      if mayWait, try isUpToDate(since) {
        countAsTold()
        return try park(now)
      }
    }
    let head = context.route.cache.cursor
    // Equal polls get no answer that leaves something out: one that does not wait is told that, too.
    let isWhole = end.map { $0 >= head.sequence } ?? true
    let name = sharedName
    if let name,
      let known = try context.shared.find(name, since: since, head: head.sequence)
        ?? alike(since, head, upTo: end)
    {
      unsubscribe()
      if end != nil { noteTold() }
      return respond(known, isWhole ? moment : nil)
    }
    let found = try look(since, upTo: end)
    if end != nil { noteTold() }
    guard found.isEmpty, !found.hasMore, mayWait else {
      guard move(found) else { return try store(isLast: true) }
      unsubscribe()
      settle(found)
      let isWorthSharing = !found.isEmpty && !found.isHeld
      guard let name, isWorthSharing else { return .respond(CollectionContext.answer(found.answer())) }
      let key = found.key
      let made = SharedResponse(headers: [("Cache-Control", "no-store")], body: found.answer())
      if isWhole { context.shared.keep(made, name, since: since, head: head.sequence) }
      if let key { context.shared.keep(made, key, since) }
      return respond(made, isWhole ? moment : nil)
    }
    if found.isHeld { rights.await(for: self) }
    return try park(now)
  }

  /// The wave that woke the poll need not wait for it: it was told everything late in the last one.
  private func countAsTold() {
    guard isWoken && !isCounted else { return }
    isCounted = true
    noteTold()
  }

  /// Stores the views' windows, and looks again: nothing was told yet.
  private func store(isLast: Bool) throws -> Outcome {
    unsubscribe()
    // A change that moves one window of a chat mostly moves those of its other followers, too.
    return try DurableWrite<Void>(advice: "Ask again with the same cursor.", .many).answer(
      request, submit: { finish in try makeReady(then: finish) }
    ) { [self] in try end { try look(isLast: isLast) } }
  }

  /// The answer that an equal poll of this view got in the same `Moment`. The view is the caller's: this poll
  /// checked that when it began. Removing a view begins another moment.
  private func known(_ moment: SharedAnswers.Moment) -> SharedResponse? {
    guard let asked = asked(moment), let known = context.shared.recent(asked),
      context.route.gate.admitsStill(caller),
      case .admitted = context.route.syncRequests.seen(caller.user)
    else { return nil }
    return known
  }

  /// Answers, and keeps the answer for equal polls if the moment in which the caller was admitted still
  /// lasts.
  private func respond(_ shared: SharedResponse, _ moment: SharedAnswers.Moment?) -> Outcome {
    if let moment, let asked = asked(moment), context.moment == moment { context.shared.note(shared, asked) }
    return .respond(shared.response)
  }

  private func asked(_ moment: SharedAnswers.Moment) -> SharedAnswers.Asked? {
    aloneIdentity.flatMap { SharedAnswers.Asked($0, since: since, moment) }
  }

  private func park(_ now: UInt64) throws -> Outcome {
    let waiter = request.makeWaiter()
    guard isSubscribed else {
      // The wake brought nothing: subscribe again, then look for what came meanwhile.
      try subscribe(waiter, isOnce: true)
      return try look(isLast: false)
    }
    let left = Int((endsAt - now) / 1_000_000) + 1
    // Polls of one chat view mostly get an answer that was made for another of them.
    let company: Company = aloneIdentity == nil ? .costly : .many
    return .park(Parking(waiter, milliseconds: left, company) { [self] in try goOn($0) })
  }

  private func goOn(_ wake: Wake) throws -> Outcome {
    try end {
      switch wake {
      case .woken:
        (isWoken, isCounted) = (true, false)
        woken()
        return try look(isLast: false)
      case .deadline, .shutdown: return try look(isLast: true)
      case .hungUp:
        unsubscribe()
        return .respond(.empty(204))
      }
    }
  }
}

/// A poll as a stream of server-sent events. Of one answer's events only the last has an id, the answer's
/// cursor, so that a client whose stream broke goes on from there (B51).
enum EventsOverTime {
  /// Up to so many changes that do not concern a stream are read again at its next wake.
  private static let mostLookedAtAgain: Int64 = 200

  static func open(_ follower: Follower, _ request: Request, since: EventCursor?) throws -> Outcome {
    let waiter = request.makeWaiter()
    var cursor = since ?? follower.cursorNow
    try follower.subscribe(waiter)
    let storing = StreamWrite(waiter)
    let rights = RightsWait(waiter)
    var (isFirst, isGreeted) = (true, false)
    let stream = EventStream(
      waiter,
      produce: { buffer in
        do {
          if !isGreeted { buffer.append(retry) }
          isGreeted = true
          guard try storing.isOver else { return .wait }
          try follower.admit(cursor)
          guard follower.isReady else { return try storing.begin(follower) }
          let found = try follower.look(cursor)
          // The client gets its first cursor only after the log could be read from it.
          if isFirst { buffer.append("id: \(cursor.description)\n\n") }
          isFirst = false
          if found.isHeld { rights.await(for: follower) }
          // Changes without an event leave the cursor where it is. They are read again at the next wake,
          // unless they become many.
          let isFar = found.cursor.sequence - cursor.sequence > mostLookedAtAgain
          guard !found.isEmpty || found.hasMore || isFar else { return .wait }
          guard follower.move(found) else { return try storing.begin(follower) }
          if case .told = try follower.turn(cursor) { follower.noteTold() }
          follower.settle(found)
          cursor = found.cursor
          guard !found.isEmpty else { return found.hasMore ? .more : .wait }
          try write(found.body, id: cursor.description, into: &buffer)
          return .more
        } catch let problem as Problem {
          end(problem, now: follower.cursorNow, into: &buffer)
          return .end
        }
      }, ended: { follower.unsubscribe() })
    return .respond(.events(stream))
  }

  /// A stream's first line: how long its client waits before it reconnects.
  static let retry: StaticString = "retry: 2000\n\n"

  /// The last event of a stream: why it is over. After a 410 its id is the cursor at this moment, so that a
  /// browser does not reconnect with the refused one.
  static func end(_ problem: Problem, now: EventCursor, into buffer: inout ByteBuffer) {
    let name: StaticString =
      problem.status == 410 ? "reset" : problem.status == 401 ? "unauthorized" : "gone"
    var json = JSONWriter()
    json.beginObject()
    json.field("code", problem.code)
    json.endObject()
    let data = json.finish()
    if problem.status == 410 { buffer.append("id: \(now.description)\n") }
    buffer.append(event: name, id: nil, data: data.bytes)
  }

  private static func write(
    _ events: borrowing EventsBody, id: String, into buffer: inout ByteBuffer
  ) throws {
    var all = ByteBuffer(capacity: events.count + 2)
    all.append("[")
    all.append(events.bytes)
    all.append("]")
    var lines: [[UInt8]] = []
    try JSONParser.parse(all.bytes) { json in
      for event in json.items {
        var line = JSONWriter(capacity: 512)
        line.value(event)
        lines.append(line.finish().array)
      }
    }
    let name = Array(id.utf8)
    for (index, line) in lines.enumerated() {
      line.withUnsafeBytes { data in
        name.withUnsafeBytes { id in
          buffer.append(event: "", id: index + 1 == lines.count ? id : nil, data: data)
        }
      }
    }
  }
}

/// A stream's write of its views' windows. The stream sends nothing of a view before its window is stored,
/// and the commit wakes the stream like a new event does.
private final class StreamWrite: Sendable {
  private enum State {
    case none, underWay
    case failed(any Error)
  }

  private let state = Guarded(State.none)
  private let waiter: Waiter

  init(_ waiter: Waiter) { self.waiter = waiter }

  /// Whether no write is under way. Throws the error of a failed write, once.
  var isOver: Bool {
    get throws {
      try state.withLock { state in
        switch state {
        case .none: return true
        case .underWay: return false
        case .failed(let error):
          state = .none
          throw (error as? CacheError).map { Problem($0) } ?? error
        }
      }
    }
  }

  /// Begins to store the windows that are not stored yet.
  func begin(_ follower: Follower) throws -> EventStream.Step {
    state.withLock { $0 = .underWay }
    try follower.makeReady { [self] result in
      state.withLock { state in
        if case .failure(let error) = result { state = .failed(error) } else { state = .none }
      }
      waiter.wake()
    }
    return try isOver ? .more : .wait
  }
}
