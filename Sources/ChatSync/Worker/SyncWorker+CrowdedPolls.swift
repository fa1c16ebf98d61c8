import ChatCache
import ChatModel

// An answer with a crowded channel has its first hundred members, and the read positions of all. If each
// member's poll brought them, a room would cost the square of its members. So these polls leave them out, and
// a refresh of the channel, at most once a second, brings them for all members.
extension SyncWorker {
  /// Asks for the changes of the user's channels: without members and read positions if the poll before told
  /// of crowded channels alone. If another channel changed, asks again with them.
  func askForChanges(
    of user: UserID, since: ChangesSince
  ) async throws -> UpstreamChanges<ChannelRecord, ChannelURL> {
    let wasInCrowds = plan.users[user]?.isInCrowds ?? false
    // If this fails, the next poll asks for all.
    plan.users[user]?.isInCrowds = false
    var isRefused = false
    if wasInCrowds {
      do {
        let changes = try await upstream.channelChanges(of: user, since: since, hasMembers: false, .open)
        if try changes.updated.allSatisfy({ try $0.hasMembers || store.isCrowded($0.url) }) {
          try await refreshMembers(of: changes.updated)
          plan.users[user]?.isInCrowds = true
          return changes
        }
      } catch UpstreamError.rejection {
        isRefused = true
      }
    }
    let changes = try await upstream.channelChanges(of: user, since: since, hasMembers: true, .open)
    pollsNeedMembers = pollsNeedMembers || isRefused
    try noteCrowds(changes.updated, toldTo: user)
    return changes
  }

  /// Notes whether the user was told of crowded channels alone, with their members and read positions.
  func noteCrowds(_ channels: [ChannelRecord], toldTo user: UserID) throws {
    let areCrowded = try channels.allSatisfy {
      try $0.hasMembers && ($0.readReceipts?.count ?? 0) > plan.pace.mostPositions && store.isCrowded($0.url)
    }
    plan.users[user]?.isInCrowds = areCrowded && !channels.isEmpty && !pollsNeedMembers
  }

  /// Makes a refresh due for each of the channels whose members or read positions an answer left out. The
  /// note is stored before the changelog's token, so that a stop in between loses none.
  private func refreshMembers(of channels: [ChannelRecord]) async throws {
    let urls = channels.lazy.filter { !$0.hasMembers }.map(\.url)
    let notes = urls.filter { !(self.plan.channels[$0]?.isRefreshDue ?? false) }
      .map { Webhook.Note(kind: .channel, channel: $0, source: .read) }
    guard !notes.isEmpty else { return }
    try take(try await store.note(Array(notes)))
  }
}

extension ChannelRecord {
  /// Whether the answer has members and read positions.
  fileprivate var hasMembers: Bool { readReceipts != nil && !(members?.isEmpty ?? true) }
}
