import ChatCache
import ChatModel
import MicroHTTP
import Platform

/// The token of a sort key in a list of channels: the key, and the order it was made for. Opaque to clients,
/// who only give it back.
enum ChannelEdge {
  static func token(_ key: ChannelListKey, _ query: ChannelQuery) -> String {
    let parts = [
      query.order.rawValue, query.metadataOrderKey ?? "", String(key.time), key.text, key.channelURL,
    ]
    return Base64URL.encode(Array(parts.joined(separator: "\0").utf8))
  }

  /// The sort key that a token names; a 400 where it was made for another order or is none.
  static func key(_ token: String, _ query: ChannelQuery) throws -> ChannelListKey {
    var token = token
    let bytes = token.withUTF8 { Base64URL.decode(UnsafeRawBufferPointer($0)) }
    let parts = (bytes ?? []).split(separator: 0, maxSplits: 3, omittingEmptySubsequences: false)
    // The text may hold zeroes itself, the url does not: the last zero stands between them.
    guard parts.count == 4, let end = parts[3].lastIndex(of: 0), end + 1 < parts[3].endIndex,
      let time = Int64(String(decoding: parts[2], as: UTF8.self))
    else {
      throw Problem.invalid("after", "Give back what an answer called next.")
    }
    guard parts[0].elementsEqual(query.order.rawValue.utf8),
      parts[1].elementsEqual((query.metadataOrderKey ?? "").utf8)
    else {
      throw Problem.invalid("after", "It was made for another order: begin again without it.")
    }
    return ChannelListKey(
      time: time, text: String(decoding: parts[3][..<end], as: UTF8.self),
      channelURL: String(decoding: parts[3][(end + 1)...], as: UTF8.self))
  }
}
