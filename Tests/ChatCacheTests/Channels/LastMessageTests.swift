import ChatModel
import Platform
import Testing

@testable import ChatCache

/// A channel's last message after the previous one is deleted (B7, B10).
@Suite struct LastMessageTests {
  private func last(_ world: ChannelWithMessages) throws -> Int64? {
    try world.cache.read { reader in
      let channel = try #require(try reader.channelKey(of: world.url))
      return try reader.lastMessage(of: channel)?.messageID
    }
  }

  /// Whether the cache has a note to ask the upstream about the channel.
  private func isAsked(_ world: ChannelWithMessages) throws -> Bool {
    try world.cache.read { try $0.webhookNotes(in: world.url) }.contains { $0.kind == .channel }
  }

  private static func rows(_ ids: ClosedRange<Int64>) -> [MessageRecord] {
    ids.map { ChannelWithMessages.message($0, at: $0 * 10) }
  }

  @Test("B10: where all is covered, the covered message before it is the last, and nobody is asked")
  func covered() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    try world.listNewest(Self.rows(1...9), limit: 100)
    try world.cache.write { try $0.delete(message: 9, in: world.url, .messageDeleted) }
    #expect(try last(world) == 8)
    #expect(try !isAsked(world))
  }

  @Test("B10: where only the channel told of it, the channel is asked for, and its next answer counts")
  func uncovered() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    let told = Guarded<Set<ChannelURL>>([])
    world.cache.onCommit { commit in told.withLock { $0.formUnion(commit.notedChannels) } }
    let record = { (id: Int64) in
      ChannelWithMessages.channel(
        world.url, last: .message(ChannelWithMessages.message(id, at: id * 10)))
    }
    let (nine, eight) = (record(9), record(8))
    try world.cache.write { _ = try $0.store([nine], of: world.alice, .refresh(.channelRefresh)) }
    #expect(try last(world) == 9)
    try world.cache.write { try $0.delete(message: 9, in: world.url, .messageDeleted) }
    #expect(try last(world) == nil)
    #expect(try isAsked(world))
    #expect(told.withLock { $0 } == [world.url])
    try world.cache.write { _ = try $0.store([eight], of: world.alice, .refresh(.channelRefresh)) }
    #expect(try last(world) == 8)
  }

  @Test("B10: an answer from before an edit does not bring the last message's old text back")
  func edited() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    func answer(_ message: MessageRecord, asked: Int64) throws -> String? {
      var record = ChannelWithMessages.channel(world.url, last: .message(message))
      record.asked = ChannelRecord.Asked(sequence: asked)
      let answered = record
      return try world.cache.write { writer in
        _ = try writer.store([answered], of: world.alice, .refresh(.channelRefresh))
        return try writer.db.reading.first("SELECT last_message FROM channel") { $0.string(0) }
      }
    }
    let old = ChannelWithMessages.message(9, at: 90)
    let edit = ChannelWithMessages.message(9, at: 90, updatedAt: 95, text: "edited")
    let again = ChannelWithMessages.message(9, at: 90, updatedAt: 99, text: "edited again")
    try world.listNewest([old], limit: 100)
    let asked = world.cache.cursor.sequence
    try world.listNewest([edit], limit: 100)
    #expect(try answer(old, asked: asked)?.contains("edited") == true)
    #expect(try answer(old, asked: .max)?.contains("edited") == true, "its time of update is older")
    #expect(try answer(again, asked: asked)?.contains("edited again") == true)
  }

  @Test("B10: a message behind a gap is not taken for the last without asking")
  func behindGap() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    try world.listNewest(Self.rows(1...5), limit: 100, generation: 1)
    try world.listNewest(Self.rows(1...9).suffix(1), limit: 1, generation: 2)
    #expect(try last(world) == 9)
    try world.cache.write { try $0.delete(message: 9, in: world.url, .messageDeleted) }
    #expect(try isAsked(world), "what lies between 5 and 9 is not known")
  }

  @Test("B27: a last message that a second listing shows to be gone is the last no more")
  func settled() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    try world.listNewest(Self.rows(1...9), limit: 100)
    try world.listNewest(Self.rows(1...8), limit: 100)
    #expect(try last(world) == 9, "one listing takes nothing away")
    var context = ListingContext(source: .apiResult, generation: 1)
    context.settlesDoubts = true
    let listing = MessageListing(
      window: MessageWindow(.newest, older: 100, newer: 0), rows: Self.rows(1...8), isWhole: true,
      askedAt: world.cache.cursor.sequence)
    let settling = context
    try world.cache.write { try $0.store([listing], in: world.url, settling) }
    #expect(try last(world) == 8)
  }
}
