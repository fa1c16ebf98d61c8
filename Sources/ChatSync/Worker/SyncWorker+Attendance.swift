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

  /// Looks at these channels, because a user was removed from them, or could not be.
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

  /// An active user may have come to the channel. Looks at it again if all its members were idle, or if a
  /// look that is under way may have missed the user.
  func lookForActive(in url: ChannelURL) {
    guard plan.channels[url]?.isResting == true || looksUnderWay[url] != nil else { return }
    afterOthers { await self.sort([url]) }
  }

  /// A user is in the channel no longer. If it is polled, looks whether another active user is in it.
  func lookAgain(at url: ChannelURL) {
    guard plan.isOpen(url) else { return }
    afterOthers { await self.sort([url]) }
  }

  /// The user is in the channel, as an answer says.
  func meet(_ url: ChannelURL, as user: UserID) throws {
    try know(url)
    if isAwake(user) { lookForActive(in: url) }
  }

  /// The user is no member any more (B69).
  func endMembership(of user: UserID, in url: ChannelURL, _ source: ChangeSource) async throws {
    try await store.removeMembership(of: user, in: url, source)
    lookAgain(at: url)
  }

  /// Tells the plan whether a connected and an active user are in the channel. `first`: the user who came,
  /// rests or goes. If another look at the channel begins before this one ends, that one tells the plan.
  private func sort(_ url: ChannelURL, from first: UserID? = nil) async throws {
    if try isKnown(url, of: first) { return }
    looks += 1
    let look = looks
    looksUnderWay[url] = look
    defer { if looksUnderWay[url] == look { looksUnderWay[url] = nil } }
    var round = MemberRound(from: try first.flatMap { try store.userKey(of: $0) })
    var (isOfNobody, isFirstPage, active) = (true, true, UserID?.none)
    while true {
      let page = try store.connectedMembers(of: url, after: round.after, limit: MemberRound.pageRows)
      isOfNobody = isOfNobody && page.isEmpty
      active = page.first { isAwake($0.user) }?.user
      guard active == nil, round.goOn(after: page.map(\.key)) else { break }
      isFirstPage = false
      guard page.count == MemberRound.pageRows else { continue }
      turn()
      await Task.yield()
      guard looksUnderWay[url] == look && !isStopped else { return }
    }
    activeMembers[url] = isFirstPage ? nil : active
    if !isOfNobody { try know(url) }
    plan.attend(url, isOfNobody: isOfNobody, isResting: active == nil, now: now)
  }

  /// Whether the plan need not be told anew: another user goes idle where all are idle, or the active member
  /// whom the last look found is still active. Else each of thousands who rest would have all others read.
  private func isKnown(_ url: ChannelURL, of first: UserID?) throws -> Bool {
    guard let work = plan.channels[url], !work.isOfNobody else { return false }
    if work.isResting { return first.map { plan.users[$0]?.state.phase == .idle } ?? false }
    guard let active = activeMembers[url], isAwake(active) else { return false }
    guard try store.isConnectedMember(active, of: url) else { return false }
    looksUnderWay[url] = nil
    return true
  }

  private func isAwake(_ user: UserID) -> Bool { plan.users[user]?.state.phase != .idle }
}
