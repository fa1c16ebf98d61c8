import ChatModel

@testable import ChatCache

// The filters and orders of a channel list in memory, for one channel. Tests compare what the SQL of
// `ChannelListSQL` finds with them.

/// The values of one channel, as one user sees it, that filters and orders of a channel list compare.
struct ChannelFacts: Hashable, Sendable {
  /// A member of the channel.
  struct Member: Hashable, Sendable {
    /// The member's id.
    let userID: String
    /// The nickname, lowercased (`ChannelColumns.key`).
    let nicknameKey: String
    /// Names a member.
    init(userID: String, nicknameKey: String) {
      self.userID = userID
      self.nicknameKey = nicknameKey
    }
  }

  /// The channel's url.
  var channelURL: String
  /// The displayed name, lowercased (`ChannelColumns.key`).
  var nameKey = ""
  /// The app's own type of channel.
  var customType = ""
  /// When it was made, ms.
  var createdAt: Int64 = 0
  /// Whether everybody may join.
  var isPublic = false
  /// Whether it is for very many members.
  var isSuper = false
  /// Whether nobody but operators may write.
  var isFrozen = false
  /// `ChannelColumns.sortAt` of the newest message at or after the user's floor.
  var sortAt: Int64 = 0
  /// Whether the user joined: "joined" or "invited".
  var state = "joined"
  /// Whether the user hid the channel, as the upstream spells it.
  var hiddenState = "unhidden"
  /// How many messages the user has not read.
  var unread: Int64 = 0
  /// How many members the upstream says there are.
  var memberCount = 0
  /// The stored members.
  var members: [Member] = []
  /// The metadata, or nil while it was never fetched.
  var metadata: [ExactText: String]?

  /// A channel of which nothing else is known.
  init(channelURL: String) { self.channelURL = channelURL }

  /// Whether all members are stored, so that a user who is not stored is no member (`MemberList.isComplete`).
  var knowsMembers = true
}

extension ChannelQuery {
  /// Whether the list of `user` shows this channel; nil: the stored rows do not decide that (B8), and pages
  /// omit the channel.
  func shows(_ facts: ChannelFacts, to user: UserID) -> Bool? {
    guard showsByItself(facts) else { return false }
    let members = memberFilter(facts, user)
    let metadata = metadataFilter(facts)
    if members == false || metadata == false { return false }
    return members == nil || metadata == nil ? nil : true
  }

  /// The filters that the rows of channel and membership always decide.
  private func showsByItself(_ facts: ChannelFacts) -> Bool {
    guard includesEmpty || facts.sortAt >= 0, includesFrozen || !facts.isFrozen else { return false }
    guard channelURLs.isEmpty || channelURLs.contains(where: facts.channelURL.hasSameBytes),
      customTypes.isEmpty || customTypes.contains(where: facts.customType.hasSameBytes)
    else { return false }
    if let customTypePrefix, !facts.customType.utf8.starts(with: customTypePrefix.utf8) { return false }
    if let nameContains, !facts.nameKey.containsBytes(of: ChannelColumns.key(nameContains)) { return false }
    if let createdBefore, facts.createdAt >= createdBefore { return false }
    if let createdAfter, facts.createdAt <= createdAfter { return false }
    if memberState != .all, facts.state != memberState.rawValue { return false }
    if unread == .unreadMessage, facts.unread <= 0 { return false }
    if publicity != .all, facts.isPublic != (publicity == .isPublic) { return false }
    if size != .all, facts.isSuper != (size == .isSuper) { return false }
    switch hidden {
    case .all: return true
    case .hidden: return facts.hiddenState != Hidden.unhidden.rawValue
    default: return facts.hiddenState == hidden.rawValue
    }
  }

  /// The filters over members; nil: undecided. A user without a row is no member only if all members are
  /// stored.
  private func memberFilter(_ facts: ChannelFacts, _ user: UserID) -> Bool? {
    var answers: [Bool?] = []
    let isMember = { (id: String) in facts.members.contains { $0.userID.hasSameBytes(as: id) } }
    let hasNickname = { (part: String) in
      facts.members.contains {
        !$0.userID.hasSameBytes(as: user.text) && $0.nicknameKey.containsBytes(of: ChannelColumns.key(part))
      }
    }
    let unless = { (found: Bool) -> Bool? in found ? true : facts.knowsMembers ? false : nil }
    if !userIDsInclude.isEmpty {
      let found =
        junction == .and ? userIDsInclude.allSatisfy(isMember) : userIDsInclude.contains(where: isMember)
      answers.append(unless(found))
    }
    if !userIDsExact.isEmpty {
      let wanted = exactMembers(user)
      let isExact = wanted.count == facts.members.count && wanted.allSatisfy(isMember)
      answers.append(facts.knowsMembers ? isExact : facts.memberCount == wanted.count ? nil : false)
    }
    if let nicknameContains { answers.append(unless(hasNickname(nicknameContains))) }
    if let search {
      let isNamed =
        searchFields.contains(.channelName) && facts.nameKey.containsBytes(of: ChannelColumns.key(search))
      let isMemberNamed = searchFields.contains(.memberNickname) && hasNickname(search)
      answers.append(
        isNamed || isMemberNamed ? true : searchFields.contains(.memberNickname) ? unless(false) : false)
    }
    if answers.contains(false) { return false }
    return answers.contains(nil) ? nil : true
  }

  /// The filter over metadata: unknown while it was never fetched.
  private func metadataFilter(_ facts: ChannelFacts) -> Bool? {
    guard let metadataKey else { return true }
    guard let metadata = facts.metadata else { return nil }
    guard let value = metadata[ExactText(metadataKey)] else { return false }
    if let metadataValuePrefix { return value.utf8.starts(with: metadataValuePrefix.utf8) }
    return metadataValues.contains(where: value.hasSameBytes)
  }
}

extension ChannelListKey {
  /// The sort key of a channel in the order of `query`.
  init(_ facts: ChannelFacts, in query: ChannelQuery) {
    let url = facts.channelURL
    switch query.order {
    case .latestLastMessage: self.init(time: facts.sortAt, text: "", channelURL: url)
    case .chronological: self.init(time: facts.createdAt, text: "", channelURL: url)
    case .name: self.init(time: 0, text: facts.nameKey, channelURL: url)
    case .metadataValue:
      let value = query.metadataOrderKey.flatMap { facts.metadata?[ExactText($0)] } ?? ""
      self.init(time: 0, text: ChannelColumns.key(value), channelURL: url)
    }
  }
}

extension StringProtocol {
  /// Whether this text's UTF-8 bytes contain those of `part`, as SQLite's instr compares.
  func containsBytes(of part: String) -> Bool {
    let text = Array(utf8)
    let part = Array(part.utf8)
    guard part.count <= text.count else { return false }
    return (0...(text.count - part.count)).contains { text[$0..<($0 + part.count)].elementsEqual(part) }
  }
}
