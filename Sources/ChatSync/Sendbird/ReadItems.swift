import JSON
import Platform

/// What could be read of a list in an answer. An item that cannot be read is left out and counted, and the
/// others stay (B35).
struct ReadItems<Item, Name> {
  /// The items that could be read, in the order they came.
  private(set) var items: [Item] = []
  /// How many could not be read.
  private(set) var unreadable = 0
  /// The names of those, where their names could be read.
  private(set) var unreadableNames: [Name] = []
  /// Whether the last item of the list could be read.
  var isEndRead: Bool { breaks.last != items.count || breaks.isEmpty }
  /// Before which of the items, by number, those stood that could not be read; the count of items: after all.
  private(set) var breaks: [Int] = []

  /// No items.
  init() {}

  /// Reads a list of the answer of `endpoint`; one log line tells of all that could not be read.
  init(
    _ list: JSONValue, of endpoint: Endpoint, name: (JSONValue) -> Name?, _ read: (JSONValue) throws -> Item
  ) {
    var reason = ""
    for value in list.items {
      do {
        items.append(try read(value))
      } catch {
        unreadable += 1
        if breaks.last != items.count { breaks.append(items.count) }
        if let name = name(value) { unreadableNames.append(name) }
        if reason.isEmpty { reason = "\(error)" }
      }
    }
    guard unreadable > 0 else { return }
    let first = unreadableNames.first.map { "\($0)" } ?? "without a name"
    Log.line(
      .warning, "upstream_item_unreadable",
      [
        "endpoint": .text(endpoint.path), "item": .text(first), "count": .number(Int64(unreadable)),
        "reason": .text(reason),
      ])
  }
}
