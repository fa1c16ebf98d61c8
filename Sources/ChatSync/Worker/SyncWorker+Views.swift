import ChatCache
import ChatModel
import Platform

// Open views and their first answers (B16), gaps that clients asked to fill (B28), and webhook notes (B34).
extension SyncWorker {
  /// A view was opened, or moved to or from the newest end. A view that is new is owed one answer (B16).
  package func open(_ view: OpenView, isNew: Bool) {
    plan.open(view, now: now)
    if isNew {
      unanswered[view.channel, default: TextMap()][view.id] = view.wasToldOfFailure
      // Its user may be active and have joined after all others had gone idle.
      lookForActive(in: view.channel)
    }
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

  /// While the link is offline, new views are told of that at once, and get their first answer when it is
  /// back.
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

  /// Answers the views that are still owed a first answer: a failure once, then one success (B16).
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

  /// Lists the messages that new views show and that the newest page lacks (B16).
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

  /// A client asks to fill a gap, or no longer does (B28).
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

  /// Takes a webhook whose signature was checked: stores its notes durably, then works on them (B34). Returns
  /// the number of notes.
  package func takeWebhook(_ webhook: [UInt8]) async -> Result<Int, SyncError> {
    let notes: [Webhook.Note]
    do { notes = try webhook.withUnsafeBytes { try Webhook.notes($0) } } catch {
      return .failure(.unreadable(field: (error as? Webhook.Fault)?.field))
    }
    plan.heardWebhook(now: now)
    do {
      // Webhooks come for the whole application: those for channels without a user of this cache are dropped.
      let notes = try notes.filter(concernsSomebody).map(abridged)
      guard !notes.isEmpty else { return .success(0) }
      try holdLeavers(notes)
      try take(try await store.note(notes))
      turn()
      return .success(notes.count)
    } catch {
      return .failure(.storage(reason: "\(error)"))
    }
  }

  /// Those who left, and all members of a deleted channel, are shown no news until their changes are known
  /// (B1): another channel may have been made under the same url, in which they are not.
  private func holdLeavers(_ notes: [Webhook.Note]) throws {
    for note in notes {
      let leavers =
        switch note.source {
        case .memberLeft: note.users
        case .channelDeleted: try store.connectedMembers(of: note.channel)
        default: [UserID]()
        }
      for user in leavers {
        plan.toldOfLeaving(user, now: now)
        holdLeaver(user)
      }
    }
  }

  private func concernsSomebody(_ note: Webhook.Note) throws -> Bool {
    if try store.line(of: note.channel) != nil { return true }
    return note.kind == .channel && note.users.contains { plan.status(of: $0)?.phase == .connected }
  }

  /// The note as it is stored. If no connected user is in the channel, one note `missed` replaces all notes
  /// about its messages. Any other note keeps only those of its users who have to be asked about.
  private func abridged(_ note: Webhook.Note) throws -> Webhook.Note {
    let users = try peopleToAsk(note)
    guard note.kind != .channel, try isOfNobody(note) else {
      var stored = Webhook.Note(
        kind: note.kind, channel: note.channel, messageID: note.messageID, source: note.source, users: users)
      // New messages of channels that nobody has open would become many notes while much else is due. Where
      // listings lack replies, a reply is found by its id alone.
      stored.mayBeJoined =
        note.kind == .newest && !plan.isOpen(note.channel) && plan.capabilities[.replyListing] == true
      return stored
    }
    return Webhook.Note(kind: .missed, channel: note.channel, source: .messageChangelog)
  }

  /// The users whom a note keeps: those of this cache and, if the cached list of members is whole, those who
  /// came or went.
  private func peopleToAsk(_ note: Webhook.Note) throws -> [UserID] {
    let known = note.users.filter { plan.status(of: $0) != nil }
    guard note.source.concernsMembers, try store.memberList(of: note.channel).isWhole else { return known }
    return known + note.users.filter { plan.status(of: $0) == nil }.prefix(SyncWorker.membersNamed + 1)
  }

  /// Whether no member of the channel and no user whom the note names is connected (B4).
  private func isOfNobody(_ note: Webhook.Note) throws -> Bool {
    guard try store.connectedMembers(of: note.channel, atMost: 1).isEmpty else { return false }
    return !note.users.contains { user in
      plan.status(of: user).map { $0.phase != .stopped && $0.phase != .closed } ?? false
    }
  }

  /// Works on the webhook notes that a stop or a crash left.
  func takeNotes() throws { try take(try store.webhookNotes()) }

  /// Webhook notes were stored by something other than the worker.
  package func lookIntoNotes() {
    do { try takeNotes() } catch {
      Log.line(.error, "sync_store_failed", ["job": "webhook_notes", "reason": .text("\(error)")])
    }
    turn()
  }

  /// A commit stored webhook notes of its own for these channels.
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

  /// Has the plan ask for what the notes name. Notes of channels without a connected user stay until there is
  /// one.
  func take(_ notes: [Webhook.Note]) throws {
    for note in notes {
      guard try !isOfNobody(note) else {
        if plan.channels[note.channel]?.mayFindSomebody == false { plan.hasNobody(note.channel) }
        continue
      }
      switch note.kind {
      case .newest: pendingNotes[note.channel, default: PendingNotes()].isRealtime = true
      case .missed:
        pendingNotes[note.channel, default: PendingNotes()].isMissed = true
      case .message, .channel: break
      }
      plan.noteWebhook(
        note.kind, in: note.channel, message: note.messageID, isRead: note.source == .read, now: now)
    }
  }
}
