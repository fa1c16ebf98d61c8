import Platform
import SQLite

/// Acts for seeded users: mostly messages, now and then a reply, a reaction, an edit, a read mark. It uses
/// the same operations as clients do, so that webhooks tell of it.
final class Chatter: Sendable {
  private let state = Watched(false)
  private let thread = ThreadSlot()

  /// Starts, with `perSecond` actions a second.
  init(_ origin: OriginServer, perSecond: Int) {
    let state = state
    let pause = 1_000_000_000 / UInt64(max(1, perSecond))
    thread.start("chatter") {
      var next = Clock.system.monotonicNanoseconds()
      var turn = 0
      while true {
        next += pause
        if state.wait(until: next, { $0 ? true : nil }) != nil { return }
        turn += 1
        do {
          try Chatter.say(turn, origin)
        } catch let refusal as Refusal {
          // The channel was frozen or the message deleted meanwhile: the next turn finds others.
          Log.line(.debug, "chatter_refused", ["code": .number(Int64(refusal.code))])
        } catch {
          Log.line(.warning, "chatter_failed", ["error": .text("\(error)")])
        }
      }
    }
  }

  func stop() {
    state.update { $0 = true }
    thread.join()
  }

  private struct Target {
    let channel: String
    let user: String
    /// The newest message, and whether a thread can begin there.
    let message: (id: Int64, isTop: Bool)?
  }

  private static func say(_ turn: Int, _ origin: OriginServer) throws {
    guard let target = try origin.store.read({ db, _ in try Chatter.target(turn, db) }) else { return }
    var path = ["channel_url": target.channel]
    var body: [String: Value] = ["user_id": .string(target.user)]
    var operation = Operation.write(Messages.send)
    switch (turn % 12, target.message) {
    case (4, let message?):
      path["message_id"] = "\(message.id)"
      body["reaction"] = .string(SeedText.reactions[turn % SeedText.reactions.count])
      operation = .write(Reactions.add)
    case (8, let message?) where message.isTop:
      body["parent_message_id"] = .integer(message.id)
      body["message"] = .string(SeedText.lines[turn / 12 % SeedText.lines.count])
    case (10, _): operation = .write(ReadMarks.markAsRead)
    case (11, let message?):
      path["message_id"] = "\(message.id)"
      body = ["message_type": .string("MESG"), "data": .string(#"{"turn":\#(turn)}"#)]
      operation = .write(MessageEdits.update)
    default: body["message"] = .string(SeedText.lines[turn * 7 % SeedText.lines.count])
    }
    _ = try origin.run(
      Arguments(path: path, query: [:], body: .object(body), parts: []), path: "chatter", base: origin.base,
      operation)
  }

  /// One of alice's channels, and one of its members.
  private static func target(_ turn: Int, _ db: ReadAccess) throws -> Target? {
    let urls = try db.all(
      """
      SELECT c.url
      FROM member m
      JOIN channel c ON c.id = m.channel
      WHERE m.user_id = 'alice'
        AND m.state = 'joined'
        AND c.is_frozen = 0
        AND c.url <> 'quiet'
      ORDER BY m.channel
      LIMIT 8
      """
    ) { $0.string(0) }
    guard !urls.isEmpty, let channel = try ChannelRow.find(urls[turn * 5 / 3 % urls.count], db) else {
      return nil
    }
    let members = try MemberRow.all(channel.id, db).filter { $0.state == "joined" }
    guard !members.isEmpty else { return nil }
    let message = try ChannelJSON.newest(channel.id, above: 0, db).map { newest in
      let isTop = try db.first(
        "SELECT parent IS NULL FROM message WHERE id = ?1", { $0.bind(1, newest.id) }
      ) { $0.bool(0) }
      return (id: newest.id, isTop: isTop ?? false)
    }
    return Target(
      channel: channel.url, user: members[turn * 11 / 4 % members.count].userID, message: message)
  }
}
