import ChatCache
import ChatCollections
import ChatModel
import JSON
import MicroHTTP
import Platform

/// What a poll asks: from where, and how long to wait (B51).
struct PollParameters {
  static let defaultWait: Int64 = 25
  static let longestWait: Int64 = 30

  let since: String?
  let milliseconds: Int
  let isStream: Bool

  init(_ request: Request, _ parameters: inout Parameters) {
    isStream = request.headerText("Accept")?.contains("text/event-stream") ?? false
    let given = parameters.text("since")
    let resumed = isStream ? request.headerText("Last-Event-ID").flatMap { $0.isEmpty ? nil : $0 } : nil
    let from = resumed ?? given
    since = from == "now" ? nil : from
    let wait = parameters.number("wait", 0...PollParameters.longestWait) ?? PollParameters.defaultWait
    milliseconds = Int(wait) * 1000
  }
}

/// One poll: answered at once if there is something to tell, else parked until there is or the time is over.
struct Poll {
  private let follower: Follower
  private let since: EventCursor
  private let endsAt: UInt64

  private init(_ follower: Follower, since: EventCursor, milliseconds: Int) {
    self.follower = follower
    self.since = since
    endsAt = Clock.system.monotonicNanoseconds() + UInt64(milliseconds) * 1_000_000
  }

  /// Answers a poll or opens a stream.
  static func answer(_ follower: Follower, _ request: Request, _ parameters: PollParameters) throws -> Outcome
  {
    if parameters.isStream {
      return try EventsOverTime.open(follower, request, since: parameters.since)
    }
    guard let since = parameters.since else {
      return .respond(Viewing.answer(body(ByteBuffer(), cursor: follower.cursorNow, hasMore: false)))
    }
    let poll = Poll(
      follower, since: try follower.cursor(since), milliseconds: parameters.milliseconds)
    if parameters.milliseconds > 0 { try follower.subscribe(request.makeWaiter(), isOnce: true) }
    return try poll.end { try poll.look(isLast: parameters.milliseconds == 0) }
  }

  /// Gives the subscription back unless the poll goes on.
  private func end(_ body: () throws -> Outcome) throws -> Outcome {
    do { return try body() } catch {
      follower.unsubscribe()
      throw error
    }
  }

  private func look(isLast: Bool) throws -> Outcome {
    try follower.admit(since)
    let now = Clock.system.monotonicNanoseconds()
    let mayWait = !isLast && now < endsAt
    if mayWait, try follower.isUpToDate(since) { return try park(now) }
    let shared = follower.viewing.shared
    let head = follower.viewing.reading.cache.cursor
    let name = follower.sharedName
    if let name, let known = try shared.known(name, since, head, or: { try follower.alike(since, head) }) {
      follower.unsubscribe()
      return .respond(known.response)
    }
    let found = try follower.look(since)
    guard found.isEmpty, !found.hasMore, mayWait else {
      follower.unsubscribe()
      try follower.settle(found)
      let isWorthSharing = !found.isEmpty
      let body = Poll.body(found.events, cursor: found.cursor.description, hasMore: found.hasMore)
      guard let name, isWorthSharing else { return .respond(Viewing.answer(body)) }
      let made = SharedResponse(headers: [("Cache-Control", "no-store")], body: body)
      shared.keep(made, name, since: since, head: head.sequence)
      if let likeness = found.likeness { shared.keep(made, likeness, since) }
      return .respond(made.response)
    }
    return try park(now)
  }

  private func park(_ now: UInt64) throws -> Outcome {
    let waiter = follower.request.makeWaiter()
    guard follower.isSubscribed else {
      // It was woken for nothing: what comes now wakes it again, what came meanwhile is looked for.
      try follower.subscribe(waiter, isOnce: true)
      return try look(isLast: false)
    }
    let left = Int((endsAt - now) / 1_000_000) + 1
    return .park(
      Parking(waiter, milliseconds: left) { wake in
        try end {
          switch wake {
          case .woken:
            follower.woken()
            return try look(isLast: false)
          case .deadline, .shutdown: return try look(isLast: true)
          case .hungUp:
            follower.unsubscribe()
            return .respond(.empty(204))
          }
        }
      })
  }

  private static func body(_ events: borrowing ByteBuffer, cursor: String, hasMore: Bool) -> ByteBuffer {
    var json = JSONWriter(capacity: events.count + 128)
    json.beginObject()
    json.name("events")
    json.beginArray()
    json.splice(fields: events.bytes)
    json.endArray()
    json.field("cursor", cursor)
    json.field("has_more", hasMore)
    json.endObject()
    return json.finish()
  }
}

/// The same as a stream of server-sent events: of one answer's events only the last has an id, the answer's
/// cursor, so that a stream that broke goes on from there (B51).
enum EventsOverTime {
  /// Changes that do not concern a stream are passed over again and again up to so many.
  private static let mostLookedAtAgain: Int64 = 200

  static func open(_ follower: Follower, _ request: Request, since: String?) throws -> Outcome {
    let waiter = request.makeWaiter()
    var cursor = try follower.cursor(since ?? follower.cursorNow)
    try follower.subscribe(waiter)
    var isFirst = true
    let stream = EventStream(
      waiter,
      produce: { buffer in
        do {
          if isFirst { buffer.append(retry) }
          try follower.admit(cursor)
          let found = try follower.look(cursor)
          // Only a cursor that the log could be read from is one to come back with.
          if isFirst { buffer.append("id: \(cursor.description)\n\n") }
          isFirst = false
          // The client keeps the cursor it was told last; what it is not told is looked at again, unless that
          // becomes much.
          let isFar = found.cursor.sequence - cursor.sequence > mostLookedAtAgain
          guard !found.isEmpty || found.hasMore || isFar else { return .wait }
          try follower.settle(found)
          cursor = found.cursor
          guard !found.isEmpty else { return found.hasMore ? .more : .wait }
          try write(found.events, id: cursor.description, into: &buffer)
          return .more
        } catch let problem as Problem {
          end(problem, now: follower.cursorNow, into: &buffer)
          return .end
        }
      }, ended: { follower.unsubscribe() })
    return .respond(.events(stream))
  }

  /// What a stream begins with: how long its client waits before it comes back.
  static let retry: StaticString = "retry: 2000\n\n"

  /// The last event of a stream: why it is over. One that is to begin again comes with the cursor at this
  /// moment as its id, so that a browser does not come back with the one that was refused.
  static func end(_ problem: Problem, now: String, into buffer: inout ByteBuffer) {
    let name: StaticString =
      problem.status == 410 ? "reset" : problem.status == 401 ? "unauthorized" : "gone"
    var json = JSONWriter()
    json.beginObject()
    json.field("code", problem.code)
    json.endObject()
    let data = json.finish()
    if problem.status == 410 { buffer.append("id: \(now)\n") }
    buffer.append(event: name, id: nil, data: data.bytes)
  }

  private static func write(_ events: borrowing ByteBuffer, id: String, into buffer: inout ByteBuffer) throws
  {
    var all = ByteBuffer(capacity: events.count + 2)
    all.append("[")
    all.append(events.bytes)
    all.append("]")
    var lines: [[UInt8]] = []
    try JSONParser().parse(all.bytes) { json in
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
