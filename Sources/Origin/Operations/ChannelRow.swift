import SQLite

/// A channel as stored.
struct ChannelRow {
  let id: Int64
  let url: String
  let name: String
  let coverURL: String
  let data: String
  let customType: String
  let createdAt: Int64
  let isDistinct: Bool
  let isPublic: Bool
  let isSuper: Bool
  let isBroadcast: Bool
  let isFrozen: Bool
  let metadata: String
  let metacounter: String

  init(_ row: Row) {
    id = row.int64(0)
    url = row.string(1)
    name = row.string(2)
    coverURL = row.string(3)
    data = row.string(4)
    customType = row.string(5)
    createdAt = row.int64(6)
    isDistinct = row.bool(7)
    isPublic = row.bool(8)
    isSuper = row.bool(9)
    isBroadcast = row.bool(10)
    isFrozen = row.bool(11)
    metadata = row.string(12)
    metacounter = row.string(13)
  }

  static let columns = """
    c.id, c.url, c.name, c.cover_url, c.data, c.custom_type, c.created_at, c.distinct_key IS NOT NULL,
    c.is_public, c.is_super, c.is_broadcast, c.is_frozen, c.metadata, c.metacounter
    """

  static func find(_ url: String, _ db: ReadAccess) throws -> ChannelRow? {
    try db.first(
      """
      SELECT
        id, url, name, cover_url, data, custom_type, created_at, distinct_key IS NOT NULL, is_public,
        is_super, is_broadcast, is_frozen, metadata, metacounter
      FROM channel
      WHERE url = ?1
      """, { $0.bind(1, url) }, ChannelRow.init)
  }

  /// The channel of the path; unknown ones are refused.
  static func named(_ asked: some Asked) throws -> ChannelRow {
    guard let channel = try find(asked.arguments.path("channel_url"), asked.reading) else {
      throw Refusal.unknown("Channel")
    }
    return channel
  }
}
