import ChatModel
import JSON
import Testing

@testable import ChatCache

/// Lookups of one channel for many lists: those of one snapshot share the text that all members see.
@Suite struct ListedChannelTests {
  @Test("B1 B9 B23: a lookup shows the channel as the list's page does, whoever looked it up before")
  func lookupsAsPages() throws {
    let base = try ChannelWithMessages(floorOfBob: 51)
    let message = ChannelWithMessages.message(1, at: 50)
    for (user, floor) in [(base.alice, Int64(0)), (base.bob, 51)] {
      let channel = ChannelWithMessages.channel(base.url, floor: floor, last: .message(message))
      try base.cache.write { _ = try $0.store([channel], of: user, .listing(sweep: 1)) }
    }
    var plain = ChannelQuery()
    plain.includesEmpty = true
    var whole = plain
    whole.includesMembers = true
    whole.includesMetadata = true
    let (queries, users) = ([plain, whole], [base.alice, base.bob])
    for order in [users, users.reversed()] {
      try base.cache.read { reader in
        let channel = try #require(try reader.channelKey(of: base.url))
        for query in queries + queries {
          let shown = try order.map { name in
            let user = try #require(try reader.cachedUser(name))
            var paged = ""
            var hash: Int64 = 0
            try reader.eachListed(query, of: user) { found in
              paged = String(decoding: found.object.array, as: UTF8.self)
              hash = found.hash
              return true
            }
            var found = JSONWriter()
            let lookup = ChannelLookup(query, of: user.key, named: name)
            #expect(try reader.writeListed(channel, lookup, into: &found)?.hash == hash)
            #expect(String(decoding: found.finish().array, as: UTF8.self) == paged)
            return (paged.contains("\"last_message\""), paged.contains("\"members\""))
          }
          #expect(shown.map(\.0) == order.map { $0 == base.alice }, "bob's history begins later")
          #expect(shown.allSatisfy { $0.1 == query.includesMembers })
        }
      }
    }
  }
}
