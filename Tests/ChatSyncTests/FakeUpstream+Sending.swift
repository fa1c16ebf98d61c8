import ChatCache
import ChatModel
import JSON
import Platform

@testable import ChatSync

/// The fake server's writes, which it deduplicates by user and request id.
extension FakeUpstream {
  private static func text(_ params: [UInt8]) -> String? {
    params.withUnsafeBytes { raw in JSONParser().read(raw) { $0["message"]?.string } ?? nil }
  }

  func send(_ message: OutgoingMessage, _ importance: Importance) async throws -> MessageRecord {
    let text = FakeUpstream.text(message.params) ?? ""
    return FakeUpstream.record(
      try await post(text, message.requestID.text, message.user, message.channel))
  }

  func upload(
    _ file: OutgoingFile, progress: @escaping @Sendable (_ sent: Int64, _ total: Int64) -> Void
  ) async throws -> String { throw UpstreamError.rejection(code: 400108, message: "no uploads") }

  /// Stores a message, or returns the one that the same request stored before.
  func post(_ text: String, _ requestID: String, _ user: UserID, _ url: ChannelURL) async throws -> Message {
    try await ask { state in
      guard var channel = state.channels[url] else { throw FakeUpstream.gone }
      guard channel.members.contains(user) else {
        throw UpstreamError.rejection(code: 900020, message: "not a member")
      }
      let key = "\(url.text) \(user.text) \(requestID)"
      let first = state.sent[key].flatMap { id in channel.messages.first { $0.id == id } }
      if state.deduplicates, let first { return first }
      state.clock += 1
      let made = Message(
        id: state.nextID, at: state.clock, text: text, sender: user.text, requestID: requestID)
      state.nextID += 1
      state.sent[key] = made.id
      channel.messages.append(made)
      state.channels[url] = channel
      for member in channel.members { state.log.append((member, url, false)) }
      return made
    }
  }

  /// Changes a message that is there and notes it in the channel's changelog.
  private func change(
    _ id: Int64, _ url: ChannelURL, _ body: @escaping (inout Message) throws -> Void
  ) async throws -> Message {
    try await ask { state in
      guard var channel = state.channels[url],
        let index = channel.messages.firstIndex(where: { $0.id == id })
      else { throw FakeUpstream.gone }
      try body(&channel.messages[index])
      state.clock += 1
      channel.log.append((state.clock, id))
      state.channels[url] = channel
      return channel.messages[index]
    }
  }

  func edit(
    message id: Int64, in url: ChannelURL, _ edit: OutgoingEdit, _ importance: Importance
  ) async throws -> MessageRecord {
    let text = FakeUpstream.text(edit.params)
    let now = state.withLock { $0.clock + 1 }
    return FakeUpstream.record(
      try await change(id, url) { message in
        if let text { message.text = text }
        message.updatedAt = now
      })
  }

  func delete(message id: Int64, in url: ChannelURL, _ importance: Importance) async throws {
    try await ask { state in
      guard var channel = state.channels[url],
        let index = channel.messages.firstIndex(where: { $0.id == id })
      else { throw FakeUpstream.gone }
      state.clock += 1
      channel.log.append((state.clock, channel.messages.remove(at: index).id))
      state.channels[url] = channel
      for member in channel.members { state.log.append((member, url, false)) }
    }
  }

  func react(
    to id: Int64, in url: ChannelURL, as user: UserID, key: String, isAdded: Bool, _ importance: Importance
  ) async throws {
    let entry = "\(key) \(user.text)"
    _ = try await change(id, url) { message in
      if isAdded {
        guard !message.reactions.contains(entry) else {
          throw UpstreamError.rejection(code: 400202, message: "exists")
        }
        message.reactions.append(entry)
      } else {
        guard message.reactions.contains(entry) else { throw FakeUpstream.gone }
        message.reactions.removeAll { $0 == entry }
      }
    }
  }

  func markAsRead(_ url: ChannelURL, as user: UserID, _ importance: Importance) async throws {
    try await ask { state in
      guard state.channels[url]?.members.contains(user) ?? false else {
        throw UpstreamError.rejection(code: 900020, message: "not a member")
      }
      state.readMarks[url, default: [:]][user] = state.clock
    }
  }
}
