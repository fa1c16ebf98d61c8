import ChatModel

// The filters of a channel list in memory, for one channel that changed. `ChannelListSQL` has the same
// filters as SQL, for pages. A test compares both over random channels and queries, so change both together.

extension ChannelQuery {
  /// Whether the list of `user` shows this channel; nil: the stored rows do not decide that (B8), and pages
  /// omit the channel.
  package func shows(_ facts: ChannelFacts, to user: UserID) -> Bool? {
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
    if let nameContains, !facts.nameKey.containsBytes(of: ChannelFacts.key(nameContains)) { return false }
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
        !$0.userID.hasSameBytes(as: user.text) && $0.nicknameKey.containsBytes(of: ChannelFacts.key(part))
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
        searchFields.contains(.channelName) && facts.nameKey.containsBytes(of: ChannelFacts.key(search))
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

  /// The members of `user_ids_exact` and the user, each once.
  func exactMembers(_ user: UserID) -> [String] { ChannelQuery.once(userIDsExact + [user.text]) }

  /// Each text once, by its bytes.
  static func once(_ texts: [String]) -> [String] {
    var seen: Set<[UInt8]> = []
    return texts.filter { seen.insert(Array($0.utf8)).inserted }
  }
}
