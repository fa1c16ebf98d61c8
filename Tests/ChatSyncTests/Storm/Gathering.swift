import ChatModel
import Testing

@testable import ChatCache
@testable import ChatSync

/// The users here of a storm, who join channels and leave them, connect, and are forgotten, so that channels
/// cross the border between crowded and other channels.
struct Gathering {
  static let users = ["alice", "bob", "dave", "erin"]
  static let ids = users.map { UserID($0) }
  /// Users who come and go. In each channel there is also bob.
  private static let guests = ["dave", "erin"]

  private let here: PerchSide
  private let there: OriginSide
  private var random: Seeded

  init(_ here: PerchSide, _ there: OriginSide, seed: Int) {
    (self.here, self.there) = (here, there)
    // A generator of its own, so that the rest of an old seed's storm stays the same.
    random = Seeded(UInt64(seed) &+ 2 << 32)
  }

  /// The members of a channel from the beginning: `c0` has four users here, `c1` three, `c5` one, the others
  /// two.
  static func members(_ index: Int) -> [String] {
    let others = ["bob", "carol"] + guests.prefix(max(0, 2 - index))
    return index < 5 ? ["alice"] + others : others
  }

  /// Waits until the users' channels are here: those with more members here than the border are crowded, and
  /// the others are not. Then one more member comes into each other channel whose members are as many as the
  /// border.
  func cross(_ urls: [String]) async throws {
    let border = here.mostChangedMembers
    let members = urls.indices.map { index in Self.users.count { Self.members(index).contains($0) } }
    func has(_ wanted: [Int]) -> Bool {
      // `try?`: the wait goes on
      guard let found = try? here.crowds(urls), found.map(\.members) == wanted else { return false }
      return found.allSatisfy { $0.isCrowded == ($0.members > border) }
    }
    let gathers = await World.wait { has(members) }
    let before = try here.crowds(urls)
    #expect(gathers, "\(before) with the border \(border)")
    for (index, url) in urls.enumerated() where members[index] == border { there.join("erin", url) }
    let crosses = await World.wait { has(members.map { $0 == border ? $0 + 1 : $0 }) }
    let after = try here.crowds(urls)
    #expect(crosses, "\(after) after one more came, with the border \(border)")
    // Else the border could be one that no channel crosses.
    #expect(border == 0 || border == .max || members.contains(border) && members.contains { $0 > border })
  }

  /// Lets guests come and go.
  mutating func step(_ urls: [String]) async throws {
    for _ in 0..<Int.random(in: 0...2, using: &random) {
      let guest = Self.guests.randomElement(using: &random) ?? "erin"
      let url = urls.randomElement(using: &random) ?? "c0"
      switch Int.random(in: 0..<12, using: &random) {
      case 0..<5: there.leave(guest, url)
      case 5..<10: there.join(guest, url)
      case 10: _ = try await here.worker.forget(UserID(guest), isForced: true)
      default: connect()
      }
    }
  }

  func connect() {
    for user in Self.ids { here.syncRequests.connect(user, within: 0) { _ in } }
  }

  /// Notes a request of each user.
  func attend() {
    for user in Self.ids { _ = here.syncRequests.seen(user) }
  }

  /// The channels in which some user here is.
  func channels() async throws -> Set<String> {
    var urls: Set<String> = []
    for user in Self.users { urls.formUnion(try await there.channels(of: user)) }
    return urls
  }

  /// Waits until each user has the channels upstream.
  func hasChannels() async throws -> Bool {
    for user in Self.users {
      let mine = try await there.channels(of: user)
      // `try?`: a user who is not here yet is waited for
      guard await World.wait({ (try? here.memberships(of: user).map(\.url)) == mine }) else { return false }
    }
    return true
  }
}

extension PerchSide {
  /// The number of members here of each channel, and whether the channel is crowded.
  func crowds(_ urls: [String]) throws -> [(members: Int, isCrowded: Bool)] {
    try cache.read { reader in
      try urls.map { url in
        let members = try reader.db.first(
          """
          SELECT count(*)
          FROM membership AS m
          JOIN channel AS c ON c.id = m.channel
          WHERE c.channel_url = ?1
          """
        ) {
          $0.bind(1, url)
        } _: {
          $0.int(0)
        }
        return (members ?? 0, try reader.isCrowded(ChannelURL(url)))
      }
    }
  }
}
