import ChatModel
import JSON
import SQLite

extension CacheWriter {
  /// Tells each of these views, with one event, that its first page was fetched or could not be (B16).
  package func answered(
    views: [String], in url: ChannelURL, failure: (reason: String, willRetry: Bool)?
  ) throws {
    let channel = try reader.channelKey(of: url)
    for view in views {
      var change = Change(failure == nil ? .collectionAnswered : .collectionFailed, .apiResult)
      change.channel = channel
      change.user = try reader.user(ofView: view)
      change.collection = view
      if let failure {
        var writer = JSONWriter()
        writer.field("reason", failure.reason)
        writer.field("will_retry", failure.willRetry)
        change.detail = writer.finish().array
      }
      try append(change)
      let owes = failure.map { $0.willRetry ? StoredCollection.Owed.success : .nothing } ?? .nothing
      try db.run("UPDATE collection SET owes = ?2 WHERE id = ?1") {
        $0.bind(1, view)
        $0.bind(2, owes.rawValue)
      }
    }
  }
}

extension CacheReader {
  /// The user who has that view open; nil: it has ended.
  fileprivate func user(ofView view: String) throws -> UserKey? {
    try db.first("SELECT user FROM collection WHERE id = ?1") {
      $0.bind(1, view)
    } _: {
      UserKey($0.int64(0))
    }
  }
}
