import JSON

/// How one item of a list is spoiled on purpose.
enum Spoiling: String, Sendable, CaseIterable {
  /// A message's `type` is an unknown word.
  case unknownType = "unknown_type"
  /// Its id, url or time of creation is missing.
  case missing
  /// Its id, url or time of creation is null.
  case null
  /// Numbers come as strings.
  case numbersAsStrings = "numbers_as_strings"
}

/// Changes answers after the work is done: the items of their lists, and their order.
struct BentAnswer {
  /// The seeded dice of this answer.
  var dice: UInt64

  private static let lists = ["messages", "channels", "updated", "users", "members"]
  private static let memberFields: Set<String> = [
    "unread_message_count", "unread_mention_count", "member_state", "my_role", "hidden_state", "is_hidden",
    "is_muted", "user_last_read", "joined_ts", "ts_message_offset", "invited_at", "inviter",
  ]

  init(dice: UInt64) { self.dice = dice }

  private mutating func roll(_ count: Int) -> Int {
    dice = dice &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    return Int((dice >> 33) % UInt64(max(1, count)))
  }

  private func changed(
    _ answer: Value, except kept: String = "", _ change: ([Value]) -> [Value]
  ) -> Value {
    guard case .object(var fields) = answer else { return answer }
    for name in BentAnswer.lists where name != kept {
      if case .array(let items)? = fields[name] { fields[name] = .array(change(items)) }
    }
    return .object(fields)
  }

  /// The answer with empty lists, and without a next page. A changelog stays, because its position would move
  /// on.
  func emptied(_ answer: Value) -> Value {
    guard case .object(var fields) = changed(answer, except: "updated", { _ in [] }) else { return answer }
    if fields["next"] != nil, fields["updated"] == nil { fields["next"] = .string("") }
    return .object(fields)
  }

  /// The answer with its lists in another order.
  mutating func reordered(_ answer: Value) -> Value {
    var order = self
    let made = changed(answer) { items in
      var items = items
      for index in items.indices.dropFirst() { items.swapAt(index, order.roll(index + 1)) }
      return items
    }
    dice = order.dice
    return made
  }

  /// The answer without the fields that only one member sees.
  func withoutMemberView(_ answer: Value) -> Value {
    func stripped(_ channel: Value) -> Value {
      guard channel["channel_url"] != nil, case .object(let fields) = channel else { return channel }
      return .object(fields.filter { !BentAnswer.memberFields.contains($0.key) })
    }
    return stripped(changed(answer) { $0.map(stripped) })
  }

  /// The answer with about a third of its items spoiled, in one of these ways each.
  mutating func spoiled(_ answer: Value, _ ways: [Spoiling]) -> Value {
    var rolls = self
    let ways = ways.isEmpty ? Spoiling.allCases : ways
    let made = changed(answer) { items in
      items.map { item in
        guard rolls.roll(3) == 0 else { return item }
        return rolls.spoil(item, ways[rolls.roll(ways.count)])
      }
    }
    dice = rolls.dice
    return made
  }

  private mutating func spoil(_ item: Value, _ way: Spoiling) -> Value {
    guard case .object(var fields) = item else { return item }
    let needed = fields["message_id"] != nil ? ["message_id", "created_at"] : ["channel_url"]
    let name = needed[roll(needed.count)]
    switch way {
    case .unknownType: fields["type"] = .string("HOLO")
    case .missing: fields[name] = nil
    case .null: fields[name] = .null
    case .numbersAsStrings:
      for (name, value) in fields {
        if case .integer(let number) = value { fields[name] = .string("\(number)") }
      }
    }
    return .object(fields)
  }
}
