import ChatCache
import ChatModel
import MicroHTTP
import Platform

/// The token of a place in a list of channels: the place, and the order it was made for. Opaque to clients,
/// who only give it back.
enum ChannelEdge {
  static func token(_ key: ChannelListKey, _ query: ChannelQuery) -> String {
    let parts = [
      query.order.rawValue, query.metadataOrderKey ?? "", String(key.time), key.text, key.channelURL,
    ]
    return Base64URL.encode(Array(parts.joined(separator: "\0").utf8))
  }

  /// The place a token names; a 400 where it was made for another order or is none.
  static func key(_ token: String, _ query: ChannelQuery) throws -> ChannelListKey {
    var token = token
    let bytes = token.withUTF8 { Base64URL.decode(UnsafeRawBufferPointer($0)) }
    let parts = String(decoding: bytes ?? [], as: UTF8.self).split(
      separator: "\0", omittingEmptySubsequences: false)
    guard parts.count == 5, let time = Int64(parts[2]), !parts[4].isEmpty else {
      throw Problem.invalid("after", "Give back what an answer called next.")
    }
    guard parts[0] == query.order.rawValue, parts[1] == query.metadataOrderKey ?? "" else {
      throw Problem.invalid("after", "It was made for another order: begin again without it.")
    }
    return ChannelListKey(time: time, text: String(parts[3]), channelURL: String(parts[4]))
  }
}
