import ChatCache
import ChatModel
import JSON

// Windows as they are stored: JSON objects, read back strictly.

extension LoadedRange {
  /// As JSON.
  package var stored: [UInt8] {
    var json = JSONWriter()
    json.beginObject()
    json.field("has_previous", hasPrevious)
    json.field("has_next", hasNext)
    if let loaded {
      json.field("from", loaded.lowerBound)
      json.field("to", loaded.upperBound)
    }
    json.endObject()
    return json.finish().array
  }

  /// Reads what `stored` wrote.
  package init(stored: [UInt8]) throws {
    self = try stored.withUnsafeBytes { bytes in
      try JSONParser.parse(bytes) { json in
        let from = json["from"]?.string.flatMap { Position($0) }
        let to = json["to"]?.string.flatMap { Position($0) }
        var loaded: ClosedRange<Position>?
        if let from, let to, from <= to { loaded = from...to }
        return LoadedRange(
          loaded: loaded, hasPrevious: json["has_previous"]?.bool ?? true,
          hasNext: json["has_next"]?.bool ?? true)
      }
    }
  }
}

extension ChannelWindow {
  /// As JSON.
  package var stored: [UInt8] {
    var json = JSONWriter()
    json.beginObject()
    json.field("has_more", hasMore)
    if let boundary {
      json.field("time", boundary.time)
      json.field("text", boundary.text)
      json.field("channel_url", boundary.channelURL)
    }
    json.endObject()
    return json.finish().array
  }

  /// Reads what `stored` wrote.
  package init(stored: [UInt8]) throws {
    self = try stored.withUnsafeBytes { bytes in
      try JSONParser.parse(bytes) { json in
        let boundary = json["channel_url"]?.string.map {
          ChannelListKey(time: json["time"]?.int64 ?? 0, text: json["text"]?.string ?? "", channelURL: $0)
        }
        return ChannelWindow(boundary: boundary, hasMore: json["has_more"]?.bool ?? true)
      }
    }
  }
}
