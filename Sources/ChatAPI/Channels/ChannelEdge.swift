import ChatCache
import ChatModel
import MicroHTTP
import Platform

/// The page token of a channel list: a sort key, and the order that the key belongs to. Clients send the
/// token back as they got it.
enum ChannelEdge {
  static func token(_ key: ChannelListKey, _ query: ChannelQuery) -> String {
    let parts = [
      query.order.rawValue, query.metadataOrderKey ?? "", String(key.time), key.text, key.channelURL,
    ]
    return Base64URL.encode(Array(parts.joined(separator: "\0").utf8))
  }

  /// The sort key in a page token. Throws a 400 if the token is malformed or belongs to another order.
  static func key(_ token: String, _ query: ChannelQuery) throws -> ChannelListKey {
    var token = token
    let bytes = token.withUTF8 { Base64URL.decode(UnsafeRawBufferPointer($0)) }
    let parts = (bytes ?? []).split(separator: 0, maxSplits: 3, omittingEmptySubsequences: false)
    // The text may contain zero bytes, the url does not: the last zero separates them.
    guard parts.count == 4, let end = parts[3].lastIndex(of: 0), end + 1 < parts[3].endIndex,
      let time = Int64(String(decoding: parts[2], as: UTF8.self))
    else {
      throw Problem.invalid("after", "Give back what an answer called next.")
    }
    guard parts[0].elementsEqual(query.order.rawValue.utf8),
      parts[1].elementsEqual((query.metadataOrderKey ?? "").utf8)
    else {
      throw Problem.invalid("after", "It belongs to a list in another order: begin again without it.")
    }
    return ChannelListKey(
      time: time, text: String(decoding: parts[3][..<end], as: UTF8.self),
      channelURL: String(decoding: parts[3][(end + 1)...], as: UTF8.self))
  }
}
