/// The values of the columns by which channel lists are ordered and filtered.
package enum ChannelColumns {
  /// The value of the column `sort_at`: the newest message's time, or, without a message, the creation time
  /// far below every real time. One number thus orders both (B7).
  package static func sortAt(lastMessageAt: Int64?, createdAt: Int64) -> Int64 {
    lastMessageAt ?? createdAt - withoutMessage
  }

  /// Subtracted from the creation time of a channel without messages: more than any time in ms.
  package static let withoutMessage: Int64 = 1 << 52

  /// The lowercased form of a name, nickname or metadata value, by Unicode's rules. Filters and orders
  /// compare this form (B7).
  package static func key(_ text: String) -> String { text.lowercased() }
}
