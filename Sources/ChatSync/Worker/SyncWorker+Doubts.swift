import ChatCache
import ChatModel
import Platform

// What a listing lacks, and what it shows although it was deleted, is asked for by its id (B27): an answer
// may be stale, cut or empty.
extension SyncWorker {
  /// Messages in one errand of which the upstream tells by their ids.
  static let settledAtOnce = 10
  /// Messages tried in one errand, where of some of them no answer tells.
  static let mostTried = 50
  /// Where more are doubted than this, one that is there shows that the listing which lacks them was wrong.
  static let fewDoubts = 5
  /// Between a listing and the second one that settles what it lacks (ms).
  static let secondListing: Int64 = 2_000

  /// Stores listings; what they put in doubt is asked for next.
  func keep(_ listings: [MessageListing], in url: ChannelURL, _ context: ListingContext) async throws {
    if try await store.store(listings, in: url, context) { plan.settle(url, now: now) }
  }

  /// Asks for doubted messages, newest first. Those of which no answer tells hold back no others.
  func settle(_ url: ChannelURL) async throws -> Outcome {
    let doubted = try store.doubted(in: url, limit: SyncWorker.mostTried)
    var unsure: [DoubtedMessage] = []
    var settled = 0
    for doubt in doubted where settled < SyncWorker.settledAtOnce {
      guard let isThere = try await answer(doubt, in: url) else {
        unsure.append(doubt)
        continue
      }
      settled += 1
      if isThere, doubted.count > SyncWorker.fewDoubts {
        try await store.believe(against: doubt.askedAt, in: url)
        break
      }
    }
    if !unsure.isEmpty { try await settleByListing(unsure, in: url) }
    let left = try store.doubted(in: url, limit: SyncWorker.mostTried)
    // A listing that lacked them did not say what is there: it is asked for again.
    if left.isEmpty { try know(url) }
    // Only such are left as no answer settles: they are asked for later and later (B35).
    if !left.isEmpty, left.allSatisfy({ unsure.contains($0) }) {
      throw UpstreamError.unreadable(reason: "no answer says whether doubted messages are there")
    }
    // What could not be settled is not asked for again at once: the next listing finds it.
    return .progressed(isComplete: left.isEmpty || left == doubted)
  }

  /// Whether the upstream has the message; nil where it refuses to say, or its answer cannot be read.
  private func answer(_ doubt: DoubtedMessage, in url: ChannelURL) async throws -> Bool? {
    do { return try await ask(doubt, in: url) } catch let error as UpstreamError {
      switch error {
      case .rejection, .unreadable: return nil
      default: throw error
      }
    }
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

  /// Where messages cannot be asked for by their ids, a second listing of their moments settles if they are
  /// gone. What these listings put in doubt themselves is left to the errand that asked for them.
  private func settleByListing(_ unsure: [DoubtedMessage], in url: ChannelURL) async throws {
    // Long enough for a server that answers from copies of its data to have the same in all of them.
    try await Task.sleep(for: .milliseconds(SyncWorker.secondListing))
    var context = context(.messageFill)
    context.settlesDoubts = true
    for doubt in unsure {
      // One listing settles all around it.
      guard try store.doubted(in: url, limit: SyncWorker.mostTried).contains(doubt) else { continue }
      let window = MessageWindow(.time(doubt.position.createdAt), older: 50, newer: 50)
      do {
        _ = try await store.store([try await list(url, window, .open)], in: url, context)
      } catch let error as UpstreamError {
        guard case .unreadable = error else { throw error }
      }
    }
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
