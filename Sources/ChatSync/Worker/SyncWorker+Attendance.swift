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
    await inSlices("know") { last in
      let found = try self.store.overview(after: last, limit: SyncWorker.slice)
      for channel in found {
        self.plan.know(
          channel.url, isPrefetched: channel.line.isPrefetched(self.plan.pace.prefetchMessages),
          isUnverified: channel.line.unverified != nil, lastMessageAt: channel.lastMessageAt,
          isUsed: channel.usedAt > lately, now: self.now)
      }
      return found.last?.key
    }
  }

  /// Looks at all channels of a user who came, rests or goes.
  func sortChannels(of user: UserID) async {
    await inSlices("attend") { last in
      let found = try self.store.channels(of: user, after: last, limit: SyncWorker.slice)
      for channel in found { try self.sort(channel.url) }
      return found.last?.key
    }
  }

  /// Looks at these channels.
  func sort(_ channels: [ChannelURL]) async {
    var rest = channels[...]
    await inSlices("attend") { _ in
      for url in rest.prefix(SyncWorker.slice) { try self.sort(url) }
      rest = rest.dropFirst(SyncWorker.slice)
      return rest.isEmpty ? nil : ChannelKey(0)
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

  /// Calls `step` with the last channel of the slice before, until it returns nil.
  private func inSlices(_ name: String, _ step: (ChannelKey?) throws -> ChannelKey?) async {
    var last: ChannelKey?
    repeat {
      do { last = try step(last) } catch {
        Log.line(.error, "sync_store_failed", ["job": .text(name), "reason": .text("\(error)")])
        return turn()
      }
      turn()
      await Task.yield()
    } while last != nil && !isStopped
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
