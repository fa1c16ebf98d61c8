import JSON
import Platform

/// One load: makes the users and channels at the chat server, connects the users to Perch, lets some follow
/// views by long polls, sends messages and reads pages, and measures.
///
/// All of it runs on one thread. A time counts from the moment at which the request was due, so a service
/// that answers late does not slow the load down.
package final class LoadRun {
  let settings: LoadSettings
  let loop = EventLoop()
  let json = JSONParser()
  var recentlyTold = RecentlyTold()
  private let service: ConnectionPool
  private let server: ConnectionPool
  private let metrics: ConnectionPool
  private let tell: (String) -> Void
  private let isStopped: () -> Bool
  private var hasStopped = false
  private var random = SystemRandomNumberGenerator()
  /// When the warm-up ends.
  private var measuredFrom: UInt64 = 0

  var report = LoadReport()
  /// The measurements of the second that is running.
  var second = Second()
  var sent: Sent
  /// The followers of each channel.
  var readers: [Int: [Reader]] = [:]
  /// Followers whose views are not open yet.
  private var opening: [Int: Reader] = [:]
  /// Requests that are not answered yet, by their names.
  private var unanswered: [String: Int] = [:]

  private static let connections = 64
  /// How often one step of the preparation is tried again, a second after it failed. Then the load fails.
  private static let tries = 120
  /// The same where no server answers.
  private static let triesWithoutAnswer = 5
  /// The load fails if no step of the preparation succeeds for so many seconds.
  private static let longestStall = 60
  /// For how many seconds the load waits for the last answers and deliveries.
  private static let lastSeconds = 30

  /// `tell`: gets each line of progress. `isStopped`: asked once a second.
  package init(_ settings: LoadSettings, tell: @escaping (String) -> Void, isStopped: @escaping () -> Bool) {
    self.settings = settings
    self.tell = tell
    self.isStopped = isStopped
    service = ConnectionPool(to: settings.service, loop, connections: LoadRun.connections)
    server = ConnectionPool(to: settings.server, loop, connections: LoadRun.connections)
    metrics = ConnectionPool(to: settings.metrics.host, loop, connections: 1)
    sent = Sent(run: "load-\(Clock.system.wallMilliseconds())")
  }

  /// Runs the load to its end and returns what it measured.
  package func run() throws -> LoadReport {
    let plan = settings.plan
    try each(plan.users, "users at the chat server") { [self] in makeUser($0, $1) }
    try each(plan.channels, "channels at the chat server") { [self] in makeChannel($0, $1) }
    if settings.besidePerSecond > 0 {
      try each(1, "channel beside them") { [self] in makeBeside($0, $1) }
    }
    try each(plan.users, "users connected") { [self] in connect($0, $1) }
    if settings.besidePerSecond > 0 {
      try each(plan.besideMembers, "members of the channel beside them") { [self] in findBeside($0, $1) }
    }
    try each(plan.parked, "views followed") { [self] in follow($0, $1) }
    report.errors = [:]
    report.warmUp = settings.warmUp
    report.hasBeside = settings.besidePerSecond > 0
    sendAndRead()
    let seconds = max(0, report.seconds.count - settings.warmUp)
    awaitLast()
    report.missing = missing
    report.untilLast = (
      sent.untilLast(dueFrom: measuredFrom, isFromServer: false),
      sent.untilLast(dueFrom: measuredFrom, isFromServer: true)
    )
    for (name, count) in unanswered where count > 0 { report.errors["\(name) without an answer"] = count }
    closeViews()
    report.title =
      "\(plan.users) users, \(plan.channels) channels of \(plan.members), \(plan.parked) parked polls, "
      + "\(settings.messagesPerSecond) messages and \(settings.pagesPerSecond) pages a second "
      + "for \(seconds) s, after \(settings.warmUp) s to warm up"
    return report
  }

  // MARK: - Preparing

  /// Does something for each number. `body` reports whether it is done; else it is tried again.
  private func each(
    _ count: Int, _ name: String, _ body: @escaping (Int, @escaping (Failed?) -> Void) -> Void
  ) throws {
    var (done, doneBefore, stalledSeconds) = (0, 0, 0)
    var failure: LoadFailure?
    func attempt(_ number: Int, _ left: Int) {
      body(number) { [self] failed in
        guard let failed else {
          done += 1
          return
        }
        let rest = failed.isAnswer ? left : min(left, LoadRun.triesWithoutAnswer)
        guard rest > 0, !failed.isFinal else {
          failure = LoadFailure(description: "\(name): \(failed.reason)")
          return
        }
        loop.after(milliseconds: 1_000) { attempt(number, rest - 1) }
      }
    }
    for number in 0..<count { attempt(number, LoadRun.tries) }
    while done < count, failure == nil {
      loop.run(until: loop.now + 1_000_000_000) { done < count && failure == nil ? .max : nil }
      tell("\(done) of \(count) \(name)")
      stalledSeconds = done == doneBefore ? stalledSeconds + 1 : 0
      doneBefore = done
      if stalledSeconds > LoadRun.longestStall, failure == nil {
        failure = LoadFailure(description: "\(name): no answer for \(LoadRun.longestStall) s")
      }
      if isStopped() { failure = LoadFailure(description: "stopped") }
    }
    if let failure { throw failure }
  }

  /// Why something was not done.
  struct Failed {
    let reason: String
    /// Whether it would fail again.
    var isFinal = false
    /// Whether somebody answered.
    var isAnswer = true
  }

  private func failed(_ status: Int?, _ body: UnsafeRawBufferPointer) -> Failed? {
    guard let status else {
      return Failed(reason: "nobody answers, or the connection ended before the answer", isAnswer: false)
    }
    guard status >= 300 else { return nil }
    let text = String(decoding: body.prefix(300), as: UTF8.self)
    return Failed(reason: "\(status) \(text)", isFinal: [400, 401, 403].contains(status))
  }

  private func makeUser(_ user: Int, _ then: @escaping (Failed?) -> Void) {
    let id = settings.plan.userID(user)
    make("/v3/users", #"{"user_id":"\#(id)","nickname":"\#(id)","profile_url":""}"#, then)
  }

  private func makeChannel(_ channel: Int, _ then: @escaping (Failed?) -> Void) {
    let plan = settings.plan
    let members = (0..<plan.members).map { plan.userID(plan.member($0, of: channel)) }
    makeChannel(plan.channelURL(channel), members, then)
  }

  private func makeBeside(_ number: Int, _ then: @escaping (Failed?) -> Void) {
    let plan = settings.plan
    makeChannel(plan.besideURL, (0..<plan.besideMembers).map(plan.userID), then)
  }

  private func makeChannel(_ url: String, _ members: [String], _ then: @escaping (Failed?) -> Void) {
    let list = members.map { "\"\($0)\"" }.joined(separator: ",")
    make(
      "/v3/group_channels",
      #"{"channel_url":"\#(url)","name":"\#(url)","is_distinct":false,"user_ids":[\#(list)]}"#, then)
  }

  /// Makes something at the chat server, unless an earlier load made it.
  private func make(_ path: String, _ body: String, _ then: @escaping (Failed?) -> Void) {
    server.send(Request(method: "POST", path: path, headers: settings.serverHeaders, body: body)) {
      [self] status, answer in
      let isThere = status == 400 && String(decoding: answer, as: UTF8.self).contains("400202")
      then(isThere ? nil : failed(status, answer))
    }
  }

  private func connect(_ user: Int, _ then: @escaping (Failed?) -> Void) {
    let headers = settings.headers(settings.plan.userID(user))
    service.send(Request(method: "PUT", path: "/v1/connection", headers: headers)) { [self] in
      then(failed($0, $1))
    }
  }

  /// Waits until the service knows that the user is in the channel beside the others.
  private func findBeside(_ member: Int, _ then: @escaping (Failed?) -> Void) {
    let plan = settings.plan
    let (path, headers) = ("/v1/channels/\(plan.besideURL)", settings.headers(plan.userID(member)))
    service.send(Request(method: "GET", path: path, headers: headers)) { [self] in then(failed($0, $1)) }
  }

  private func follow(_ number: Int, _ then: @escaping (Failed?) -> Void) {
    let (user, channel) = settings.plan.reader(number)
    let reader = opening[number] ?? Reader(self, user: user, channel: channel)
    opening[number] = reader
    reader.open { [self] status, body in
      if let failed = failed(status, body) { return then(failed) }
      opening[number] = nil
      readers[channel, default: []].append(reader)
      reader.poll()
      then(nil)
    }
  }

  // MARK: - The load

  private func sendAndRead() {
    let start = loop.now
    let end = start + UInt64(settings.warmUp + settings.seconds) * 1_000_000_000
    measuredFrom = start + UInt64(settings.warmUp) * 1_000_000_000
    var messages = Pace(settings.messagesPerSecond, from: start)
    var beside = Pace(settings.besidePerSecond, from: start)
    var pages = Pace(settings.pagesPerSecond, from: start)
    // The last second ends with the run.
    var ticks = Pace(1, from: start + 1_000_000_000)
    loop.run(until: end) { [self] in
      let now = loop.now
      while let due = messages.take(now: now) { send(due, isFromServer: messages.count % 2 == 0) }
      while let due = beside.take(now: now) { sendBeside(due, beside.count) }
      while let due = pages.take(now: now) { readPage(due) }
      while ticks.take(now: now) != nil {
        endSecond()
        hasStopped = isStopped()
        if hasStopped { return nil }
      }
      return min(messages.next, beside.next, pages.next, ticks.next)
    }
    if !hasStopped { endSecond() }
  }

  /// Waits for the last answers and deliveries.
  private func awaitLast() {
    for _ in 0..<LoadRun.lastSeconds where !hasStopped {
      loop.run(until: loop.now + 1_000_000_000)
      endSecond()
      hasStopped = isStopped()
      if unanswered.values.allSatisfy({ $0 == 0 }), missing.isEmpty { return }
    }
  }

  /// Ends the polls and disposes of the views, so that the next load does not find them.
  private func closeViews() {
    let all = Array(readers.values.joined())
    var left = all.count
    for reader in all {
      reader.stop()
      service.send(reader.disposal) { _, _ in left -= 1 }
    }
    loop.run(until: loop.now + UInt64(LoadRun.lastSeconds) * 1_000_000_000) { left > 0 ? .max : nil }
    if left > 0 { report.errors["end of a view without an answer"] = left }
  }

  private func endSecond() {
    let index = report.seconds.count
    report.seconds.append(second)
    second = Second()
    metrics.send(Request(path: settings.metrics.path)) { [self] status, body in
      if status == 200 {
        report.seconds[index].machine = Machine(metrics: String(decoding: body, as: UTF8.self))
      }
    }
    let known = report.seconds.last { $0.machine != nil }
    tell(
      LoadReport.progress(
        report.seconds[index], known?.machine, elapsed: index + 1, errors: report.errors.values.reduce(0, +)))
  }

  private func send(_ due: UInt64, isFromServer: Bool) {
    let plan = settings.plan
    let channel = Int.random(in: 0..<plan.channels, using: &random)
    let sender = plan.member(Int.random(in: 0..<plan.members, using: &random), of: channel)
    let number = sent.add(
      Sent.Message(due: due, isFromServer: isFromServer, channel: channel, sender: sender))
    let text = sent.text(of: number)
    let (id, url) = (plan.userID(sender), plan.channelURL(channel))
    asked(isFromServer ? "send at the chat server" : "send")
    if isFromServer {
      let body = #"{"message_type":"MESG","user_id":"\#(id)","message":"\#(text)"}"#
      server.send(
        Request(
          method: "POST", path: "/v3/group_channels/\(url)/messages", headers: settings.serverHeaders,
          body: body)
      ) { [self] status, _ in
        if answered(status, "send at the chat server") { sent.accept(number) }
      }
    } else {
      service.send(
        Request(
          method: "POST", path: "/v1/channels/\(url)/messages", headers: settings.headers(id),
          body: #"{"message":"\#(text)"}"#)
      ) { [self] status, _ in
        guard answered(status, "send") else { return }
        second.accepted.add(nanoseconds: loop.now - due)
        sent.accept(number)
      }
    }
  }

  private func sendBeside(_ due: UInt64, _ number: Int) {
    let plan = settings.plan
    let sender = plan.userID(Int.random(in: 0..<plan.besideMembers, using: &random))
    asked("send beside")
    service.send(
      Request(
        method: "POST", path: "/v1/channels/\(plan.besideURL)/messages", headers: settings.headers(sender),
        body: #"{"message":"beside \#(number)"}"#)
    ) { [self] status, _ in
      if answered(status, "send beside") { second.beside.add(nanoseconds: loop.now - due) }
    }
  }

  /// The deliveries that did not come.
  private var missing: [String] {
    sent.messages.indices.flatMap { number -> [String] in
      let message = sent.messages[number]
      guard message.isAccepted else { return [] }
      return readers[message.channel, default: []].filter {
        $0.user != message.sender && !$0.isTold(of: number)
      }.map {
        "message \(sent.text(of: number)) of \(settings.plan.channelURL(message.channel)), "
          + settings.plan.userID($0.user)
      }
    }
  }

  private func readPage(_ due: UInt64) {
    let plan = settings.plan
    let channel = Int.random(in: 0..<plan.channels, using: &random)
    let user = plan.member(Int.random(in: 0..<plan.members, using: &random), of: channel)
    let request = Request(
      path: "/v1/channels/\(plan.channelURL(channel))/messages?limit=30",
      headers: settings.headers(plan.userID(user)))
    asked("page")
    service.send(request) { [self] status, _ in
      if answered(status, "page") { second.pages.add(nanoseconds: loop.now - due) }
    }
  }

  private func asked(_ name: String) { unanswered[name, default: 0] += 1 }

  private func answered(_ status: Int?, _ name: String) -> Bool {
    unanswered[name, default: 0] -= 1
    return note(status, name)
  }

  /// Counts an error. True: it is none.
  @discardableResult
  func note(_ status: Int?, _ name: String) -> Bool {
    if let status, (200..<300).contains(status) { return true }
    report.errors["\(name) \(status.map { "\($0)" } ?? "cut off")", default: 0] += 1
    return false
  }
}
