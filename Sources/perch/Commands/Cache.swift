import ChatCache
import ChatModel

extension Command {
  /// `perch cache`
  static let cache = Command(
    name: "cache", summary: "tells how large a data directory's cache is, and which channels are the largest",
    settings: [
      Setting("data", .path, default: "data", "the directory; a service may be using it"),
      Setting("channels", .number(0...1000), default: "10", "how many of the largest channels are listed"),
    ]
  ) { values in
    let directory = values.text("data")
    let summary: CacheSummary
    do {
      summary = try Cache.summary(directory: directory, channels: values.number("channels"))
    } catch let error as CacheError {
      throw CommandFailure(description: "\(error.description); --data is the data directory of `perch serve`")
    }
    var text = """
      used      \(Sizes.text(summary.usedBytes))
      free      \(Sizes.text(summary.freeBytes)) of the file, reused by later writes
      channels  \(summary.info.channels)
      messages  \(summary.info.messages)
      unsent    \(summary.info.unsent)

      """
    if !summary.largest.isEmpty { text += "the largest channels, by the bytes of their messages:\n" }
    for channel in summary.largest {
      text += "  \(Sizes.text(channel.bytes))  \(channel.messages) messages  \(channel.url.text)\n"
    }
    CommandLineCall.write(text, to: 1)
    return 0
  }
}

/// Sizes for people.
enum Sizes {
  /// `12.3 MB`, in powers of 1024, with the bytes behind it.
  static func text(_ bytes: Int64) -> String {
    for (unit, factor) in [("GB", Int64(1) << 30), ("MB", 1 << 20), ("KB", 1 << 10)] where bytes >= factor {
      let tenths = bytes / (factor / 10)
      return "\(tenths / 10).\(tenths % 10) \(unit) (\(bytes) bytes)"
    }
    return "\(bytes) bytes"
  }
}
