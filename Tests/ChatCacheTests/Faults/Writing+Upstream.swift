import ChatModel

@testable import ChatCache

// Writes of data from upstream, and writes that remove it again.
extension Writing {
  private static let alice = UserID("alice")
  private static let url = ChannelURL("general")

  private static func message(_ id: Int64, edited: Bool = false) -> MessageRecord {
    ChannelWithMessages.message(
      id, at: id * 10, updatedAt: edited ? 5_000 : 0, parent: id == 7 ? 3 : nil, parentAt: id == 7 ? 30 : nil,
      text: edited ? "edited" : "hello", mentions: id == 9 ? .users(["alice"]) : .nobody)
  }

  private static func listing(_ ids: ClosedRange<Int64>, askedAt: Int64) -> MessageListing {
    MessageListing(
      window: MessageWindow(.newest, older: 100, newer: 0), rows: ids.map { message($0) }, isWhole: true,
      askedAt: askedAt)
  }

  @Sendable private static func user(_ cache: Cache) throws {
    try cache.write { try $0.acknowledge(alice) }
  }

  /// Ends the first listing: each of its pages writes an event of progress, but a later listing's only events
  /// of changes.
  @Sendable private static func synced(_ cache: Cache) throws {
    try user(cache)
    try cache.write { try $0.endListing(of: alice) }
  }

  @Sendable private static func channel(_ cache: Cache) throws {
    try user(cache)
    try cache.write { writer in
      _ = try writer.store([record()], of: alice, .listing(sweep: 1))
      try writer.endListing(of: alice)
    }
  }

  private static func record(_ name: String = "General", floor: Int64 = 0) -> ChannelRecord {
    var record = ChannelWithMessages.channel(
      url, floor: floor, name: name, unread: 2, last: .message(message(4)), hidden: "hidden_allow_auto_unhide"
    )
    record.metadata = ["colour": "green"]
    record.readReceipts = ["alice": 10, "bob": 20]
    record.members = people(["alice", "bob"])
    return record
  }

  private static func people(_ names: [String]) -> [MemberRecord] {
    names.map {
      MemberRecord(userID: $0, nickname: $0, state: .joined, body: Array("\"user_id\":\"\($0)\"".utf8))
    }
  }

  @Sendable private static func messages(_ cache: Cache) throws {
    try channel(cache)
    let mark = cache.cursor.sequence
    try cache.write { writer in
      try writer.store(
        [listing(1...8, askedAt: mark)], in: url, ListingContext(source: .apiResult, generation: 1))
    }
  }

  /// The writes of the sync worker's calls.
  static let fromUpstream: [Writing] = [
    Writing(name: "a user who connects") { try user($0) },
    Writing(name: "a page of channels", prepare: synced) { cache in
      try cache.write { _ = try $0.store([record()], of: alice, .listing(sweep: 1)) }
    },
    Writing(name: "a page of members", prepare: channel) { cache in
      try cache.write { writer in
        guard let listing = try writer.beginMembers(of: url, anew: false) else { return }
        _ = try writer.store(people(["carol"]), of: url, in: listing, next: "t1")
      }
    },
    Writing(name: "a listing of members", prepare: channel) { cache in
      try cache.write { writer in
        guard let listing = try writer.beginMembers(of: url, anew: true) else { return }
        _ = try writer.store(people(["alice", "carol"]), of: url, in: listing, next: nil)
        _ = try writer.endMembers(of: url, listing, gone: [UserID("bob")], counted: 2)
      }
    },
    Writing(name: "members who came and went", prepare: channel) { cache in
      try cache.write { writer in
        try writer.settleMembers(
          of: url, news: 0, came: people(["carol"]), gone: [UserID("bob")], .memberJoined)
      }
    },
    Writing(name: "a page of the channel changelog", prepare: messages) { cache in
      try cache.write { writer in
        _ = try writer.store(
          [record("Renamed", floor: 30)], of: alice,
          .changelog(deleted: [ChannelURL("gone")], next: SyncToken("next")))
      }
    },
    Writing(name: "a listing that adds and casts doubt", prepare: messages) { cache in
      let mark = cache.cursor.sequence
      try cache.write { writer in
        _ = try writer.store(
          [listing(3...12, askedAt: mark)], in: url, ListingContext(source: .messageFill, generation: 2))
      }
    },
    Writing(name: "a listing of a thread", prepare: messages) { cache in
      let mark = cache.cursor.sequence
      var window = MessageWindow(.newest, older: 100, newer: 0)
      window.thread = 3
      let rows = [7, 11, 12].map { (id: Int64) in
        ChannelWithMessages.message(id, at: id * 10, parent: 3, parentAt: 30)
      }
      let listing = MessageListing(window: window, rows: rows, isWhole: true, askedAt: mark)
      try cache.write { writer in
        _ = try writer.store(
          [listing], ofThread: 3, in: url, ListingContext(source: .apiResult, generation: 2))
      }
    },
    Writing(name: "a page of the message changelog", prepare: messages) { cache in
      try cache.write { writer in
        _ = try writer.store(
          UpstreamChanges(
            updated: [message(5, edited: true)], deleted: [8, 2], hasMore: false, next: SyncToken("m"),
            unreadable: 0), in: url, .messageChangelog)
      }
    },
    Writing(name: "a message by itself", prepare: messages) { cache in
      try cache.write { _ = try $0.store(message(20), in: url, .messageReceived) }
    },
    Writing(name: "a deletion", prepare: messages) { cache in
      try cache.write { try $0.delete(message: 8, in: url, .messageDeleted) }
    },
  ]

  /// Writes that remove data.
  static let lettingGo: [Writing] = [
    Writing(name: "doubt", prepare: messages) { cache in try cache.write { try $0.doubt(url) } },
    Writing(name: "a lost membership", prepare: messages) { cache in
      try cache.write { try $0.removeMembership(of: alice, in: url, .memberLeft) }
    },
    Writing(name: "a removed user", prepare: messages) { cache in
      try cache.write { if try $0.reader.userKey(of: alice) != nil { try $0.remove(alice) } }
    },
    Writing(name: "clearing everything", prepare: messages) { cache in
      try cache.write { try $0.clearAll(withUnsent: false) }
    },
  ]
}
