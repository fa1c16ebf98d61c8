import ChatCache
import ChatModel
import JSON
import Platform

// The size limit of a channel list (B22), and the token of its end (B17).
//
// A list grows at its end by load calls, and anywhere by new channels. A load call answers no more than fits.
// When new channels make the list too long, its end is cut. Its beginning is never cut, because the newest
// channels are there and no call could load them again. An event names the channels that were cut, so that a
// client with any cursor is told.

extension ChannelCollection {
  /// Whether the list may be too long, so that it has to be checked.
  package var isPerhapsTooLarge: Bool { state.withLock { !$0.isBounded } }

  /// The window without its end, if the list holds too many channels, and the urls of the channels that were
  /// cut.
  func cut(_ reader: CacheReader, _ window: ChannelWindow) throws -> (window: ChannelWindow, gone: [String])?
  {
    // Set before counting: an answer given meanwhile clears it, and the list is checked again.
    state.withLock { $0.isBounded = true }
    guard let user = try reader.cachedUser(userID) else { throw ViewError.notFound }
    var count = 0
    var last: ChannelListKey?
    var gone: [String] = []
    try reader.eachKey(query, of: user) { key in
      guard window.contains(key) else { return false }
      count += 1
      if count == bound.rowsLeft { last = key }
      if count > bound.rowsLeft { gone.append(key.channelURL) }
      return true
    }
    guard count > bound.rows else { return nil }
    return (ChannelWindow(boundary: last, hasMore: true), gone)
  }

  /// The number of channels that fit into the view after `after`.
  func room(_ reader: CacheReader, _ user: CachedUser, after: ChannelListKey?) throws -> Int {
    guard let after else { return bound.rows }
    var room = bound.rows
    try reader.eachKey(query, of: user) { key in
      guard room > 0, !after.precedes(key) else { return false }
      room -= 1
      return true
    }
    return room
  }

  // MARK: The event of a cut

  /// The event that names the channels that were cut.
  func trimmed(_ gone: [String]) -> Change {
    var change = Change(.windowTrimmed, .localWindowTrimmed, user: user)
    change.collection = id
    var json = JSONWriter()
    MessageViewRequest.write("channel_urls", gone, into: &json)
    change.detail = json.finish().array
    return change
  }

  /// The channels that an event of a cut names.
  static func names(trimmedBy change: Change) throws -> [String] {
    guard let detail = change.detail else { return [] }
    return try ([UInt8(ascii: "{")] + detail + [UInt8(ascii: "}")]).withUnsafeBytes { bytes in
      try JSONParser.parse(bytes) { json in
        var names: [String] = []
        for name in json["channel_urls"]?.items ?? JSONValue.Items() { names.append(name.string ?? "") }
        return names
      }
    }
  }

  // MARK: The token of the list's end

  /// The token for loading the channels after `key` in this list; nil: from the beginning.
  func edge(_ key: ChannelListKey?) -> String {
    let parts = key.map { [String($0.time), $0.text, $0.channelURL] } ?? []
    return "\(Base64URL.encode(Array(parts.joined(separator: "\0").utf8))).\(id)"
  }

  /// The key in a token; nil: the beginning of the list. Throws if the token is of another list, or its key
  /// is in a part of the list that was cut.
  package func key(ofEdge token: String) throws(ViewError) -> ChannelListKey? {
    let parts = token.utf8.split(separator: UInt8(ascii: "."), maxSplits: 1, omittingEmptySubsequences: false)
    guard parts.count == 2, parts[1].elementsEqual(id.utf8),
      let bytes = Array(parts[0]).withUnsafeBytes(Base64URL.decode)
    else { throw .foreignEdge("after") }
    guard !bytes.isEmpty else { return nil }
    // The text may contain zero bytes; the time and the url do not.
    guard let first = bytes.firstIndex(of: 0), let last = bytes.lastIndex(of: 0), first < last,
      last + 1 < bytes.endIndex, let time = Int64(String(decoding: bytes[..<first], as: UTF8.self))
    else { throw .foreignEdge("after") }
    let key = ChannelListKey(
      time: time, text: String(decoding: bytes[(first + 1)..<last], as: UTF8.self),
      channelURL: String(decoding: bytes[(last + 1)...], as: UTF8.self))
    guard window.contains(key) else { throw .foreignEdge("after") }
    return key
  }
}
