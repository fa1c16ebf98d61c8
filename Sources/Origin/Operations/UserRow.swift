import JSON
import SQLite

/// A user as stored.
struct UserRow {
  let id: String
  let nickname: String
  let profileURL: String
  let metadata: String
  let isActive: Bool
  let createdAt: Int64

  static func find(_ id: String, _ db: ReadAccess) throws -> UserRow? {
    try db.first(
      """
      SELECT user_id, nickname, profile_url, metadata, is_active, created_at
      FROM user
      WHERE user_id = ?1
      """, { $0.bind(1, id) }, UserRow.init)
  }

  init(id: String, nickname: String, profileURL: String, metadata: String, isActive: Bool, createdAt: Int64) {
    self.id = id
    self.nickname = nickname
    self.profileURL = profileURL
    self.metadata = metadata
    self.isActive = isActive
    self.createdAt = createdAt
  }

  init(_ row: Row) {
    self.init(
      id: row.string(0), nickname: row.string(1), profileURL: row.string(2), metadata: row.string(3),
      isActive: row.bool(4), createdAt: row.int64(5))
  }

  /// The user; `more` adds the fields of a membership.
  func write(to json: inout JSONWriter, _ more: (inout JSONWriter) -> Void = { _ in }) {
    json.beginObject()
    json.field("user_id", id)
    json.field("nickname", nickname)
    json.field("profile_url", profileURL)
    json.field("metadata", stored: metadata)
    json.field("is_active", isActive)
    json.field("is_online", false)
    json.field("last_seen_at", 0)
    json.field("created_at", createdAt)
    more(&json)
    json.endObject()
  }
}
