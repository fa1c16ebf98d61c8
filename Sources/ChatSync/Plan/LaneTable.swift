import ChatCache
import ChatModel

/// The sending, or the uploads, that are due in one lane.
struct LaneWork: Sendable {
  /// When the next try is due.
  var dueAt: Int64
  var isBusy = false
  /// Whether the lane changed while its job was under way: then its next turn is due at once.
  var hasChanged = false
  /// Whether the link came back after the lane's last turn. Its rows do not wait for the link any more (B40).
  var isLinkBack = false
  var wait: Backoff
}

/// The sending, or the uploads, of all lanes, and the line in which they wait: the next one of thousands is
/// found without a search.
///
/// A lane that comes first and may not begin is held until its user's or channel's gate opens, so that it is
/// not looked at in each turn. A gate is a moment: the lane may begin before it (`UserWork.sendGate`,
/// `ChannelWork.sendGate`). So a gate that has closed opens only by a change of the user or channel, whose
/// tables note it (`takeOpened`).
struct LaneTable: Sendable {
  /// A held lane waits for its user, or for its channel.
  enum Holder: Sendable { case user, channel }

  private(set) var works: [OutboxLaneName: LaneWork] = [:]
  /// The lanes without a job that are not held, by the moment of their next try.
  private var line = PriorityLine<OutboxLaneName, Int64>()
  private var heldForUsers: [UserID: Set<OutboxLaneName>] = [:]
  private var heldInChannels: [ChannelURL: Set<OutboxLaneName>] = [:]
  /// How many lanes each user has.
  private var counts: [UserID: Int] = [:]

  var isEmpty: Bool { works.isEmpty }

  var names: [OutboxLaneName] { Array(works.keys) }

  /// Whether the user has a lane.
  func hasLane(of user: UserID) -> Bool { counts[user] != nil }

  /// The lane's work, nil for none. Each change also updates the line.
  subscript(lane: OutboxLaneName) -> LaneWork? {
    get { works[lane] }
    _modify {
      let wasThere = works[lane] != nil
      defer { note(lane, wasThere: wasThere) }
      yield &works[lane]
    }
  }

  /// Of the lanes that are not held, the one whose try is due first.
  var first: (lane: OutboxLaneName, dueAt: Int64)? { line.first.map { ($0.key, $0.rank) } }

  /// The lane waits until the gate of its user or channel opens.
  mutating func hold(_ lane: OutboxLaneName, by holder: Holder) {
    line[lane] = nil
    switch holder {
    case .user: heldForUsers[lane.user, default: []].insert(lane)
    case .channel: heldInChannels[lane.channel, default: []].insert(lane)
    }
  }

  /// The user's gate may be open.
  mutating func letGo(_ user: UserID) {
    for lane in heldForUsers.removeValue(forKey: user) ?? [] { line[lane] = works[lane]?.dueAt }
  }

  /// The channel's gate may be open.
  mutating func letGo(in channel: ChannelURL) {
    for lane in heldInChannels.removeValue(forKey: channel) ?? [] { line[lane] = works[lane]?.dueAt }
  }

  private mutating func note(_ lane: OutboxLaneName, wasThere: Bool) {
    let work = works[lane]
    if (work != nil) != wasThere {
      let count = (counts[lane.user] ?? 0) + (wasThere ? -1 : 1)
      counts[lane.user] = count > 0 ? count : nil
    }
    guard let work, !work.isBusy else {
      line[lane] = nil
      forget(lane)
      return
    }
    if !isHeld(lane) { line[lane] = work.dueAt }
  }

  private func isHeld(_ lane: OutboxLaneName) -> Bool {
    heldForUsers[lane.user]?.contains(lane) == true || heldInChannels[lane.channel]?.contains(lane) == true
  }

  /// Nothing holds the lane any more.
  private mutating func forget(_ lane: OutboxLaneName) {
    if heldForUsers[lane.user]?.remove(lane) != nil, heldForUsers[lane.user]?.isEmpty == true {
      heldForUsers[lane.user] = nil
    }
    if heldInChannels[lane.channel]?.remove(lane) != nil, heldInChannels[lane.channel]?.isEmpty == true {
      heldInChannels[lane.channel] = nil
    }
  }
}
