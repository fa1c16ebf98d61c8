import ChatCache
import ChatModel
import Platform

// Sends users' unsent rows (B36, B39, B40).
//
// A job begins with a commit and ends with a commit, which begins the next one. Between the two the row is
// marked as under way, so after a crash it is known which rows may have been sent.
extension SyncWorker {
  /// Jobs of one lane in a row, before other lanes have their turn.
  private static let jobsPerTurn = 8
  /// The most pages that are searched for a message that may have arrived.
  private static let lookPages = 20
  /// Rows of such a page.
  private static let lookRows = 200
  /// The interval between two checks of all unsent rows for expiry and withheld messages (ms).
  private static let upkeepInterval: Int64 = 5_000

  /// Rows of these lanes were accepted or changed: an offline link is tried at once (B3).
  package func accepted(in lanes: Set<OutboxLaneName>) {
    plan.urge(now: now)
    lanesChanged(lanes)
  }

  /// Fails expired rows and shows messages that were withheld long enough, also while the upstream is away.
  func keepUp() {
    upkeepAt = plan.lanes.isEmpty && plan.uploads.isEmpty ? .max : now + SyncWorker.upkeepInterval
    let earlier = keepingUp
    keepingUp = Task {
      await earlier?.value
      do {
        guard let next = try await self.store.keepUpOutbox() else { return }
        self.upkeepAt = min(self.upkeepAt, self.now + next)
        self.turn()
      } catch {
        Log.line(.warning, "outbox_upkeep_failed", ["reason": .text("\(error)")])
      }
    }
  }

  /// These lanes were changed by something else than their own turns.
  func lanesChanged(_ lanes: Set<OutboxLaneName>) {
    for lane in lanes {
      plan.outboxChanged(lane, now: now)
      endUnwantedUpload(of: lane)
    }
    upkeepAt = min(upkeepAt, now + SyncWorker.upkeepInterval)
    turn()
  }

  /// Sends what is due in the lane.
  func send(_ lane: OutboxLaneName) async throws -> Outcome {
    var ended = endedSends.removeValue(forKey: lane)
    for _ in 0..<SyncWorker.jobsPerTurn {
      let progress = try await advance(lane, ended, mayBegin: plan.link.isOnline && !isStopped)
      if let wait = progress.nextUploadIn { plan.uploadWaits(lane, milliseconds: wait, now: now) }
      guard let job = progress.begun else { return .drained(nextTryIn: progress.nextTryIn) }
      ended = await perform(job, in: lane)
    }
    let last = try await advance(lane, ended, mayBegin: false)
    if let wait = last.nextUploadIn { plan.uploadWaits(lane, milliseconds: wait, now: now) }
    return .drained(nextTryIn: last.nextTryIn)
  }

  /// Stores how the lane's last job ended, and begins the next one. If the commit fails, the outcome is kept
  /// for the lane's next turn.
  private func advance(
    _ lane: OutboxLaneName, _ ended: EndedOutboxJob?, mayBegin: Bool
  ) async throws -> LaneProgress {
    let isLinkBack = plan.takeLinkBack(lane)
    do {
      let progress = try await store.advance(
        lane, after: ended, mayBegin: mayBegin, mayMarkRead: plan.mayMarkRead(lane), isLinkBack: isLinkBack,
        among: plan.sends, outboxPolicy, random: random.next())
      if let ended { sendingCounts.count(ended.job.job, progress.taken ?? ended.outcome) }
      return progress
    } catch {
      endedSends[lane] = ended
      if isLinkBack { plan.linkIsBack(lane) }
      throw error
    }
  }

  private func perform(_ job: OutboxJob, in lane: OutboxLaneName) async -> EndedOutboxJob {
    do {
      let ended = try await ask(job, lane)
      plan.met(nil, now: now)
      return ended
    } catch {
      // The upstream throws nothing else.
      let error = error as? UpstreamError ?? .canceled
      plan.met(error, now: now)
      var ended = EndedOutboxJob(job, outcome(error, of: job))
      if case .rejection(_, let message) = error { ended.message = message }
      return ended
    }
  }

  private func ask(_ job: OutboxJob, _ lane: OutboxLaneName) async throws -> EndedOutboxJob {
    switch job.job {
    case .look(let position): return try await look(for: job, after: position, in: lane.channel)
    case .deleteSent(let message):
      try await upstream.delete(message: message, in: lane.channel, .send)
      return EndedOutboxJob(job, .success(message: nil))
    case .upload: return EndedOutboxJob(job, .uncertain)
    case .send: return try await post(job, lane)
    }
  }

  private func post(_ job: OutboxJob, _ lane: OutboxLaneName) async throws -> EndedOutboxJob {
    let url = lane.channel
    let target = job.target ?? 0
    switch job.kind {
    case .message, .file:
      var message = OutgoingMessage(
        requestID: job.requestID, user: lane.user, channel: url, params: job.params)
      if let file = job.file {
        guard let path = store.path(of: file.file) else {
          return EndedOutboxJob(job, .rejection(code: OutboxRow.fileMissing))
        }
        message.file = OutgoingFile(path: path, name: file.name, mime: file.mime, size: file.size)
      }
      let sent = try await upstream.send(message, .send)
      return EndedOutboxJob(job, .success(message: sent.messageID), messages: [sent])
    case .edit:
      let edit = OutgoingEdit(user: lane.user, kind: job.targetKind, params: job.params)
      let edited = try await upstream.edit(message: target, in: url, edit, .send)
      return EndedOutboxJob(job, .success(message: target), messages: [edited])
    case .delete:
      try await upstream.delete(message: target, in: url, .send)
      return EndedOutboxJob(job, .success(message: target))
    case .reaction:
      try await upstream.react(
        to: target, in: url, as: lane.user, key: job.aspect, isAdded: job.addsReaction, .send)
      return EndedOutboxJob(job, .success(message: target), messages: await reacted(to: target, in: url))
    case .read:
      try await upstream.markAsRead(url, as: lane.user, .send)
      return EndedOutboxJob(job, .success(message: nil))
    }
  }

  /// The message with its new reaction, which the answer does not show. With it, one commit replaces the
  /// pending reaction by the real one. If it cannot be fetched now, a note asks for it until it can be.
  private func reacted(to message: Int64, in url: ChannelURL) async -> [MessageRecord] {
    do {
      return [try await upstream.message(message, in: url, .send)]
    } catch {
      let note = Webhook.Note(
        kind: .message, channel: url, messageID: message, source: .reactionUpdated)
      do { try take(try await store.note([note])) } catch {
        Log.line(.warning, "reaction_not_shown", ["channel": .text(url.text), "reason": .text("\(error)")])
      }
      return []
    }
  }

  /// Lists all messages after the newest position known when the message was first sent, until a page shows
  /// nothing new. Messages of one millisecond may come in another order in each answer, so each page begins
  /// with the whole millisecond in which the last one ended. A listing with too many pages, or with an item
  /// that cannot be read, does not prove that the message is absent.
  private func look(
    for job: OutboxJob, after position: Position, in url: ChannelURL
  ) async throws -> EndedOutboxJob {
    var found: [MessageRecord] = []
    var seen: Set<Int64> = []
    var searched: Position?
    var isWhole = true
    var moment = position == .start ? 0 : position.createdAt
    var window = MessageWindow(.time(moment), older: 0, newer: SyncWorker.lookRows)
    for _ in 0..<SyncWorker.lookPages {
      let page = try await page(of: url, window, .send).page
      let new = page.items.filter { seen.insert($0.messageID).inserted }
      found += new.filter { $0.position > position }
      // An item that cannot be read may be the message.
      isWhole = isWhole && page.unreadable == 0
      let positions = page.items.map(\.position)
      if isWhole { searched = positions.max() ?? searched }
      guard let last = positions.max(), !new.isEmpty else {
        return EndedOutboxJob(
          job, isWhole ? .absent : .uncertain, messages: found, searched: isWhole ? nil : searched)
      }
      if last.createdAt > moment {
        moment = last.createdAt
        window = MessageWindow(.time(moment), older: 0, newer: SyncWorker.lookRows)
      } else if page.items.count + page.unreadable < SyncWorker.lookRows {
        window = MessageWindow(.time(moment), older: 0, newer: SyncWorker.lookRows, includesAnchor: false)
      } else {
        // Only a millisecond of more messages than a page holds is paged by message.
        guard Listing.areTiesOrdered(positions) else { break }
        window = MessageWindow(.message(last), older: 0, newer: SyncWorker.lookRows, includesAnchor: false)
      }
    }
    return EndedOutboxJob(job, .uncertain, messages: found, searched: searched)
  }

  func outcome(_ error: UpstreamError, of job: OutboxJob? = nil) -> OutboxLane.Outcome {
    switch error {
    case .rejection(let code, _):
      if case .look? = job?.job { return .uncertain }
      if code == 400202 { return .duplicate }
      if error.isNotFound, let job, job.isDeletion { return .success(message: job.target) }
      return .rejection(code: String(code))
    case .rateLimited(let milliseconds): return .wait(until: clock.wallMilliseconds() + milliseconds)
    case .unauthorized: return .linkFault(code: LinkLoss.auth.rawValue)
    case .untrusted: return .linkFault(code: LinkLoss.untrusted.rawValue)
    case .unreachable(_, mayHaveArrived: false): return .linkFault(code: LinkLoss.unreachable.rawValue)
    case .unreachable, .unusable, .unreadable, .canceled: return .uncertain
    }
  }
}
