import ChatModel
import JSON
import SQLite

// How rows leave the outbox. A commit stores the start of each job, so that after a crash the cache knows
// what may have been sent. The commit that stores a job's outcome also begins the lane's next job.

/// One user's unsent rows in one channel, named by the upstream's ids.
package struct OutboxLaneName: Hashable, Sendable {
  /// The user who sends.
  package let user: UserID
  /// The channel that is sent into.
  package let channel: ChannelURL

  /// Names a lane.
  package init(user: UserID, channel: ChannelURL) {
    self.user = user
    self.channel = channel
  }
}

/// A request to make to the upstream for one row. Its start is stored before it is made.
package struct OutboxJob: Sendable {
  /// The row.
  package let row: Int64
  /// What the worker does for the row: send, look, upload or delete.
  package let job: OutboxLane.Job
  /// What kind of row it is.
  package let kind: OutboxRow.Kind
  /// The client's id of the request.
  package let requestID: RequestID
  /// The confirmed message that the row changes.
  package let target: Int64?
  /// The kind of that message.
  package let targetKind: MessageQuery.Kind
  /// The key of a reaction; empty for other kinds.
  package let aspect: String
  /// The client's parameters: a JSON object.
  package let params: [UInt8]
  /// The file to send with the message, if the upstream takes no uploads.
  package var file: StoredUpload?
}

/// How a job ended.
package struct EndedOutboxJob: Sendable {
  /// The job that ended.
  package let job: OutboxJob
  /// The outcome of the job.
  package var outcome: OutboxLane.Outcome
  /// The message in the upstream's answer. For a look: all messages after the row's anchor.
  package var messages: [MessageRecord] = []
  /// For a look that did not read everything: the position up to which it read.
  package var searched: Position?
  /// The upstream's words for a refusal.
  package var message: String?

  /// A job and its outcome.
  package init(
    _ job: OutboxJob, _ outcome: OutboxLane.Outcome, messages: [MessageRecord] = [],
    searched: Position? = nil
  ) {
    self.job = job
    self.outcome = outcome
    self.messages = messages
    self.searched = searched
  }
}

/// The result of `advance`.
package struct LaneProgress: Sendable {
  /// The job whose start was just stored. The worker runs it now.
  package var begun: OutboxJob?
  /// The ms until the lane's next try. Nil: no row of the lane waits for a try.
  package var nextTryIn: Int64?
  /// The outcome of the job that was passed in, with the message that a look found.
  package var taken: OutboxLane.Outcome?
  /// The ms until the lane's next upload may begin. Nil: none waits.
  package var nextUploadIn: Int64?

  /// Progress without an outcome.
  package init(begun: OutboxJob? = nil, nextTryIn: Int64? = nil) {
    self.begun = begun
    self.nextTryIn = nextTryIn
  }
}

extension CacheWriter {
  /// Stores how the lane's last job ended, and begins the next one if one is due.
  ///
  /// `isLinkBack`: the upstream can be reached again, so rows no longer wait for the link. `mayBegin` false:
  /// no job may begin now. `mayMarkRead` false: no read mark may, because nobody has asked yet what is new.
  package func advance(
    _ name: OutboxLaneName, after ended: EndedOutboxJob?, mayBegin: Bool = true, mayMarkRead: Bool = true,
    isLinkBack: Bool = false, _ policy: OutboxPolicy, random: UInt64
  ) throws -> LaneProgress {
    guard let user = try reader.userKey(of: name.user) else { return LaneProgress() }
    let laneKey = OutboxLaneKey(user: user, channel: name.channel)
    let moment = try outboxMoment()
    var taken: OutboxLane.Outcome?
    if let ended {
      taken = try take(ended, in: laneKey, of: name.user, policy, random)
    } else {
      // No job of this lane runs now. A row marked as in flight was left by a commit that failed.
      try changeLane(laneKey, from: try reader.inFlightLane(laneKey)) {
        $0.recover(now: now)
        return []
      }
    }
    let lane = try wake(laneKey, moment, isLinkBack: isLinkBack, policy)
    var progress = LaneProgress()
    let view = try reader.view(of: name.channel, for: user)
    // Before all of the user's channels are listed nobody knows whether the user is a member.
    let isListed = try view != nil || reader.isSynced(user) && !reader.isBeingCleared()
    if mayBegin, isListed {
      progress.begun = try begin(laneKey, name, lane, view, moment, mayMarkRead, policy, random)
    }
    try releaseWithheld(in: laneKey)
    if progress.begun == nil, let next = try reader.laneStep(laneKey, now: moment).nextSendAt {
      let least = mayBegin && !isListed ? Self.unlistedWait : 0
      progress.nextTryIn = min(max(least, next - now), policy.longestWait)
    }
    if let upload = try reader.nextUpload(in: laneKey)?.nextTryAt {
      progress.nextUploadIn = min(max(0, upload - now), policy.longestWait)
    }
    progress.taken = taken
    return progress
  }

  /// Rows that one commit refuses without asking the upstream. The lane goes on at once in another commit.
  private static let refusalsPerStep = 32

  /// Fails the rows whose lifetime has ended, and makes the rows due that no longer have to wait. Returns the
  /// rows that decide the lane's next step. Lifetimes end by `moment`, which never goes back. Times of tries
  /// use the wall clock.
  private func wake(
    _ laneKey: OutboxLaneKey, _ moment: Int64, isLinkBack: Bool, _ policy: OutboxPolicy
  ) throws -> OutboxLane {
    if isLinkBack {
      try changeLane(laneKey, from: try reader.interruptedLane(laneKey, now: now)) {
        $0.linkRecovered(now: now)
        return []
      }
    }
    let longestWait = max(policy.longestWait, OutboxPolicy.longestPause)
    while true {
      let lane = try reader.laneStep(laneKey, now: moment)
      var woken = lane
      let notices = woken.expire(now: moment)
      woken.clockWentBack(now: now, longest: longestWait)
      guard woken != lane else { return lane }
      // After rows ended or changed, another row may be the lane's first one.
      try changeLane(laneKey, from: lane) {
        $0 = woken
        return notices
      }
    }
  }

  private func begin(
    _ laneKey: OutboxLaneKey, _ name: OutboxLaneName, _ lane: OutboxLane, _ view: ChannelView?,
    _ moment: Int64, _ mayMarkRead: Bool, _ policy: OutboxPolicy, _ random: UInt64
  ) throws -> OutboxJob? {
    let newest = try view.flatMap { try reader.newestKnown(in: $0.channel) } ?? .start
    var begun: (row: OutboxRow, job: OutboxLane.Job)?
    var step = lane
    for _ in 0..<Self.refusalsPerStep {
      var isRefused = false
      try changeLane(laneKey, from: step) { lane in
        guard let due = lane.jobs(now: now).first(where: { $0.job != .upload }),
          let row = lane.row(due.row)
        else { return [] }
        let refusal = due.job == .send ? try refusal(of: row, view, name.user, mayMarkRead) : nil
        guard lane.dispatch(due.row, due.job, now: now, newest: newest, policy: policy) else { return [] }
        guard let refusal else {
          begun = (row, due.job)
          return []
        }
        isRefused = true
        return lane.finish(due.row, .send, refusal, now: now, random: random, policy: policy)
      }
      guard isRefused else { break }
      step = try reader.laneStep(laneKey, now: moment)
    }
    guard let begun, let content = try reader.content(ofUnsent: begun.row.id) else { return nil }
    if begun.job == .send, begun.row.anchor != nil { try noteEditSent(begun.row.id) }
    var job = OutboxJob(
      row: begun.row.id, job: begun.job, kind: begun.row.kind, requestID: begun.row.requestID,
      target: begun.row.target, targetKind: try reader.targetKind(of: begun.row, view),
      aspect: begun.row.aspect, params: content.params)
    if begun.row.kind == .file, begun.row.upload == .none { job.file = try reader.upload(of: begun.row.id) }
    return job
  }

  /// How long a row waits while the user's channels are listed (ms).
  private static let unlistedWait: Int64 = 1_000

  /// The reason not to send an accepted row now. The user may have lost the right to send (B67). A read mark
  /// waits while a newer message is unread.
  private func refusal(
    of row: OutboxRow, _ view: ChannelView?, _ user: UserID, _ mayMarkRead: Bool
  ) throws -> OutboxLane.Outcome? {
    guard let view else { return .rejection(code: OutboxRow.notAMember) }
    if row.kind == .read {
      let mustWait =
        try !mayMarkRead || reader.unreadCount(view) > 0 || reader.isLastMessageUncounted(view)
      return mustWait ? .wait(until: now + ReadMark.waitMilliseconds) : nil
    }
    do {
      try reader.checkRights(
        of: SendingRights(kind: row.kind, target: row.target, isAdmin: row.isAdmin, isAccepted: true), view,
        user)
      return nil
    } catch let denial as SendingDenial {
      return .rejection(code: denial.code)
    }
  }

  private func take(
    _ ended: EndedOutboxJob, in laneKey: OutboxLaneKey, of user: UserID, _ policy: OutboxPolicy,
    _ random: UInt64
  ) throws -> OutboxLane.Outcome {
    var ended = ended
    if case .look = ended.job.job, ended.outcome == .absent || ended.outcome == .uncertain,
      let found = try reader.answer(to: ended.job, of: user, laneKey.user, among: ended.messages)
    {
      ended.outcome = .success(message: found.messageID)
      ended.messages = [found]
    }
    let edited = try reader.editedWhileSent(ended.job.row)
    let notices = try changeLane(laneKey, from: try reader.laneStep(laneKey, row: ended.job.row)) {
      let notices = $0.finish(
        ended.job.row, ended.job.job, ended.outcome, now: now, random: random, policy: policy)
      if ended.outcome == .uncertain, let position = ended.searched {
        $0.searched(ended.job.row, through: position)
      }
      return notices
    }
    if let message = ended.message, notices.contains(where: { $0.isFailure(of: ended.job.row) }) {
      try noteError(message, of: ended.job.row)
    }
    guard case .success(let message) = ended.outcome else { return ended.outcome }
    try store(ended.messages, of: ended.job, sent: message, in: laneKey)
    if let sent = ended.messages.first {
      try sendEdit(edited, of: ended.job.requestID, missingIn: sent, in: laneKey)
    }
    if ended.job.isDeletion, let target = ended.job.deleted {
      try delete(message: target, in: laneKey.channel, .messageDeleted)
    }
    return ended.outcome
  }

  /// Stores the messages of a job's answer. `message`: the one that the job's row became, which is withheld
  /// no longer.
  private func store(
    _ messages: [MessageRecord], of job: OutboxJob, sent message: Int64?, in laneKey: OutboxLaneKey
  ) throws {
    let channel = try reader.channelKey(of: laneKey.channel)
    var isReleased = false
    if let message, let channel { isReleased = try release(message, of: laneKey.user, in: channel) }
    let before = isReleased ? try reader.lastChange() : 0
    for record in messages { try store(record, in: laneKey.channel, job.source) }
    guard isReleased, let message, let channel else { return }
    // If the answer stored the message for the first time, everybody is told of it.
    if let first = try reader.firstVersion(of: message, in: channel), first > before { return }
    try show(message, to: laneKey.user, in: channel, .messageSent)
  }
}

extension CacheReader {
  /// The kind of the message that a change is about, even if the message was evicted.
  fileprivate func targetKind(of row: OutboxRow, _ view: ChannelView?) throws -> MessageQuery.Kind {
    if let target = row.target, let view, let kind = try kind(of: target, in: view.channel) { return kind }
    return try db.first("SELECT target_kind FROM outbox WHERE id = ?1") {
      $0.bind(1, row.id)
    } _: {
      $0.int64OrNil(0).flatMap { MessageQuery.Kind(rawValue: $0) } ?? .user
    } ?? .user
  }

  /// The kind of a stored message.
  func kind(of message: Int64, in channel: ChannelKey) throws -> MessageQuery.Kind? {
    try db.first(
      "SELECT type FROM message INDEXED BY message_by_id WHERE channel = ?1 AND message_id = ?2"
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, message)
    } _: {
      MessageQuery.Kind(rawValue: $0.int64(0))
    } ?? nil
  }
}

extension OutboxContent {
  /// The kind of the unsent message.
  var messageKind: MessageQuery.Kind {
    get throws {
      try params.withUnsafeBytes { bytes in
        try JSONParser.parse(bytes) { message in
          switch message["type"]?.string {
          case "file": .file
          case "admin": .admin
          default: .user
          }
        }
      }
    }
  }
}

extension OutboxJob {
  /// The name of the event that tells how the row ended.
  fileprivate var source: ChangeSource {
    switch kind {
    case .message, .file: .messageSent
    case .edit, .delete: .messageUpdated
    case .reaction: .reactionUpdated
    case .read: .read
    }
  }

  /// Whether the job deletes a message.
  package var isDeletion: Bool {
    if case .deleteSent = job { return true }
    return kind == .delete && job == .send
  }

  /// Whether a reaction is added, not removed.
  package var addsReaction: Bool {
    let isAdded = params.withUnsafeBytes { JSONParser().read($0) { $0["add"]?.bool } }
    return (isAdded ?? nil) ?? true
  }

  /// The message that a successful deletion removes.
  fileprivate var deleted: Int64? {
    if case .deleteSent(let message) = job { return message }
    return target
  }
}

extension SendingDenial {
  /// The upstream's code for this denial.
  var code: String {
    switch self {
    case .channelNotFound, .notJoined: OutboxRow.notAMember
    case .notAllowed(.muted): "900041"
    case .notAllowed(.frozen): "900050"
    case .notAllowed: "not_allowed"
    case .messageNotFound, .unsent: "400201"
    case .tooLong: "400110"
    case .full: "outbox_full"
    }
  }
}
