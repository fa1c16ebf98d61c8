import ChatCache
import ChatModel
import MicroHTTP

/// The tag of a list that depends on many rows, checked without reading these rows.
///
/// As text: `"`, a hash of what names the list (log, run, user, query), `.`, the log's sequence at the read,
/// `"`. The list is unchanged if no event logged since then concerns the user. Equal lists may have different
/// tags; different lists never have the same tag.
struct ListTag {
  /// The most events after the tag's sequence that are looked through. If there are more, the list is read
  /// again.
  static let eventsLookedAt: Int64 = 2000

  private let name: String
  private let cursor: EventCursor
  private let user: UserKey

  /// The tag of a list that is read after `cursor` was taken.
  init(_ cursor: EventCursor, _ user: CachedUser, _ request: Request) {
    var tag = EntityTag(cursor, user.key)
    tag.add(user.isSynced ? 1 : 0)
    if let heldAt = user.heldAt { tag.add(heldAt) }
    tag.add(bytes: request.encodedQuery)
    name = tag.digits
    self.cursor = cursor
    self.user = user.key
  }

  /// The header's value for a list that is read now.
  var text: String { text(cursor.sequence) }

  private func text(_ sequence: Int64) -> String { "\"\(name).\(String(sequence, radix: 36))\"" }

  /// The tag in `If-None-Match` by which the client has this list already; nil: it has none.
  func known(to request: Request, _ reader: CacheReader) throws -> String? {
    guard let header = request.headerText("If-None-Match") else { return nil }
    for given in header.split(separator: ",") {
      var given = given.drop { $0 == " " }
      while given.last == " " { given.removeLast() }
      if given == "*" { return text }
      if given.hasPrefix("W/") { given = given.dropFirst(2) }
      guard given.hasPrefix("\"\(name)."), given.last == "\"",
        let sequence = Int64(given.dropFirst(name.utf8.count + 2).dropLast(), radix: 36)
      else { continue }
      if try isCurrent(sequence, reader) { return text(sequence) }
    }
    return nil
  }

  private func isCurrent(_ sequence: Int64, _ reader: CacheReader) throws -> Bool {
    guard sequence >= 0, sequence <= cursor.sequence,
      cursor.sequence - sequence <= ListTag.eventsLookedAt
    else { return false }
    let since = EventCursor(epoch: cursor.epoch, run: cursor.run, sequence: sequence)
    guard try reader.covers(since) else { return false }
    return try !reader.isConcerned(user, after: sequence)
  }
}
