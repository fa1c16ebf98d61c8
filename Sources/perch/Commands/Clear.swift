import ChatCache
import ChatModel

extension Command {
  /// `perch clear`
  static let clear = Command(
    name: "clear",
    summary: "clears a data directory's cache or one channel's messages, through the service where one runs",
    settings: [
      Setting("data", .path, default: "data", "the directory; a service may be using it"),
      Setting("channel", .name, default: "", "the url of the only channel whose messages are cleared"),
      Setting("force", .flag, default: "off", "clears everything, unsent messages and changes too"),
      AccessParts.secretSetting,
    ]
  ) { values in try Clearing(values).run() }
}

/// One call of `perch clear`.
private struct Clearing {
  private let values: SettingValues
  private let directory: String
  private let channel: ChannelURL?
  private let isForced: Bool

  init(_ values: SettingValues) {
    self.values = values
    directory = values.text("data")
    channel = values.text("channel").isEmpty ? nil : ChannelURL(values.text("channel"))
    isForced = values.text("force") == "on"
  }

  func run() throws -> Int32 {
    do {
      // Look first, so that a directory without a cache does not get one and another program's files stay as
      // they are.
      let found = try Cache.clearable(directory: directory, channel: channel)
      guard found.isKnown else {
        throw CommandFailure(
          description: "no channel \(values.text("channel")) is cached: `perch cache` lists the largest")
      }
      if channel == nil, found.unsent > 0, !isForced { throw Clearing.refusal(found.unsent) }
      try clear(as: found.user)
    } catch let error as CacheError {
      throw CommandFailure(description: error.description)
    }
    CommandLineCall.write(channel.map { "cleared \($0.text)\n" } ?? "cleared\n", to: 1)
    return 0
  }

  private static func refusal(_ unsent: Int64) -> CommandFailure {
    CommandFailure(
      description: "\(unsent) messages and changes are not sent yet: --force clears them, too")
  }

  private func clear(as user: UserID?) throws {
    let cache: Cache
    do {
      cache = try Cache(Cache.Configuration(directory: directory))
    } catch CacheError.lockedBy {
      if channel != nil, user == nil {
        throw CommandFailure(
          description: "no user here is in the channel any more: the running service deletes its messages")
      }
      let service = try RunningService(
        dataDirectory: directory, secrets: AccessParts.secretFile(values))
      return try service.clear(channel, isForced: isForced, as: user ?? UserID("operator"))
    }
    defer { cache.close() }
    if let channel {
      try cache.blocking.write { try $0.clear(channel) }
      return try cache.trim()
    }
    let isForced = isForced
    // Counted again in the commit, because rows may have come since.
    let unsent = try cache.blocking.write { writer in
      let unsent = try writer.reader.unsentRows()
      if unsent == 0 || isForced { try writer.clearAll(withUnsent: isForced) }
      return unsent
    }
    if unsent > 0, !isForced { throw Clearing.refusal(unsent) }
    try cache.trim()
  }
}
