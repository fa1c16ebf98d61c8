import SQLite

/// Writes seed data inside one transaction. A message's number determines everything about it, so a seed is
/// the same conversation each time, ending now.
struct SeedWriter {
  let db: WriteAccess
  let stamp: Int64
  private var now: Int64 { stamp / 1000 }

  /// The seconds between consecutive messages, used in turn: a burst, then a pause.
  private static let gaps: [Int64] = [2, 5, 9, 31, 4, 120, 15, 900]
  private static let replySeconds: Int64 = 30

  func user(_ id: String, _ nickname: String, _ team: String) throws {
    try db.run(
      """
      INSERT INTO user (user_id, nickname, profile_url, metadata, created_at)
      VALUES (?1, ?2, '', ?3, ?4)
      """
    ) {
      $0.bind(1, id)
      $0.bind(2, nickname)
      $0.bind(3, Value.object(["team": .string(team)]).text)
      $0.bind(4, now / 1000 - 86_400 * 400)
    }
  }

  func uploads() throws {
    for number in 0..<SeedText.pictureCount {
      var picture = SeedText.picture(number)
      try picture.withUTF8 {
        try Uploads.insert(
          Int64(number + 1), name: "picture-\(number + 1).svg", type: "image/svg+xml",
          UnsafeRawBufferPointer($0), db)
      }
    }
  }

  func write(_ plan: ChannelPlan) throws {
    let times = times(plan)
    let bornAt = (times.first ?? now - 3_600_000) - 60_000
    let channel = try insert(plan, bornAt)
    var newest: NewMessage?
    var parent: Int64?
    for (number, time) in times.enumerated() {
      var message = message(number, plan, at: time)
      if plan.thread > 0, number == 0 { message.threadAt = now }
      if number % 23 == 22, let parent {
        message.parent = parent
        message.isReplyToChannel = number % 2 == 0
        try db.run("UPDATE message SET thread_at = ?2 WHERE id = ?1") {
          $0.bind(1, parent)
          $0.bind(2, time)
        }
      }
      let id = try message.insert(into: channel, db)
      if number % 31 == 30, message.type == "MESG" { try edit(id, at: time + 40_000) }
      if number % 40 == 5 { parent = id }
      if plan.thread > 0, number == 0 { try reply(to: id, plan, channel, after: time) }
      if message.isShown { newest = message }
    }
    try newest?.announce(in: channel, db, stamp: stamp)
    try own(plan, channel, times)
  }

  /// The times of the messages, oldest first.
  private func times(_ plan: ChannelPlan) -> [Int64] {
    var times: [Int64] = []
    var time = now - 20_000
    for number in (0..<plan.messages).reversed() {
      times.append(time)
      if plan.tied.contains(number), plan.tied.contains(number - 1) { continue }
      // Some neighbouring messages share a millisecond.
      if number % 50 != 25 { time -= SeedWriter.gaps[number % SeedWriter.gaps.count] * 1000 }
    }
    return times.reversed()
  }

  private func insert(_ plan: ChannelPlan, _ bornAt: Int64) throws -> Int64 {
    let texts = [plan.url, plan.name, plan.data, plan.customType, Value.object(plan.metadata).text]
    let flags = [plan.isPublic, plan.isSuper, plan.isBroadcast, plan.isFrozen]
    try db.run(
      """
      INSERT INTO channel (
        url, name, cover_url, data, custom_type, metadata, created_at, distinct_key, is_public, is_super,
        is_broadcast, is_frozen)
      VALUES (?1, ?2, '', ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
      """
    ) {
      for (index, text) in texts.enumerated() { $0.bind(Int32(index + 1), text) }
      $0.bind(6, bornAt / 1000)
      $0.bind(7, plan.isDistinct ? plan.members.sorted().joined(separator: "\u{1}") : nil)
      for (index, flag) in flags.enumerated() { $0.bind(Int32(index + 8), flag) }
    }
    let channel = db.lastInsertRowID
    for member in plan.members { try add(member, to: channel, plan, bornAt) }
    return channel
  }

  private func add(_ member: String, to channel: Int64, _ plan: ChannelPlan, _ bornAt: Int64) throws {
    let inviter = member == "alice" ? plan.inviter : nil
    try db.run(
      """
      INSERT INTO member (
        channel, user_id, state, is_operator, joined_at, sort_at, stamp, read_at, inviter, invited_at)
      VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7, ?8, CASE WHEN ?8 IS NULL THEN NULL ELSE ?5 END)
      """
    ) {
      $0.bind(1, channel)
      $0.bind(2, member)
      $0.bind(3, inviter == nil ? "joined" : "invited")
      $0.bind(4, member == plan.members.first)
      $0.bind(5, bornAt)
      $0.bind(6, stamp)
      $0.bind(7, now)
      $0.bind(8, inviter)
    }
  }

  private func message(_ number: Int, _ plan: ChannelPlan, at time: Int64) -> NewMessage {
    var message = NewMessage()
    message.createdAt = time
    if plan.isOfficial || number % 97 == 96 {
      message.type = "ADMM"
      message.text =
        plan.isOfficial ? SeedText.official[number % SeedText.official.count] : "The topic has changed."
      return message
    }
    message.user = plan.members[(number * 7 + number / 3) % plan.members.count]
    message.text = SeedText.lines[(number * 5 + number / 7) % SeedText.lines.count]
    if number % 29 == 28 { attach(number, &message) }
    if number % 11 == 10 { react(number, plan, &message) }
    if number % 37 == 36, let other = plan.members.first(where: { $0 != message.user }) {
      message.mentioned = [other]
      message.text = "@\(other) " + message.text
    }
    if number % 41 == 40 {
      message.metaarray = .array([
        .object(["key": .string("places"), "value": .array([.string("here"), .string("there")])])
      ])
    }
    return message
  }

  private func attach(_ number: Int, _ message: inout NewMessage) {
    let picture = number % SeedText.pictureCount
    message.type = "FILE"
    message.text = ""
    message.file = StoredFile(
      url: "/files/\(picture + 1)", name: "picture-\(picture + 1).svg", type: "image/svg+xml",
      size: Int64(SeedText.picture(picture).utf8.count))
  }

  private func react(_ number: Int, _ plan: ChannelPlan, _ message: inout NewMessage) {
    let keys = SeedText.reactions.indices.filter { number % ($0 + 2) == 0 }.map { SeedText.reactions[$0] }
    message.reactions = .array(
      (keys.isEmpty ? [SeedText.reactions[0]] : keys).enumerated().map { index, key in
        .object([
          "key": .string(key), "user_ids": .array(plan.members.prefix(1 + index % 3).map(Value.string)),
          "updated_at": .integer(message.createdAt + 5000),
        ])
      })
  }

  private func edit(_ id: Int64, at time: Int64) throws {
    try db.run("UPDATE message SET message = message || ' (edited)', updated_at = ?2 WHERE id = ?1") {
      $0.bind(1, id)
      $0.bind(2, min(time, now))
    }
  }

  private func reply(to parent: Int64, _ plan: ChannelPlan, _ channel: Int64, after time: Int64) throws {
    for number in 0..<plan.thread {
      var reply = message(number, plan, at: min(now, time + Int64(number) * SeedWriter.replySeconds * 100))
      reply.parent = parent
      _ = try reply.insert(into: channel, db)
    }
  }

  /// Writes alice's own view of the channel.
  private func own(_ plan: ChannelPlan, _ channel: Int64, _ times: [Int64]) throws {
    if plan.unread > 0, times.count > plan.unread {
      let readAt = times[times.count - plan.unread - 1]
      try db.run("UPDATE member SET read_at = ?2 WHERE channel = ?1 AND user_id = 'alice'") {
        $0.bind(1, channel)
        $0.bind(2, readAt)
      }
    }
    guard plan.hiddenFromAlice else { return }
    try db.run(
      """
      UPDATE member
      SET hidden_state = 'hidden_prevent_auto_unhide'
      WHERE channel = ?1
        AND user_id = 'alice'
      """
    ) { $0.bind(1, channel) }
  }
}
