import ChatCache
import ChatModel
import JSON

/// The changes of one user's unsent rows between two cursors, collected from the log.
struct UnsentChanges {
  /// A sent message that was an unsent row before.
  struct Answer {
    let request: String
    /// Whether the unsent message existed at the first cursor, so that the client knows it.
    let wasPending: Bool
  }

  /// By the message's id.
  private(set) var answers: [Int64: Answer] = [:]
  /// The requests that were accepted or sent again after the first cursor.
  private var created: Set<ExactText> = []
  /// The last step of each upload that the log names.
  private(set) var steps = TextMap<Int64>()
  /// The last source that the log names for each request.
  private(set) var sources = TextMap<ChangeSource>()

  init(_ log: [LoggedChange], of user: UserKey, until end: Int64) {
    for logged in log where logged.sequence <= end {
      let change = logged.change
      if change.kind == .upload, change.user == user, let request = change.reference {
        steps[request] = logged.sequence
      }
      guard change.kind == .outbox else { continue }
      guard change.user == user, let request = change.reference else { continue }
      if change.source == .localPendingCreated { created.insert(ExactText(request)) }
      sources[request] = change.source
      if let id = change.outboxDetail(.message) {
        answers[id] = Answer(request: request, wasPending: wasPending(request))
      }
    }
  }

  /// Whether the client was told of the request before.
  func wasPending(_ request: String) -> Bool { !created.contains(ExactText(request)) }
}

extension MessageDiff {
  /// Tells of a sent message that was unsent before. If the client has the unsent one, the message is told as
  /// an update, with its request id. False: the view does not show the message; the unsent one is told by its
  /// request id.
  mutating func tellAnswer(_ answer: UnsentChanges.Answer, _ row: Candidate) -> Bool {
    guard row.isIn, !told.contains(row.position.messageID) else { return false }
    events.add(answer.wasPending ? .updated : .added, .messageSent, status: "succeeded", row.object)
    told.insert(row.position.messageID)
    toldRequests.insert(ExactText(answer.request))
    after[row.position.messageID] = row.version
    range.arrive(at: row.position)
    return true
  }

  /// Tells the progress of an upload; only the last step of each.
  mutating func uploadMoved(_ change: Change, _ sequence: Int64) {
    guard let request = change.reference, unsent.steps[request] == sequence else { return }
    events.add(event: EventWriter.progress(change, collection.url, collection: name))
  }

  /// Tells of an unsent message or change. Each request gets one entry, with its present state.
  mutating func unsentChanged(_ change: Change) throws {
    guard let request = change.reference, !toldRequests.contains(ExactText(request)) else { return }
    let source = unsent.sources[request] ?? change.source
    if let target = change.outboxDetail(.target) { return try changePending(of: target, source) }
    toldRequests.insert(ExactText(request))
    let laneKey = OutboxLaneKey(user: collection.user, channel: collection.url)
    let wasPending = unsent.wasPending(request)
    if let message = try reader.unsentMessage(request, in: laneKey) {
      guard message.isShown(by: collection.request.filter, sender: collection.userID) else {
        // After an edit the view's filter may not show the message any more.
        if wasPending { goes(request, source, message.status.rawValue) }
        return
      }
      events.add(wasPending ? .updated : .added, source, status: message.status.rawValue, message.object)
    } else if let id = change.outboxDetail(.message) {
      // The log tells of the sent message by its stretch. If the view does not show that message, the unsent
      // one is removed here.
      if try !shows(id), wasPending { goes(request, source, "canceled") }
    } else if wasPending {
      goes(request, source, source == .localFailed ? "failed" : "canceled")
    }
  }

  private mutating func goes(_ request: String, _ source: ChangeSource, _ status: String) {
    var json = JSONWriter()
    json.beginObject()
    json.field("request_id", request)
    json.endObject()
    events.add(.deleted, source, status: status, json.finish().array)
  }

  /// Tells of a confirmed message whose pending changes changed, as the user sees it now.
  private mutating func changePending(of id: Int64, _ source: ChangeSource) throws {
    guard !told.contains(id), let position = try reader.position(of: id, in: view.channel) else { return }
    for row in try candidates(position...position, nil) where row.isIn {
      let isNew = Verdict(since: shown.knowledge(of: id), now: row.version) == .added
      events.add(isNew ? .added : .updated, source, status: "succeeded", row.object)
      told.insert(id)
      after[id] = row.version
      if isNew { range.arrive(at: position) }
    }
  }

  /// Whether the view shows a message.
  private mutating func shows(_ id: Int64) throws -> Bool {
    guard let position = try reader.position(of: id, in: view.channel) else { return false }
    return try candidates(position...position, nil).contains { $0.isIn }
  }
}
