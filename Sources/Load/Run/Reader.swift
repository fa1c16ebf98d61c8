import JSON

/// A user who follows a view of one channel by long polls.
final class Reader {
  let user: Int
  private let channel: Int
  private unowned let run: LoadRun
  private let connection: HTTPConnection
  private let headers: [String]
  private var view = ""
  private var cursor = ""
  /// The numbers of this load's messages that the view told.
  private var told: Set<Int> = []
  private var isStopped = false

  private static let waitSeconds = 30
  /// The messages that a view shows at first. Of a channel that is fetched only then, it shows those that
  /// came meanwhile, too.
  private static let shown = 30

  init(_ run: LoadRun, user: Int, channel: Int) {
    self.run = run
    self.user = user
    self.channel = channel
    connection = HTTPConnection(to: run.settings.service, run.loop)
    headers = run.settings.headers(run.settings.plan.userID(user))
  }

  /// Opens the view.
  func open(_ then: @escaping HTTPConnection.Finish) {
    let url = run.settings.plan.channelURL(channel)
    ask(
      Request(
        method: "POST", path: "/v1/message-collections", headers: headers,
        body: #"{"channel_url":"\#(url)","previous_size":\#(Reader.shown)}"#)
    ) { [self] status, body in
      if status == 201 {
        _ = run.json.read(body) { json in
          view = json["id"]?.string ?? ""
          cursor = json["cursor"]?.string ?? ""
          // If the view was opened again, these messages came while it was closed. Their times would say
          // nothing, so they count as told.
          told.formUnion(Told.numbers(json, run.sent))
        }
      }
      then(status, body)
    }
  }

  /// Polls until `stop`.
  func poll() {
    guard !isStopped else { return }
    let path = "/v1/message-collections/\(view)/events?since=\(cursor)&wait=\(Reader.waitSeconds)"
    ask(Request(path: path, headers: headers)) { [self] status, body in
      guard !isStopped else { return }
      guard run.note(status, "poll") else {
        return run.loop.after(milliseconds: 1_000) { [self] in isGone(status) ? openAgain() : poll() }
      }
      take(body)
      poll()
    }
  }

  /// Whether the view told this message.
  func isTold(of number: Int) -> Bool { told.contains(number) }

  func stop() { isStopped = true }

  /// The request that disposes of the view.
  var disposal: Request {
    Request(method: "DELETE", path: "/v1/message-collections/\(view)", headers: headers)
  }

  private func ask(_ request: Request, _ finish: @escaping HTTPConnection.Finish) {
    connection.send(request.bytes(for: run.settings.service), finish)
  }

  private func isGone(_ status: Int?) -> Bool { status == 404 || status == 410 }

  private func openAgain() {
    open { [self] status, _ in
      if run.note(status, "open") { poll() } else { run.loop.after(milliseconds: 1_000) { self.openAgain() } }
    }
  }

  private func take(_ body: UnsafeRawBufferPointer) {
    let now = run.loop.now
    guard let answer = run.recentlyTold.read(body, run.json, run.sent) else { return }
    cursor = answer.cursor ?? cursor
    for message in answer.messages {
      let sent = run.sent.messages[message.number]
      if told.insert(message.number).inserted {
        count(sent, message.number, now)
      } else if message.isAdded, sent.sender != user {
        run.report.doubled += 1
      }
    }
  }

  private func count(_ message: Sent.Message, _ number: Int, _ now: UInt64) {
    guard message.sender != user else { return }
    run.sent.tell(number, at: now)
    if message.isFromServer {
      run.second.deliveredFromServer.add(nanoseconds: now - message.due)
    } else {
      run.second.delivered.add(nanoseconds: now - message.due)
    }
  }
}
