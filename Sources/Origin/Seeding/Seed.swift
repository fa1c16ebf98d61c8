import SQLite

/// What an empty database is filled with.
package enum Seed: Sendable, Equatable {
  case none
  /// Four users and the channels of the documentation.
  case small
  /// The small seed and a channel of 100 000 messages.
  case large
  /// That many channels of 100 messages, all alice's.
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

  static let users = [("alice", "Alice"), ("bob", "Bob 🚲"), ("carol", "Carol"), ("dave", "דוד")]

  static let lines = [
    "good morning", "has anybody seen the new build?", "מישהו יודע מתי הפגישה?", "👍", "lunch at twelve? 🍜",
    "the tests are green again", "نعم، في الساعة الثالثة", "see you tomorrow", "who broke the door 😀",
    "ça marche très bien", "日本語でも大丈夫", "thanks!",
  ]

  /// Fills the store, unless it has users already.
  func fill(_ store: Store) throws {
    guard self != .none else { return }
    try store.write { db, stamp in
      guard try db.reading.first("SELECT 1 FROM user LIMIT 1", { _ in }, { _ in true }) == nil else { return }
      let writer = SeedWriter(db: db, stamp: stamp)
      for (id, nickname) in Seed.users { try writer.user(id, nickname) }
      switch self {
      case .none: break
      case .small: try writer.small()
      case .large:
        try writer.small()
        let id = try writer.channel("large", ["alice", "bob", "carol"])
        try writer.talk(id, ["alice", "bob", "carol"], 100_000)
      case .channels(let count):
        for number in 0..<count {
          let id = try writer.channel("channel-\(number)", ["alice", "bob"])
          try writer.talk(id, ["alice", "bob"], 100)
        }
      }
    }
  }
}

/// Writes seed data inside one transaction; everything follows from the number of the message.
struct SeedWriter {
  let db: WriteAccess
  let stamp: Int64
  private var now: Int64 { stamp / 1000 }

  func user(_ id: String, _ nickname: String) throws {
    try db.run(
      """
      INSERT INTO user (user_id, nickname, profile_url, metadata, created_at)
      VALUES (?1, ?2, '', '{}', ?3)
      """
    ) {
      $0.bind(1, id)
      $0.bind(2, nickname)
      $0.bind(3, stamp / 1_000_000 - 86_400)
    }
  }

  func channel(_ url: String, _ members: [String], isDistinct: Bool = false, isFrozen: Bool = false) throws
    -> Int64
  {
    try db.run(
      """
      INSERT INTO channel (
        url, name, cover_url, data, custom_type, created_at, distinct_key, is_frozen)
      VALUES (?1, ?1, '', '', '', ?2, ?3, ?4)
      """
    ) {
      $0.bind(1, url)
      $0.bind(2, stamp / 1_000_000 - 86_400)
      $0.bind(3, isDistinct ? members.sorted().joined(separator: "\u{1}") : nil)
      $0.bind(4, isFrozen)
    }
    let id = db.lastInsertRowID
    for member in members {
      try db.run(
        """
        INSERT INTO member (channel, user_id, state, is_operator, joined_at, sort_at, stamp)
        VALUES (?1, ?2, 'joined', ?3, ?4, ?5, ?6)
        """
      ) {
        $0.bind(1, id)
        $0.bind(2, member)
        $0.bind(3, member == members.first)
        $0.bind(4, now - 86_400_000)
        $0.bind(5, now - 86_400_000)
        $0.bind(6, stamp)
      }
    }
    return id
  }

  func small() throws {
    let all = Seed.users.map(\.0)
    try talk(channel("general", all), all, 400)
    try talk(channel("random", ["alice", "bob", "dave"]), ["alice", "bob", "dave"], 60)
    try talk(channel("alice-and-bob", ["alice", "bob"], isDistinct: true), ["alice", "bob"], 40)
    let announcements = try channel("announcements", all, isFrozen: true)
    for number in 0..<12 {
      var message = NewMessage()
      message.type = "ADMM"
      message.text = "Announcement \(number + 1)"
      message.createdAt = now - Int64(12 - number) * 3_600_000
      _ = try message.insert(into: announcements, db)
    }
    _ = try channel("quiet", ["alice", "bob"])
    try talk(channel("big", ["alice", "carol"]), ["alice", "carol"], 3000, tied: 1000..<1300)
    try talk(channel("secret", ["bob", "carol"]), ["bob", "carol"], 30)
  }

  /// `count` messages of the members; those in `tied` share one millisecond.
  func talk(_ channel: Int64, _ members: [String], _ count: Int, tied: Range<Int> = 0..<0) throws {
    var parent: Int64?
    for number in 0..<count {
      var message = NewMessage()
      message.user = members[(number * 7 + number / 3) % members.count]
      message.text = Seed.lines[(number * 5 + number / 7) % Seed.lines.count]
      let step = tied.contains(number) ? tied.lowerBound : number
      message.createdAt = now - Int64(count - step) * 20_000
      if number % 29 == 28 { file(&message, number) }
      if number % 11 == 10 {
        message.reactions = .array([
          .object([
            "key": .string("😀"), "user_ids": .array(members.prefix(2).map(Value.string)),
            "updated_at": .integer(message.createdAt),
          ])
        ])
      }
      if number % 23 == 22, let parent {
        message.parent = parent
        message.isReplyToChannel = number % 2 == 0
      }
      if number == count - 1 { try message.announce(in: channel, db, stamp: stamp) }
      let id = try message.insert(into: channel, db)
      if number % 40 == 5 { parent = id }
    }
  }

  private func file(_ message: inout NewMessage, _ number: Int) {
    message.type = "FILE"
    message.text = ""
    message.file = StoredFile(
      url: "https://files.example/\(number).png", name: "picture-\(number).png", type: "image/png",
      size: Int64(1000 + number))
  }
}
