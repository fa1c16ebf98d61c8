import ChatCache
import ChatModel
import MicroHTTP

/// The tag of a list that many rows decide about, told without reading one of them.
///
/// As text: `"` what names the list (log, run, user, query) `.` the log's sequence when it was read `"`. The
/// list is still the same if nothing that was logged since concerns the user, which the log alone can tell.
/// Equal lists may have different tags, different ones never have the same.
struct ListTag {
  /// The most events after the tag's that are looked through. Where there are more, the list is read again.
  static let eventsLookedAt: Int64 = 2000

  private let name: String
  private let cursor: EventCursor
  private let user: UserKey

  /// The tag of a list that is read after `cursor` was taken.
  init(_ cursor: EventCursor, _ user: CachedUser, _ request: Request) {
    var tag = EntityTag(cursor, user.key)
    tag.add(user.isSynced ? 1 : 0)
    tag.add(bytes: request.encodedQuery)
    name = tag.digits
    self.cursor = cursor
    self.user = user.key
  }

  /// The header's value for a list that is read now.
  var text: String { text(cursor.sequence) }

  private func text(_ sequence: Int64) -> String { "\"\(name).\(String(sequence, radix: 36))\"" }

  /// The tag by which the request has this list already, as it was given.
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
