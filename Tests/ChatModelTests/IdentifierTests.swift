import Testing

@testable import ChatModel

/// Ids are compared by their bytes, as SQLite and the chat server compare them.
@Suite struct IdentifierTests {
  /// Texts that Swift takes for equal although their bytes differ.
  static let lookAlikes: [(String, String)] = [
    ("Karl", "\u{212A}arl"), ("a;b", "a\u{37E}b"), ("`x", "\u{1FEF}x"), ("\u{E9}", "e\u{301}"),
    ("\u{C5}", "\u{212B}"), ("\u{AC00}", "\u{1100}\u{1161}"),
    ("a long name that is not kept inline, Karl", "a long name that is not kept inline, \u{212A}arl"),
  ]

  @Test("B1: ids whose bytes differ are different, in comparison, hash, sets and maps", arguments: lookAlikes)
  func differ(one: String, other: String) throws {
    try #require(one == other, "else nothing is tried here")
    #expect(UserID(one) != UserID(other) && UserID(one) == UserID(one))
    #expect(ChannelURL(one) != ChannelURL(other) && ChannelURL(one) == ChannelURL(one))
    #expect(SyncToken(one) != SyncToken(other) && SyncToken(one) == SyncToken(one))
    #expect(ExactText(one) != ExactText(other) && ExactText(one) == ExactText(one))
    #expect((ExactText(one) < ExactText(other)) != (ExactText(other) < ExactText(one)))
    #expect(Set([UserID(one), UserID(other)]).count == 2 && UserID(one).hashValue != UserID(other).hashValue)
    #expect(Set([ChannelURL(one), ChannelURL(other)]).count == 2)
    #expect(Set([SyncToken(one), SyncToken(other)]).count == 2)
    #expect(Set([ExactText(one), ExactText(other)]).count == 2)
    var map = TextMap<Int>()
    map[one] = 1
    #expect(map[other] == nil && map[one] == 1)
    map[other, default: 5] += 1
    #expect(map[one] == 1 && map[other] == 6 && map.count == 2)
    map.removeValue(forKey: one)
    #expect(map[one] == nil && map.map(\.name).allSatisfy { $0.hasSameBytes(as: other) })
  }

  @Test("a request id holds nothing that looks like another one")
  func requests() throws {
    #expect(RequestID("\u{212A}arl") == nil)
    #expect(try #require(RequestID("Karl")) == #require(RequestID("Karl")))
    #expect(try Set([#require(RequestID("Karl")), #require(RequestID("karl"))]).count == 2)
  }

  @Test("messages' filters are the same where their bytes are")
  func filters() {
    var (one, other) = (MessageQuery(), MessageQuery())
    one.senders = ["Karl"]
    other.senders = ["\u{212A}arl"]
    #expect(one != other)
    other.senders = ["Karl"]
    #expect(one == other)
    one.customTypes = ["\u{E9}"]
    other.customTypes = ["e\u{301}"]
    #expect(one != other)
  }
}
