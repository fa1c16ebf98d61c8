import JSON
import Platform

/// The readable items of a list in an answer. An item that cannot be read is left out and counted, and the
/// others stay (B35).
struct ReadItems<Item, Name> {
  /// The items that could be read, in the order they came.
  private(set) var items: [Item] = []
  /// The number of items that could not be read.
  private(set) var unreadable = 0
  /// The names of the unreadable items whose name could be read.
  private(set) var unreadableNames: [Name] = []
  /// Whether the last item of the list could be read.
  var isEndRead: Bool { breaks.last != items.count || breaks.isEmpty }
  /// The indexes in `items` before which unreadable items were left out; `items.count`: at the end.
  private(set) var breaks: [Int] = []

  /// No items.
  init() {}

  /// Reads a list in the answer of `endpoint`. One log line reports all its unreadable items.
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
