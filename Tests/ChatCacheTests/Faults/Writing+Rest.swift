import ChatModel

@testable import ChatCache

// Writes beside messages and sends: users, the link, gaps, views, clearing and healing. A call that writes an
// event each time is made only once, as its callers do.
extension Writing {
  private static let alice = UserID("alice")
  private static let url = ChannelURL("general")

  @Sendable private static func messages(_ cache: Cache) throws {
    guard let listing = fromUpstream.first(where: { $0.name == "a deletion" }) else { return }
    try listing.prepare(cache)
  }

  /// Only the newest messages, so that a gap is below them.
  @Sendable private static func gap(_ cache: Cache) throws {
    try messages(cache)
    try cache.write { writer in
      try writer.clear(url)
      let rows = (6...8).map { ChannelWithMessages.message($0, at: $0 * 10) }
      let newest = MessageListing(
        window: MessageWindow(.newest, older: 3, newer: 0), rows: rows, isWhole: true, askedAt: .max)
      try writer.store([newest], in: url, ListingContext(source: .apiResult, generation: 1))
    }
  }

  private static func name(_ reader: CacheReader) throws -> Int64 {
    try reader.line(of: url)?.gaps.keys.max() ?? 0
  }

  @Sendable private static func filling(_ cache: Cache) throws {
    try gap(cache)
    try cache.write { _ = try $0.beginFill(name($0.reader), in: url) }
  }

  /// Frees more pages than one slice gives back.
  @Sendable private static func freePages(_ cache: Cache) throws {
    try messages(cache)
    try cache.write {
      try $0.db.execute("CREATE TABLE filler (content BLOB); INSERT INTO filler VALUES (zeroblob(600000));")
    }
    try cache.write { try $0.db.execute("DROP TABLE filler") }
  }

  private static func wasTold(_ kind: ChangeKind, _ reader: CacheReader) throws -> Bool {
    try reader.db.first("SELECT 1 FROM event WHERE kind = ?1") {
      $0.bind(1, kind.rawValue)
    } _: { _ in
      true
    } ?? false
  }

  /// Users and the link.
  static let connections: [Writing] = [
    Writing(name: "a user who stops", prepare: messages) { cache in try cache.write { try $0.stop(alice) } },
    Writing(name: "a user who is closed", prepare: messages) { cache in
      try cache.write { try $0.close(alice) }
    },
    Writing(name: "what the upstream offers") { cache in
      try cache.write { try $0.learn(.messageChangelog, isOffered: true) }
    },
    Writing(name: "the link's state") { cache in
      try cache.write { if try !wasTold(.connection, $0.reader) { try $0.announce(link: "offline") } }
    },
  ]

  /// Gaps, clearing, healing, evicting.
  static let gaps: [Writing] = [
    Writing(name: "an eviction", prepare: messages) { cache in
      let channel = try cache.read { try $0.channelKey(of: url) }
      try cache.write { writer in
        guard let channel else { return }
        _ = try writer.evict(EvictionSlice(channel: channel, accessedAt: 0, rows: 500))
        try writer.endEvicting()
      }
    },
    Writing(name: "pages that are given back", prepare: freePages) { cache in
      _ = try cache.write { try $0.giveBack(pages: 10) }
    },
    Writing(name: "the begin of a fill", prepare: gap) { cache in
      try cache.write { _ = try $0.beginFill(name($0.reader), in: url) }
    },
    Writing(name: "the end of a fill", prepare: filling) { cache in
      try cache.write { try $0.endFill(name($0.reader), in: url) }
    },
    Writing(name: "clearing a channel", prepare: messages) { cache in
      try cache.write { if try $0.reader.storedMessages() > 0 { try $0.clear(url) } }
    },
    Writing(
      name: "healing a channel",
      prepare: { cache in
        try messages(cache)
        try cache.write { try $0.db.execute("UPDATE segment SET hi_at = hi_at + 5 WHERE kind = 0") }
      }, write: { cache in try cache.write { _ = try $0.heal(ChannelKey(1)) } }),
  ]

  private static func view(_ id: String, _ reader: CacheReader) throws -> StoredCollection? {
    guard let user = try reader.userKey(of: alice), let channel = try reader.channelKey(of: url) else {
      return nil
    }
    return StoredCollection(
      id: id, user: user, userID: alice, kind: .messages, channel: (channel, url), query: Array("{}".utf8),
      loaded: Array("{}".utf8), accessedAt: 0)
  }

  @Sendable private static func open(_ cache: Cache) throws {
    try messages(cache)
    try cache.write { writer in if let view = try view("v", writer.reader) { try writer.open(view) } }
  }

  /// Views.
  static let views: [Writing] = [
    Writing(name: "a view that opens", prepare: messages) { cache in
      try cache.accept { writer in
        guard try writer.reader.collections().isEmpty, let view = try view("v", writer.reader) else { return }
        try writer.open(view)
      }
    },
    Writing(name: "a view that moves", prepare: open) { cache in
      try cache.accept { try $0.setLoaded(Array(#"{"has_next":false}"#.utf8), of: "v") }
    },
    Writing(name: "when views were asked for", prepare: open) { cache in
      try cache.write { try $0.setAccessed(["v": 7]) }
    },
    Writing(name: "a view that is disposed of", prepare: open) { cache in
      try cache.accept { _ = try $0.dispose(collection: "v", channel: $0.reader.channelKey(of: url)) }
    },
    Writing(name: "a view's first answer", prepare: open) { cache in
      try cache.write { writer in
        guard try !wasTold(.collectionFailed, writer.reader) else { return }
        try writer.answered(views: ["v"], in: url, failure: (reason: "timeout", willRetry: true))
      }
    },
  ]
}
