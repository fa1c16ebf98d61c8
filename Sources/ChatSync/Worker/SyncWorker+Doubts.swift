import ChatCache
import ChatModel
import Platform

// What a listing lacks, and what it shows although it was deleted, is asked for by its id (B27): an answer
// may be stale, cut or empty.
extension SyncWorker {
  /// Messages asked for by their ids in one errand.
  static let settledAtOnce = 10
  /// Where more are doubted than this, one that is there shows that the listing which lacks them was wrong.
  static let fewDoubts = 5
  /// Between a listing and the second one that settles what it lacks (ms).
  static let secondListing: Int64 = 2_000

  /// Stores listings; what they put in doubt is asked for next.
  func keep(_ listings: [MessageListing], in url: ChannelURL, _ context: ListingContext) async throws {
    if try await store.store(listings, in: url, context) { plan.settle(url, now: now) }
  }

  /// Asks for doubted messages, newest first.
  func settle(_ url: ChannelURL) async throws -> Outcome {
    let doubted = try store.doubted(in: url, limit: SyncWorker.settledAtOnce)
    for doubt in doubted {
      let isThere: Bool
      do {
        isThere = try await ask(doubt, in: url)
      } catch {
        guard let error = error as? UpstreamError, case .rejection = error else { throw error }
        try await settleByListing(doubt, in: url)
        continue
      }
      if isThere, doubted.count > SyncWorker.fewDoubts {
        try await store.believe(against: doubt.askedAt, in: url)
        break
      }
    }
    let left = try store.doubted(in: url, limit: SyncWorker.settledAtOnce)
    // A listing that lacked them did not say what is there: it is asked for again.
    if left.isEmpty { try know(url) }
    // What could not be settled is not asked for again at once: the next listing finds it.
    return .progressed(isComplete: left.isEmpty || left == doubted)
  }

  /// Asks for one message by its id and stores what the upstream says.
  private func ask(_ doubt: DoubtedMessage, in url: ChannelURL) async throws -> Bool {
    let askedAt = store.mark()
    do {
      let message = try await upstream.message(doubt.position.messageID, in: url, .open)
      try await store.store(message, in: url, .messageFill, askedAt: askedAt)
      return true
    } catch {
      guard error.isNotFoundUpstream else { throw error }
      try await store.delete(message: doubt.position.messageID, in: url, .messageDeleted)
      return false
    }
  }

  /// Where a message cannot be asked for by its id, a second listing of its moment settles if it is gone.
  private func settleByListing(_ doubt: DoubtedMessage, in url: ChannelURL) async throws {
    // Long enough for a server that answers from copies of its data to have the same in all of them.
    try await Task.sleep(for: .milliseconds(SyncWorker.secondListing))
    let window = MessageWindow(.time(doubt.position.createdAt), older: 50, newer: 50)
    var context = context(.messageFill)
    context.settlesDoubts = true
    try await keep([try await list(url, window, .open)], in: url, context)
  }

  /// An answer without any message proves that none is there only if the channel's end on that side says
  /// so, too: asked for from the other direction, it shows a message unless there is none.
  func confirmEmpty(_ url: ChannelURL, _ window: MessageWindow, _ importance: Importance) async throws {
    let end =
      window.older > 0
      ? MessageWindow(.time(0), older: 0, newer: 1) : MessageWindow(.newest, older: 1, newer: 0)
    let found = try await upstream.messages(in: url, end, importance).items.first?.position
    let isWrong: Bool
    switch window.anchor {
    case .message(let anchor):
      isWrong =
        found.map { window.older > 0 && $0 < anchor || window.newer > 0 && $0 > anchor } ?? true
    case .time(let time):
      isWrong =
        found.map {
          window.older > 0 && $0.createdAt < time || window.newer > 0 && $0.createdAt > time
            || window.includesAnchor && $0.createdAt == time
        } ?? false
    case .newest: isWrong = found != nil
    }
    guard isWrong else { return }
    Log.line(.warning, "upstream_page_empty", ["channel": .text(url.text)])
    throw UpstreamError.unreadable(reason: "an empty page of a channel that has messages there")
  }
}
