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
      for channel in found { try worker.sort(channel.url) }
      return found.last?.key
    }
  }

  /// Looks at these channels.
  func sort(_ channels: [ChannelURL]) async {
    await inSlices("attend") { worker, last in
      let rest = channels.dropFirst(Int(last?.rawValue ?? 0))
      for url in rest.prefix(SyncWorker.slice) { try worker.sort(url) }
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

  private typealias Step = @Sendable (isolated SyncWorker, ChannelKey?) throws -> ChannelKey?

  /// Calls `step` with the last channel of the slice before, until it returns nil. Where the cache fails, the
  /// rest is tried again later.
  private func inSlices(_ name: String, after first: ChannelKey? = nil, _ step: @escaping Step) async {
    var last = first
    repeat {
      do { last = try step(self, last) } catch {
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

  /// Tells the plan whether a connected and an active user are in the channel.
  private func sort(_ url: ChannelURL) throws {
    var members = try store.connectedMembers(of: url, atMost: SyncWorker.slice)
    if !members.contains(where: isAwake), members.count == SyncWorker.slice {
      members = try store.connectedMembers(of: url)
    }
    if !members.isEmpty { try know(url) }
    plan.attend(url, isOfNobody: members.isEmpty, isResting: !members.contains(where: isAwake), now: now)
  }

  private func isAwake(_ user: UserID) -> Bool { plan.users[user]?.state.phase != .idle }
}
