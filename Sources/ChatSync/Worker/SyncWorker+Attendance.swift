import ChatCache
import ChatModel
import Platform

// Channels without a connected user get no jobs, and those without an active user are not polled (B4). When a
// user comes, rests or goes, the user's channels are looked at in slices, and other work goes on in between.
extension SyncWorker {
  /// The channels that are read at once.
  private static let slice = 50
  /// A month, in ms.
  private static let month: Int64 = 30 * 86_400_000

  /// Tells the plan, after a start, of the channels that connected users are in.
  func knowChannels() async {
    let lately = clock.wallMilliseconds() - SyncWorker.month
    await inSlices("know") { worker, last in
      let found = try worker.store.overview(after: last, limit: SyncWorker.slice)
      for channel in found {
        worker.plan.know(
          channel.url, isPrefetched: channel.line.isPrefetched(worker.plan.pace.prefetchMessages),
          isUnverified: channel.line.unverified != nil, lastMessageAt: channel.lastMessageAt,
          isUsed: channel.usedAt > lately, now: worker.now)
      }
      return found.last?.key
    }
  }

  /// Looks at all channels of a user who came, rests or goes.
  func sortChannels(of user: UserID) async {
    await inSlices("attend") { worker, last in
      let found = try worker.store.channels(of: user, after: last, limit: SyncWorker.slice)
      for channel in found { try await worker.sort(channel.url, from: user) }
      return found.last?.key
    }
  }

  /// Looks at these channels, which the user is no longer in.
  func sort(_ channels: [ChannelURL]) async {
    await inSlices("attend") { worker, last in
      let rest = channels.dropFirst(Int(last?.rawValue ?? 0))
      for url in rest.prefix(SyncWorker.slice) { try await worker.sort(url) }
      return rest.count > SyncWorker.slice ? ChannelKey(Int64(rest.startIndex + SyncWorker.slice)) : nil
    }
  }

  /// The urls of all channels of a user.
  func channels(of user: UserID) async throws -> [ChannelURL] {
    var urls: [ChannelURL] = []
    var last: ChannelKey?
    repeat {
      let found = try store.channels(of: user, after: last, limit: SyncWorker.slice)
      urls += found.map(\.url)
      last = found.last?.key
      await Task.yield()
    } while last != nil
    return urls
  }

  private typealias Step = @Sendable (isolated SyncWorker, ChannelKey?) async throws -> ChannelKey?

  /// Calls `step` with the last channel of the slice before, until it returns nil. Where the cache fails, the
  /// rest is tried again later.
  private func inSlices(_ name: String, after first: ChannelKey? = nil, _ step: @escaping Step) async {
    var last = first
    repeat {
      do { last = try await step(self, last) } catch {
        Log.line(.error, "sync_store_failed", ["job": .text(name), "reason": .text("\(error)")])
        turn()
        let reached = last
        return afterOthers { await self.tryAgain(name, after: reached, step) }
      }
      turn()
      await Task.yield()
    } while last != nil && !isStopped
  }

  private func tryAgain(_ name: String, after last: ChannelKey?, _ step: @escaping Step) async {
    if await Task.hasSlept(milliseconds: 1000), !isStopped { await inSlices(name, after: last, step) }
  }

  /// The members of a channel that are read at once.
  private static let members = 10

  /// Tells the plan whether a connected and an active user are in the channel. Reads members some at a time,
  /// from `first` on: when thousands of members go idle one after another, the next active one is most often
  /// near. If another look at the channel begins meanwhile, that one tells the plan.
  private func sort(_ url: ChannelURL, from first: UserID? = nil) async throws {
    looks += 1
    let look = looks
    looksUnderWay[url] = look
    defer { if looksUnderWay[url] == look { looksUnderWay[url] = nil } }
    let start = try first.flatMap { try store.userKey(of: $0)?.rawValue }
    var last = start.map { $0 - 1 } ?? .min
    // The members before `first` come last.
    var isLastPart = start == nil
    var (isOfNobody, isResting) = (true, true)
    while isResting {
      let found = try store.connectedMembers(of: url, after: UserKey(last), limit: SyncWorker.members)
      if !found.isEmpty { isOfNobody = false }
      isResting = !found.contains { isAwake($0.user) }
      let isEnd = found.count < SyncWorker.members
      last = found.last?.key.rawValue ?? last
      if isLastPart, isEnd || last >= start ?? .max { break }
      if isEnd { (last, isLastPart) = (.min, true) }
      guard isResting else { break }
      turn()
      await Task.yield()
      guard looksUnderWay[url] == look && !isStopped else { return }
    }
    if !isOfNobody { try know(url) }
    plan.attend(url, isOfNobody: isOfNobody, isResting: isResting, now: now)
  }

  private func isAwake(_ user: UserID) -> Bool { plan.users[user]?.state.phase != .idle }
}
