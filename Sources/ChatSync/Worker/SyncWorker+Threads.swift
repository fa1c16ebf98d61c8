import ChatCache
import ChatModel
import Platform

// The replies to a message, listed as a thread: they may lie far back, where the channel's line was never
// listed.
extension SyncWorker {
  /// Lists a stretch of a thread and stores what that proves of it. If the page has fewer replies than
  /// requested, a page from the thread's other end joins it, so that two requests cover a short thread.
  /// False: the upstream does not list threads.
  func listThread(
    _ parent: Int64, in url: ChannelURL, _ window: MessageWindow, _ importance: Importance
  ) async throws -> Bool {
    guard !ignoresThreads else { return false }
    var listings: [MessageListing] = []
    do {
      guard let first = try await threadPage(parent, in: url, window, importance) else { return false }
      listings.append(first)
      if let end = SyncWorker.otherEnd(of: window, first.rows.count) {
        guard let other = try await threadPage(parent, in: url, end, importance) else { return false }
        listings.append(other)
      }
    } catch let error as UpstreamError {
      // The anchor's message may be gone, or the upstream does not take the query's words.
      guard error.concernsOneItem, error.isRefusal else { throw error }
      return false
    }
    // An empty page proves nothing if the other one shows replies.
    if listings.contains(where: { !$0.rows.isEmpty }) { listings.removeAll { $0.rows.isEmpty } }
    if try await store.store(listings, ofThread: parent, in: url, context(.apiResult)) {
      plan.settle(url, now: now)
    }
    return true
  }

  /// Lists what a view of a thread shows at first.
  func listThread(_ parent: Int64, in url: ChannelURL, _ start: OpenView.Start) async throws -> Bool {
    let rows = Limits.messagePageRows
    let window = MessageWindow(
      start.at.map { .time($0) } ?? .newest, older: min(max(start.older, 1), rows),
      newer: start.at == nil ? 0 : min(start.newer, rows))
    return try await listThread(parent, in: url, window, .open)
  }

  /// The listing from the thread's other end that a page of so many rows needs; nil: it was full.
  private static func otherEnd(of window: MessageWindow, _ rows: Int) -> MessageWindow? {
    guard rows < window.older + window.newer else { return nil }
    return window.older > 0
      ? MessageWindow(.time(0), older: 0, newer: Limits.messagePageRows)
      : MessageWindow(.newest, older: GapCheck.pageRows, newer: 0)
  }

  private func threadPage(
    _ parent: Int64, in url: ChannelURL, _ window: MessageWindow, _ importance: Importance
  ) async throws -> MessageListing? {
    var window = window
    window.thread = parent
    let askedAt = store.mark()
    let page = try await upstream.messages(in: url, window, importance)
    let replies = page.items.filter { $0.messageID != parent }
    guard replies.allSatisfy({ $0.parentID == parent }) else {
      ignoresThreads = true
      Log.line(.info, "upstream_ignores_threads", ["channel": .text(url.text)])
      return nil
    }
    return MessageListing(
      window: window, rows: replies, isWhole: page.unreadable == 0, isEndRead: page.isEndRead,
      breaks: page.breaks, askedAt: askedAt)
  }
}
