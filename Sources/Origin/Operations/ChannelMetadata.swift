import JSON
import SQLite

/// The two maps beside a channel: metadata, whose values are strings, and the metacounter, whose values are
/// whole numbers. Both forms of each request exist: for all keys, and for the one in the path.
enum ChannelMetadata {
  static func view(_ question: Question, _ json: inout JSONWriter) throws {
    try show(ChannelRow.named(question).metadata, question, &json)
  }

  static func viewCounters(_ question: Question, _ json: inout JSONWriter) throws {
    try show(ChannelRow.named(question).metacounter, question, &json)
  }

  private static func show(_ stored: String, _ question: Question, _ json: inout JSONWriter) throws {
    let all = Value(stored: stored).fields
    var keys = try question.arguments.texts("keys") ?? []
    if let key = try question.arguments.text("key") { keys.append(key) }
    let one = question.arguments.path("key")
    if !one.isEmpty {
      guard all[one] != nil else { throw Refusal.unknown(one) }
      keys = [one]
    }
    Value.object(keys.isEmpty ? all : all.filter { keys.contains($0.key) }).write(to: &json)
  }

  /// Adds keys; one that is there already is refused.
  static func create(_ call: inout Call, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(call)
    let given = Users.strings(try call.arguments.neededObject("metadata"))
    let old = Value(stored: channel.metadata).fields
    if let known = given.keys.sorted().first(where: { old[$0] != nil }) { throw Refusal.exists(known) }
    try set(channel, metadata: old.merging(given) { $1 }, &call)
    json.beginObject()
    json.name("metadata")
    Value.object(given).write(to: &json)
    json.endObject()
  }

  /// Changes keys, and with `upsert` adds those that are not there; the answer has only the keys it set.
  static func update(_ call: inout Call, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(call)
    let key = call.arguments.path("key")
    let given: [String: Value]
    if key.isEmpty {
      given = try call.arguments.neededObject("metadata")
    } else {
      guard let value = call.arguments.value("value") else { throw Refusal.missing("value") }
      given = [key: value]
    }
    let old = Value(stored: channel.metadata).fields
    let adds = try call.arguments.flag("upsert")
    let known = Users.strings(given).filter { adds || old[$0.key] != nil }
    try set(channel, metadata: old.merging(known) { $1 }, &call)
    Value.object(known).write(to: &json)
  }

  static func delete(_ call: inout Call, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(call)
    let left = try without(channel.metadata, call)
    try set(channel, metadata: left, &call)
    json.emptyObject()
  }

  /// The stored fields without the key that the request names; none if it names no key.
  private static func without(_ stored: String, _ call: Call) throws -> [String: Value] {
    var key = call.arguments.path("key")
    if key.isEmpty { key = try call.arguments.text("key") ?? "" }
    return key.isEmpty ? [:] : Value(stored: stored).fields.filter { $0.key != key }
  }

  private static func set(_ channel: ChannelRow, metadata: [String: Value], _ call: inout Call) throws {
    try call.db.run("UPDATE channel SET metadata = ?2 WHERE id = ?1") {
      $0.bind(1, channel.id)
      $0.bind(2, Value.object(metadata).text)
    }
    try Channels.touch(channel.id, call)
    call.tell("group_channel:changed", channel.url, ["changes": .array([])])
  }

  static func createCounters(_ call: inout Call, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(call)
    let given = try numbers(call.arguments.neededObject("metacounter"))
    let old = Value(stored: channel.metacounter).fields
    if let known = given.keys.sorted().first(where: { old[$0] != nil }) { throw Refusal.exists(known) }
    try set(channel, counters: old.merging(given.mapValues(Value.integer)) { $1 }, call)
    Value.object(given.mapValues(Value.integer)).write(to: &json)
  }

  /// `mode` is `set`, `increase` or `decrease`.
  static func updateCounters(_ call: inout Call, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(call)
    let key = call.arguments.path("key")
    let given: [String: Int64]
    if key.isEmpty {
      given = try numbers(call.arguments.neededObject("metacounter"))
    } else {
      guard let value = try call.arguments.number("value") else { throw Refusal.missing("value") }
      given = [key: value]
    }
    let mode = try call.arguments.choice("mode", ["set", "increase", "decrease"], default: "set")
    let adds = try call.arguments.flag("upsert")
    let old = Value(stored: channel.metacounter).fields
    var changed: [String: Value] = [:]
    for (key, number) in given where adds || old[key] != nil {
      let before = old[key]?.integer ?? 0
      switch mode {
      case "increase": changed[key] = .integer(before &+ number)
      case "decrease": changed[key] = .integer(before &- number)
      default: changed[key] = .integer(number)
      }
    }
    try set(channel, counters: old.merging(changed) { $1 }, call)
    Value.object(changed).write(to: &json)
  }

  static func deleteCounters(_ call: inout Call, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(call)
    try set(channel, counters: without(channel.metacounter, call), call)
    json.emptyObject()
  }

  private static func numbers(_ fields: [String: Value]) throws -> [String: Int64] {
    try fields.mapValues { value in
      guard let number = value.integer else { throw Refusal(400101, "A metacounter holds whole numbers.") }
      return number
    }
  }

  private static func set(_ channel: ChannelRow, counters: [String: Value], _ call: Call) throws {
    try call.db.run("UPDATE channel SET metacounter = ?2 WHERE id = ?1") {
      $0.bind(1, channel.id)
      $0.bind(2, Value.object(counters).text)
    }
  }
}
