import ChatCache
import ChatModel
import Platform

// Views that are open and what they are owed (B16), gaps somebody wants filled (B28), webhook notes (B34).
extension SyncWorker {
  /// A view was opened, or moved to or from the newest end. A view that is new is owed one answer (B16).
  package func open(_ view: OpenView, isNew: Bool) {
    if isNew { unanswered[view.channel, default: TextMap()][view.id] = view.wasToldOfFailure }
    plan.open(view, now: now)
    tellOffline(view.channel)
    turn()
  }

  /// A view was disposed of.
  package func close(view id: String, in url: ChannelURL) {
    unanswered[url]?[id] = nil
    if unanswered[url]?.isEmpty ?? false { unanswered[url] = nil }
    plan.close(view: id, in: url)
    turn()
  }

  /// While the link is offline nobody waits in vain: the views are told at once, and answered after the
  /// comeback.
  func tellOffline(_ url: ChannelURL) {
    guard case .offline(let reason) = plan.link.state else { return }
    let views = (unanswered[url] ?? TextMap()).filter { !$0 }.map(\.name)
    guard !views.isEmpty else { return }
    let failure = UpstreamError.unreachable(reason: reason.rawValue, mayHaveArrived: false)
    Task {
      do { try await self.answer(views, in: url, failure) } catch {
        Log.line(.error, "sync_store_failed", ["job": "answer", "reason": .text("\(error)")])
      }
    }
  }

  /// Answers the views that are owed it: a failure once, then one success (B16).
  func answer(_ views: [String], in url: ChannelURL, _ failure: UpstreamError?) async throws {
    let owed = views.filter { view in
      guard let wasTold = unanswered[url]?[view] else { return false }
      return failure == nil || !wasTold
    }
    guard !owed.isEmpty else { return }
    for view in owed { unanswered[url]?[view] = failure == nil ? nil : true }
    if unanswered[url]?.isEmpty ?? false { unanswered[url] = nil }
    do {
      try await store.answered(views: owed, in: url, failure: failure)
    } catch {
      for view in owed { unanswered[url, default: TextMap()][view] = false }
      throw error
    }
  }

  /// Lists what new views show and the newest page does not (B16).
  func listStarts(of views: [String], in url: ChannelURL) async throws {
    var seen: Set<MessageWindow> = []
    for id in views {
      guard let start = plan.view(id, in: url)?.start else { continue }
      if let thread = plan.view(id, in: url)?.thread, try await listThread(thread, in: url, start) {
        continue
      }
      let isInNewestPage = start.at == nil && start.older <= GapCheck.pageRows
      let rows = Limits.messagePageRows
      let window = MessageWindow(
        start.at.map { .time($0) } ?? .newest, older: min(start.older, rows), newer: min(start.newer, rows))
      guard !isInNewestPage, window.older + window.newer > 0, seen.insert(window).inserted else { continue }
      let listing = try await list(url, window, .open)
      try await keep([listing], in: url, context(.apiResult))
    }
  }

  /// Somebody asks for a gap, or does not any more (B28).
  package func fill(gap: Int64, in url: ChannelURL, isWanted: Bool) async {
    do {
      if isWanted {
        guard try await store.beginFill(gap, in: url) else { return }
        plan.fill(gap: gap, in: url)
      } else {
        plan.stopFilling(gap: gap, in: url)
        try await store.endFill(gap, in: url)
      }
    } catch {
      Log.line(.error, "sync_store_failed", ["job": "fill", "reason": .text("\(error)")])
    }
    turn()
  }

  /// A webhook whose signature was checked: noted durably, then looked into (B34). How much it named.
  package func takeWebhook(_ webhook: [UInt8]) async -> Result<Int, SyncError> {
    let notes: [Webhook.Note]
    do { notes = try webhook.withUnsafeBytes { try Webhook.notes($0) } } catch {
      return .failure(.unreadable(field: (error as? Webhook.Fault)?.field))
    }
    plan.heardWebhook(now: now)
    do {
      // Webhooks come for the whole application: channels of nobody here are nobody's business here.
      let notes = try notes.filter(concernsSomebody).map(abridged)
      guard !notes.isEmpty else { return .success(0) }
      try take(try await store.note(notes))
      turn()
      return .success(notes.count)
    } catch {
      return .failure(.storage(reason: "\(error)"))
    }
  }

  private func concernsSomebody(_ note: Webhook.Note) throws -> Bool {
    if try store.line(of: note.channel) != nil { return true }
    return note.kind == .channel && note.users.contains { plan.status(of: $0)?.phase == .connected }
  }

  /// Where nobody is to ask for, one note a channel is enough to find all that happened there once somebody
  /// is. Of the users those are kept who are asked about.
  private func abridged(_ note: Webhook.Note) throws -> Webhook.Note {
    let users = try peopleToAsk(note)
    guard note.kind != .channel, try isOfNobody(note) else {
      return Webhook.Note(
        kind: note.kind, channel: note.channel, messageID: note.messageID, source: note.source, users: users)
    }
    return Webhook.Note(kind: .missed, channel: note.channel, source: .messageChangelog)
  }

  /// Whom a note keeps: those who were ever here, and, of a list of members that is whole, those who came or
  /// went.
  private func peopleToAsk(_ note: Webhook.Note) throws -> [UserID] {
    let known = note.users.filter { plan.status(of: $0) != nil }
    guard note.source.concernsMembers, try store.memberList(of: note.channel).isWhole else { return known }
    return known + note.users.filter { plan.status(of: $0) == nil }.prefix(SyncWorker.membersNamed + 1)
  }

  /// Whether neither a member nor whom it names is to be served now (B4).
  private func isOfNobody(_ note: Webhook.Note) throws -> Bool {
    guard try store.connectedMembers(of: note.channel).isEmpty else { return false }
    return !note.users.contains { user in
      plan.status(of: user).map { $0.phase != .stopped && $0.phase != .closed } ?? false
    }
  }

  /// Takes up the webhook notes that a stop or a crash left.
  func takeNotes() throws { try take(try store.webhookNotes()) }

  /// Somebody else stored webhook notes.
  package func lookIntoNotes() {
    do { try takeNotes() } catch {
      Log.line(.error, "sync_store_failed", ["job": "webhook_notes", "reason": .text("\(error)")])
    }
    turn()
  }

  /// A commit noted by itself that something of these channels is to be asked.
  func lookIntoNotes(in urls: Set<ChannelURL>) {
    guard !isStopped else { return }
    do {
      for url in urls {
        try take(try store.webhookNotes(in: url).filter { $0.kind == .channel || $0.kind == .message })
      }
    } catch {
      Log.line(.error, "sync_store_failed", ["job": "webhook_notes", "reason": .text("\(error)")])
    }
    turn()
  }

  /// Has the plan ask for what the notes name. Notes of channels that nobody here is in stay until somebody
  /// is.
  func take(_ notes: [Webhook.Note]) throws {
    for note in try notes.filter({ try !isOfNobody($0) }) {
      switch note.kind {
      case .newest: pendingNotes[note.channel, default: PendingNotes()].isRealtime = true
      case .missed:
        pendingNotes[note.channel, default: PendingNotes()].isMissed = true
      case .message, .channel: break
      }
      plan.noteWebhook(note.kind, in: note.channel, message: note.messageID, now: now)
    }
  }
}
