import ChatCache
import ChatModel
import Platform

// Asks by id for messages that a listing lacks, or shows although they were deleted (B27): a listing may be
// stale, cut or empty.
extension SyncWorker {
  /// The most doubts that one job settles by asking for the ids.
  static let settledAtOnce = 10
  /// The most doubts that one job asks about, if the upstream does not answer about some of them.
  static let mostTried = 50
  /// If a listing put more messages than this in doubt, a single one that exists proves that the listing was
  /// wrong.
  static let fewDoubts = 5
  /// The time between the first listing and the second one that settles a doubt (ms): long enough for a
  /// server that answers from copies of its data to have the same in all of them.
  static let secondListing: Int64 = 2_000

  /// The doubts of one channel that wait for a second listing.
  struct DoubtRound {
    let unanswered: [DoubtedMessage]
    /// When the second listing may be asked for (monotonic ms).
    let listAt: Int64
  }

  /// Stores listings. The plan then asks for the messages that they put in doubt.
  func keep(_ listings: [MessageListing], in url: ChannelURL, _ context: ListingContext) async throws {
    if try await store.store(listings, in: url, context) { plan.settle(url, now: now) }
  }

  /// Asks for doubted messages by their ids, newest first. If the upstream does not answer about some of
  /// them, the channel's next settle job lists them a second time.
  func settle(_ url: ChannelURL) async throws -> Outcome {
    if let round = doubtRounds[url] {
      guard round.listAt <= now else { return .waits(milliseconds: round.listAt - now) }
      doubtRounds[url] = nil
      return try await settleByListing(round.unanswered, in: url)
    }
    let doubted = try nextDoubts(of: url)
    var unanswered: [DoubtedMessage] = []
    var settled = 0
    for doubt in doubted where settled < SyncWorker.settledAtOnce {
      guard let isThere = try await isThere(doubt, in: url) else {
        unanswered.append(doubt)
        continue
      }
      settled += 1
      if isThere, doubted.count > SyncWorker.fewDoubts {
        try await store.believe(against: doubt.askedAt, in: url)
        break
      }
    }
    if !unanswered.isEmpty {
      doubtRounds[url] = DoubtRound(unanswered: unanswered, listAt: now + SyncWorker.secondListing)
      return .waits(milliseconds: SyncWorker.secondListing)
    }
    let left = try nextDoubts(of: url)
    if left.isEmpty { try know(url) }
    // Doubts that this job did not change are not asked about again at once: the next listing finds them.
    return .progressed(isComplete: left.isEmpty || left == doubted)
  }

  /// The next doubts to ask about: first those older than the last one that could not be settled, then from
  /// the newest again.
  private func nextDoubts(of url: ChannelURL) throws -> [DoubtedMessage] {
    if let end = doubtsTriedDownTo[url] {
      let older = try store.doubted(in: url, below: end, limit: SyncWorker.mostTried)
      if !older.isEmpty { return older }
      doubtsTriedDownTo[url] = nil
    }
    return try store.doubted(in: url, below: nil, limit: SyncWorker.mostTried)
  }

  /// Whether the upstream has the message; nil if the upstream refuses to say, or its answer cannot be read.
  private func isThere(_ doubt: DoubtedMessage, in url: ChannelURL) async throws -> Bool? {
    do {
      return try await fetchMessage(doubt.position.messageID, in: url, .messageFill, .open)
    } catch let error as UpstreamError {
      guard error.concernsOneItem else { throw error }
      return nil
    }
  }

  /// Settles by a second listing the doubts about which the upstream gave no answer by id. Messages that only
  /// this listing puts in doubt are left to the next settle job.
  private func settleByListing(_ unanswered: [DoubtedMessage], in url: ChannelURL) async throws -> Outcome {
    var context = context(.messageFill)
    context.settlesDoubts = true
    for doubt in unanswered {
      // An earlier listing in this loop may have settled this doubt.
      guard try isDoubted(doubt, in: url) else { continue }
      let window = MessageWindow(.time(doubt.position.createdAt), older: 50, newer: 50)
      do {
        _ = try await store.store([try await list(url, window, .open)], in: url, context)
      } catch let error as UpstreamError {
        guard error.concernsOneItem else { throw error }
      }
    }
    let unsettled = try unanswered.filter { try isDoubted($0, in: url) }
    if let oldest = unsettled.last { doubtsTriedDownTo[url] = oldest.position }
    if try nextDoubts(of: url).isEmpty { try know(url) }
    // Neither the ids nor the listings settled a doubt: the next job waits longer each time (B35).
    if unsettled.count == unanswered.count {
      throw UpstreamError.unreadable(reason: "no answer says whether doubted messages are there")
    }
    return .progressed(isComplete: try store.doubted(in: url, below: nil, limit: 1).isEmpty)
  }

  private func isDoubted(_ doubt: DoubtedMessage, in url: ChannelURL) throws -> Bool {
    try store.doubted(in: url, below: doubt.position.next, limit: 1).first == doubt
  }

  /// Asks for a page of messages, and tells when it was asked for. If it is empty although the upstream has
  /// messages there, they may have come meanwhile: it is asked for once more. Throws if it is empty again.
  func page(
    of url: ChannelURL, _ window: MessageWindow, _ importance: Importance
  ) async throws -> (page: UpstreamPage<MessageRecord>, askedAt: Int64) {
    for _ in 1...2 {
      let askedAt = store.mark()
      let page = try await upstream.messages(in: url, window, importance)
      let isEmpty = page.items.isEmpty && page.unreadable == 0
      guard isEmpty, try await hasMessages(url, in: window, importance) else { return (page, askedAt) }
    }
    Log.line(.warning, "upstream_page_empty", ["channel": .text(url.text)])
    throw UpstreamError.unreadable(reason: "an empty page of a channel that has messages there")
  }

  /// Whether the upstream has messages in a window for which its answer was empty. The worker asks for that
  /// end of the channel from the other direction. If that answer is empty, too, the worker asks for the
  /// newest stored messages by their ids.
  private func hasMessages(
    _ url: ChannelURL, in window: MessageWindow, _ importance: Importance
  ) async throws -> Bool {
    let end =
      window.older > 0
      ? MessageWindow(.time(0), older: 0, newer: 1) : MessageWindow(.newest, older: 1, newer: 0)
    guard let found = try await upstream.messages(in: url, end, importance).items.first?.position else {
      return try await isStoredMessageThere(url, importance)
    }
    switch window.anchor {
    case .message(let anchor):
      return window.older > 0 && found < anchor || window.newer > 0 && found > anchor
    case .time(let time):
      return window.older > 0 && found.createdAt < time || window.newer > 0 && found.createdAt > time
        || window.includesAnchor && found.createdAt == time
    case .newest: return true
    }
  }

  /// Whether the upstream has one of the channel's newest stored messages, or the one that the channel names
  /// as its last, or refuses to say.
  private func isStoredMessageThere(_ url: ChannelURL, _ importance: Importance) async throws -> Bool {
    var asked: Int64?
    for _ in 0..<SyncWorker.settledAtOnce {
      guard let newest = try store.newestMessage(of: url), newest != asked else { return false }
      asked = newest
      do {
        if try await fetchMessage(newest, in: url, .messageFill, importance) { return true }
      } catch let error as UpstreamError {
        guard error.concernsOneItem else { throw error }
        return true
      }
    }
    return false
  }
}
