import ChatModel
import SQLite

// Tickets for event streams that were first used in time (B51). Only their codes are stored, from which
// nobody can make a ticket.

extension CacheReader {
  /// Whether a ticket with that code was used in time and has not expired at that moment (s).
  package func isTicketKept(_ code: [UInt8], at moment: Int64) throws -> Bool {
    try db.first("SELECT 1 FROM ticket WHERE code = ?1 AND expires_at > ?2") {
      $0.bind(1, copyOf: code)
      $0.bind(2, moment)
    } _: { _ in
      true
    } ?? false
  }
}

extension CacheWriter {
  /// Keeps a ticket of the user until it expires (s). Deletes expired tickets, and the user's least recent
  /// ones beyond `most`. Keeps none for a user who was removed.
  package func keepTicket(_ code: [UInt8], of user: UserID, until end: Int64, most: Int) throws {
    guard let key = try reader.userKey(of: user) else { return }
    try db.run("DELETE FROM ticket WHERE expires_at <= ?1") { $0.bind(1, now / 1000) }
    try db.run("INSERT OR IGNORE INTO ticket (code, user, expires_at, used_at) VALUES (?1, ?2, ?3, ?4)") {
      $0.bind(1, copyOf: code)
      $0.bind(2, key.rawValue)
      $0.bind(3, end)
      $0.bind(4, now)
    }
    try db.run(
      """
      DELETE FROM ticket
      WHERE code IN (
        SELECT code
        FROM ticket INDEXED BY ticket_by_user
        WHERE user = ?1
        ORDER BY used_at DESC
        LIMIT -1 OFFSET ?2
      )
      """
    ) {
      $0.bind(1, key.rawValue)
      $0.bind(2, most)
    }
  }
}
