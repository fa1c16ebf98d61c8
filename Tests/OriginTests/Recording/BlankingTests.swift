import TestSupport
import Testing

@testable import Origin

/// A recording must not have any text that a user wrote.
@Suite struct BlankingTests {
  /// Names of fields with secrets, and of maps whose keys are secrets.
  private static let fields = [
    "message", "data", "nickname", "profile_url", "cover_url", "name", "custom_type", "url", "phone_number",
    "access_token", "session_token", "push_token", "next", "token", "user_id", "channel_url", "type", "state",
    "message_type", "created_at", "message_id", "unheard_of", "Unheard Of", "mention_type", "key", "value",
  ]
  private static let maps = ["metadata", "read_receipt", "translations", "extended_message_payload"]

  /// A value of any shape with secrets in it, as texts and as keys of maps.
  private static func value(
    _ depth: Int, _ secrets: [String], _ random: inout SeededRandom
  ) -> Value {
    switch Int.random(in: 0..<(depth > 3 ? 6 : 9), using: &random) {
    case 0: return .null
    case 1: return .bool(random.chance(50))
    case 2: return .integer(.random(in: -5...9_000_000_000_000, using: &random))
    case 3, 4, 5: return .string(random.one(of: secrets))
    case 6: return .array((0..<3).map { _ in value(depth + 1, secrets, &random) })
    default:
      var fields: [String: Value] = [:]
      for _ in 0..<4 {
        fields[random.one(of: Self.fields)] = value(depth + 1, secrets, &random)
        fields[random.one(of: maps)] = .object([random.one(of: secrets): .string(random.one(of: secrets))])
      }
      return .object(fields)
    }
  }

  private static func secret(_ random: inout SeededRandom) -> String {
    let letters = Array("ABCDEFGHÄÖé漢字🎈 _-/:.§0123456789+@")
    return "§" + String((0..<Int.random(in: 6...40, using: &random)).map { _ in random.one(of: letters) })
  }

  private static func exchange(_ secrets: [String], _ random: inout SeededRandom) -> Exchange {
    var exchange = Exchange(
      method: random.one(of: ["GET", "POST", "PUT"]),
      path: ["v3", "users", random.one(of: secrets), "my_group_channels", random.one(of: secrets)])
    exchange.query = (0..<3).map { _ in
      Exchange.QueryItem(
        name: random.one(of: fields), value: random.one(of: secrets) + "," + random.one(of: secrets))
    }
    exchange.request = .json(value(0, secrets, &random))
    exchange.answer = .json(value(0, secrets, &random))
    exchange.status = 200
    return exchange
  }

  @Test("no secret is in what was blanked, whatever the shape", arguments: 0..<200)
  func secrets(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    let secrets = (0..<12).map { _ in Self.secret(&random) }
    var blanking = Blanking(seed: seed)
    for _ in 0..<5 {
      let line = blanking.blanked(Self.exchange(secrets, &random)).line
      for secret in secrets {
        let escaped = Value.string(secret).text.dropFirst().dropLast()
        #expect(!line.contains(secret) && !line.contains(escaped), "\(secret) is in \(line)")
      }
    }
  }

  /// Whether both have the same shape. Keys of maps differ, so the values of maps are only counted.
  private func shapesAgree(_ left: Value, _ right: Value, in field: String = "") -> Bool {
    switch (left, right) {
    case (.object(let fields), .object(let others)):
      guard fields.count == others.count else { return false }
      return fields.allSatisfy { name, value in
        guard let other = others[name] else { return true }
        return shapesAgree(value, other, in: name)
      }
    case (.array(let items), .array(let others)):
      return items.count == others.count
        && zip(items, others).allSatisfy { shapesAgree($0, $1, in: field) }
    case (.string(let text), .string(let other)):
      return text.unicodeScalars.count == other.unicodeScalars.count
    case (.integer, .integer), (.bool, .bool), (.double, .double), (.null, .null): return true
    default: return false
    }
  }

  @Test("the shape stays: kinds of values, their number, the length of each text", arguments: 0..<100)
  func shapes(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    let secrets = (0..<12).map { _ in Self.secret(&random) }
    var blanking = Blanking(seed: seed)
    let value = Self.value(0, secrets, &random)
    #expect(shapesAgree(value, blanking.value(value, in: "")))
  }

  @Test("equal texts have equal blanks, in paths, queries and bodies; different ones never")
  func equality() {
    var blanking = Blanking(seed: 1)
    var random = SeededRandom(seed: 1)
    var blanks: [String: String] = [:]
    for _ in 0..<2_000 {
      let text = String(
        (0..<Int.random(in: 1...3, using: &random)).map { _ in random.one(of: Array("abcdé")) })
      let blank = blanking.blank(text)
      #expect(blanks[text] == nil || blanks[text] == blank)
      blanks[text] = blank
    }
    #expect(Set(blanks.values).count == blanks.count)
    var exchange = Exchange(method: "GET", path: ["v3", "users", "anna@example.org"])
    exchange.query = [.init(name: "user_ids", value: "x,anna@example.org")]
    exchange.answer = .json(.object(["user_id": .string("anna@example.org")]))
    let blank = blanking.blanked(exchange)
    guard case .json(let answer) = blank.answer else { return }
    #expect(answer["user_id"]?.string == blank.path[2])
    #expect(blank.query[0].value.split(separator: ",").last.map(String.init) == blank.path[2])
  }

  @Test("the vendor's words, ids of messages and times stay; ids of people only where they are to be kept")
  func kept() {
    var exchange = Exchange(method: "GET", path: ["v3", "group_channels", "c", "messages", "17"])
    exchange.query = [
      .init(name: "include_reply_type", value: "ALL"), .init(name: "prev_limit", value: "100"),
      .init(name: "reverse", value: "false"), .init(name: "token", value: "17"),
    ]
    exchange.answer = .json(
      .object([
        "type": .string("MESG"), "message_id": .integer(17), "created_at": .string("1700000000000"),
        "user_id": .string("anna"), "nickname": .string("anna"), "ok": .bool(true),
        "read_receipt": .object(["anna": .integer(5)]),
      ]))
    for keepsIDs in [false, true] {
      var blanking = Blanking(seed: 3, keepsIDs: keepsIDs)
      let blank = blanking.blanked(exchange)
      #expect(blank.path.last == "17" && blank.path[3] == "messages" && (blank.path[2] == "c") == keepsIDs)
      #expect(blank.query.map(\.value).filter { ["ALL", "100", "false"].contains($0) }.count == 3)
      #expect(!blank.query.contains { $0.value == "17" })
      guard case .json(let answer) = blank.answer else { return }
      #expect(answer["type"] == .string("MESG") && answer["created_at"] == .string("1700000000000"))
      #expect(answer["message_id"] == .integer(17) && answer["ok"] == .bool(true))
      #expect((answer["user_id"] == .string("anna")) == keepsIDs)
      #expect((answer["read_receipt"]?["anna"] == .integer(5)) == keepsIDs)
      #expect(answer["nickname"] != .string("anna"))
    }
  }
}
