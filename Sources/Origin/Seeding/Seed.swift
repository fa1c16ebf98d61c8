import SQLite

/// The data that an empty database is filled with.
package enum Seed: Sendable, Equatable {
  case none
  /// Four users and the channels that the documentation names.
  case small
  /// The small seed, a channel of 100 000 messages, a crowd, a long thread, an invitation, a hidden channel.
  case large
  /// So many channels of 100 messages each; alice is in all of them.
  case channels(Int)

  /// Reads `none`, `small`, `large` or a number of channels.
  package init?(_ text: String) {
    switch text {
    case "none": self = .none
    case "small": self = .small
    case "large": self = .large
    default:
      guard let count = Int(text), (1...100_000).contains(count) else { return nil }
      self = .channels(count)
    }
  }

  /// Fills the store, unless it has users already. Users are written last, so an interrupted seed begins
  /// again.
  func fill(_ store: Store) throws {
    guard self != .none else { return }
    let isFilled = try store.read { db, _ in
      try db.first("SELECT 1 FROM user LIMIT 1", { _ in }, { _ in true }) != nil
    }
    guard !isFilled else { return }
    try store.write { db, stamp in
      try db.run("DELETE FROM channel")
      try db.run("DELETE FROM upload")
      try SeedWriter(db: db, stamp: stamp).uploads()
    }
    for plans in batches {
      try store.write { db, stamp in
        for (index, plan) in plans.enumerated() {
          // Each channel has a stamp of its own, so that a changelog's page can end anywhere.
          let writer = SeedWriter(db: db, stamp: stamp - Int64(plans.count - index))
          try writer.write(plan)
        }
      }
    }
    try store.write { db, stamp in
      let people = self == .large ? SeedText.users + SeedText.crowd : SeedText.users
      for user in people { try SeedWriter(db: db, stamp: stamp).user(user.id, user.nickname, user.team) }
    }
  }

  /// The channels, in transactions of a bounded size.
  private var batches: [[ChannelPlan]] {
    switch self {
    case .none: return []
    case .small: return [ChannelPlan.small]
    case .large: return [ChannelPlan.small, ChannelPlan.large]
    case .channels(let count):
      return stride(from: 0, to: count, by: 200).map { first in
        (first..<min(count, first + 200)).map { number in
          var plan = ChannelPlan("channel-\(number)", "Channel \(number)", ["alice", "bob"], messages: 100)
          plan.unread = number % 10 == 0 ? 4 : 0
          return plan
        }
      }
    }
  }
}

/// One channel to be seeded.
struct ChannelPlan {
  let url: String
  let name: String
  /// The members' ids; the first is the operator.
  let members: [String]
  var messages: Int
  var customType = ""
  var data = ""
  var metadata: [String: Value] = [:]
  var isDistinct = false
  var isFrozen = false
  var isPublic = false
  var isSuper = false
  var isBroadcast = false
  /// Whether all messages are admin messages.
  var isOfficial = false
  /// The messages that share one millisecond, by number.
  var tied = 0..<0
  /// The number of newest messages that alice has not read.
  var unread = 0
  /// The number of replies to the first message.
  var thread = 0
  var hiddenFromAlice = false
  /// The user whose invitation alice has not answered; nil: alice is a member.
  var inviter: String?

  init(_ url: String, _ name: String, _ members: [String], messages: Int) {
    self.url = url
    self.name = name
    self.members = members
    self.messages = messages
  }

  private func with(_ change: (inout ChannelPlan) -> Void) -> ChannelPlan {
    var copy = self
    change(&copy)
    return copy
  }

  static let small: [ChannelPlan] = [
    ChannelPlan("general", "General", ["alice", "bob", "carol", "dave"], messages: 400).with {
      $0.isPublic = true
      $0.metadata = ["topic": .string("everything and nothing"), "pinned": .string("False")]
      $0.unread = 7
    },
    ChannelPlan("random", "Random 🎲", ["bob", "alice"], messages: 60).with {
      $0.customType = "leisure"
      $0.unread = 2
    },
    ChannelPlan("alice-and-bob", "Alice and Bob", ["alice", "bob"], messages: 40).with {
      $0.isDistinct = true
    },
    ChannelPlan("announcements", "Announcements", ["carol", "alice", "bob", "dave"], messages: 12).with {
      $0.isFrozen = true
      $0.isBroadcast = true
      $0.isOfficial = true
    },
    ChannelPlan("quiet", "Quiet", ["alice", "bob"], messages: 0),
    ChannelPlan("big", "The big one", ["alice", "carol"], messages: 3000).with {
      $0.tied = 1000..<1300
      $0.data = #"{"color":"teal"}"#
    },
    ChannelPlan("secret", "A secret 🤫", ["bob", "carol"], messages: 30),
  ]

  static let large: [ChannelPlan] = [
    ChannelPlan("large", "A hundred thousand", ["alice", "bob", "carol"], messages: 100_000),
    ChannelPlan(
      "crowd", "The crowd", SeedText.users.map(\.id) + SeedText.crowd.map(\.id), messages: 500
    ).with { $0.isSuper = true },
    ChannelPlan("debate", "Une longue discussion", ["carol", "alice", "dave"], messages: 40).with {
      $0.thread = 600
    },
    ChannelPlan("invitation", "Tea on Sunday?", ["carol", "dave", "alice"], messages: 10).with {
      $0.inviter = "carol"
    },
    ChannelPlan("old-project", "Old project", ["dave", "alice"], messages: 80).with {
      $0.hiddenFromAlice = true
    },
    ChannelPlan("غرفة", "غرفة المعيشة", ["dave", "alice"], messages: 50),
  ]
}
