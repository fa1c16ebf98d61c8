import ChatModel

/// The sort key of a channel in a list of one order. Such a key marks the end of a collection's window, or of
/// a page.
package struct ChannelListKey: Hashable, Sendable {
  /// The time that orders, ms; 0 in the orders by text.
  package let time: Int64
  /// The text that orders; "" in the orders by time, or if the channel has none.
  package let text: String
  /// The channel's url. It orders channels with equal times and texts.
  package let channelURL: String

  /// A key. It can be compared only with keys of the same order.
  package init(time: Int64, text: String, channelURL: String) {
    self.time = time
    self.text = text
    self.channelURL = channelURL
  }

  /// Whether both are the same key: texts are compared by their bytes.
  package static func == (a: ChannelListKey, b: ChannelListKey) -> Bool {
    a.time == b.time && a.text.hasSameBytes(as: b.text) && a.channelURL.hasSameBytes(as: b.channelURL)
  }

  /// Hashes the time and the bytes of both texts.
  package func hash(into hasher: inout Hasher) {
    hasher.combine(time)
    hasher.combine(ExactText(text))
    hasher.combine(ExactText(channelURL))
  }

  /// Whether this key comes before the other: later times first, then texts by their bytes with no text
  /// last, then urls by their bytes (B7).
  package func precedes(_ other: ChannelListKey) -> Bool {
    if time != other.time { return time > other.time }
    if text.isEmpty != other.text.isEmpty { return other.text.isEmpty }
    if !text.hasSameBytes(as: other.text) { return text.precedesBytes(of: other.text) }
    return channelURL.precedesBytes(of: other.channelURL)
  }
}
