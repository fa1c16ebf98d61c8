import ChatModel

@testable import ChatCache
@testable import ChatSync

// Webhook notes.
extension MemoryStore {
  func note(_ notes: [Webhook.Note]) async throws -> [Webhook.Note] {
    state.withLock { state in
      for note in notes {
        let known = state.notes.firstIndex {
          $0.kind == note.kind && $0.channel == note.channel && $0.messageID == note.messageID
        }
        guard let known else {
          state.notes.append(note)
          continue
        }
        let old = state.notes[known]
        var new = Webhook.Note(
          kind: note.kind, channel: note.channel, messageID: note.messageID, source: note.source,
          users: old.users + note.users.filter { !old.users.contains($0) })
        new.noted = old.noted + 1
        state.notes[known] = new
      }
    }
    return notes
  }
  func webhookNotes() throws -> [Webhook.Note] { state.withLock { $0.notes } }
  func webhookNotes(in url: ChannelURL) throws -> [Webhook.Note] {
    try webhookNotes().filter { $0.channel == url }
  }
  func settled(_ note: Webhook.Note) async throws { state.withLock { MemoryStore.settle(note, &$0) } }

  private static func settle(_ note: Webhook.Note, _ state: inout State) {
    state.notes.removeAll {
      $0.kind == note.kind && $0.channel == note.channel && $0.messageID == note.messageID
        && $0.noted <= note.noted
    }
  }

  /// Deletes the notes of messages that are stored.
  static func settle(_ notes: [Webhook.Note], _ state: inout State) {
    for note in notes where state.channels[note.channel]?.rows[note.messageID] != nil { settle(note, &state) }
  }

  func unknown(_ messages: [Int64], in url: ChannelURL) throws -> [Int64] {
    state.withLock { state in
      guard let channel = state.channels[url] else { return messages }
      return messages.filter { channel.rows[$0] == nil && channel.tombstones[$0] == nil }
    }
  }
}
