import ChatCache
import ChatModel

extension CacheReader {
  /// The changes of a channel after `sequence` that all its members are told, oldest first.
  package func changes(in channel: ChannelKey, after sequence: Int64, limit: Int) throws -> [LoggedChange] {
    try changes(of: LoggedView("none", of: UserKey(-1), in: channel), after: sequence, limit: limit)
  }
}
