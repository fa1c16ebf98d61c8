import ChatCache
import ChatModel
import JSON
import Platform

// How far a channel list may grow (B22), and the tokens of its edge (B17).
//
// A list grows at its end by load calls, and anywhere by channels that come. A load call answers no more
// than fits. When channels that came make it hold too many, its end is let go of: never its beginning, where
// what is newest stands and to which no call leads back. The log names the channels that went, so that a
// client is told of them from whatever cursor it comes.

extension ChannelCollection {
  /// Whether the list has to be looked at: it may hold more than it may.
  package var isPerhapsTooLarge: Bool { state.withLock { !$0.isBounded } }

  /// The window without its end where it holds too many channels, and the names of those in what was let go.
  func cut(_ reader: CacheReader, _ window: ChannelWindow) throws -> (window: ChannelWindow, gone: [String])?
  {
    // What is answered while this counts has to be looked at again.
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

  /// How many channels fit into the view after a key in it.
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

  // MARK: What the log keeps

  /// The event that says which channels were let go of.
  func trimmed(_ gone: [String]) -> Change {
    var change = Change(.windowTrimmed, .localWindowTrimmed, user: user)
    change.collection = id
    var json = JSONWriter()
    MessageViewRequest.write("channel_urls", gone, into: &json)
    change.detail = json.finish().array
    return change
  }

  /// The channels that such an event names.
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

  // MARK: Edges

  /// The token of a key in this list; nil: of its beginning.
  func edge(_ key: ChannelListKey?) -> String {
    let parts = key.map { [String($0.time), $0.text, $0.channelURL] } ?? []
    return "\(Base64URL.encode(Array(parts.joined(separator: "\0").utf8))).\(id)"
  }

  /// The key that an edge token of this list names, nil being its beginning; an error where it is another
  /// list's, or leads to what was let go of.
  package func key(ofEdge token: String) throws(ViewError) -> ChannelListKey? {
    let parts = token.utf8.split(separator: UInt8(ascii: "."), maxSplits: 1, omittingEmptySubsequences: false)
    guard parts.count == 2, parts[1].elementsEqual(id.utf8),
      let bytes = Array(parts[0]).withUnsafeBytes(Base64URL.decode)
    else { throw .foreignEdge("after") }
    guard !bytes.isEmpty else { return nil }
    // The text may hold zeroes itself, the time and the url do not.
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
