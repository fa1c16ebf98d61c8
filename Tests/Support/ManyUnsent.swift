import ChatModel

@testable import ChatCache

extension CacheWriter {
  /// Adds `count` copies of an outbox row. They differ in their request ids (`NAME-1` …) and, if the row has
  /// one, in their aspects.
  package func multiply(unsent name: String, by count: Int) throws {
    try db.run(
      """
      WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < ?2)
      INSERT INTO request (user, request_id, channel_url, content_hash, is_message)
      SELECT r.user, r.request_id || '-' || n, r.channel_url, r.content_hash, r.is_message
      FROM request AS r, number
      WHERE r.request_id = ?1
      """
    ) {
      $0.bind(1, name)
      $0.bind(2, count)
    }
    try db.run(
      """
      WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < ?2)
      INSERT INTO outbox (
        user, channel_url, request_id, kind, state, place, target_id, target_kind, aspect, upload, params,
        body, accepted_at, expires_at, next_try_at
      )
      SELECT
        o.user, o.channel_url, o.request_id || '-' || n, o.kind, o.state, o.place + n, o.target_id,
        o.target_kind, CASE WHEN o.aspect = '' THEN '' ELSE o.aspect || '-' || n END, o.upload, o.params,
        o.body, o.accepted_at, o.expires_at, o.next_try_at
      FROM outbox AS o, number
      WHERE o.request_id = ?1
      """
    ) {
      $0.bind(1, name)
      $0.bind(2, count)
    }
    try db.run(
      """
      UPDATE request
      SET row = (SELECT o.id FROM outbox AS o WHERE o.request_id = request.request_id)
      WHERE ended_at IS NULL
      """)
  }
}
