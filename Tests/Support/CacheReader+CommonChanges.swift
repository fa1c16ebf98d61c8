import ChatCache
import ChatModel

extension CacheReader {
  /// The changes of a channel after `sequence` that all its members are told, oldest first. Those for one
  /// user or one view are left out.
  package func commonChanges(
    in channel: ChannelKey, after sequence: Int64, limit: Int
  ) throws -> [LoggedChange] {
    try changes(in: LogScope(view: "none", of: UserKey(-1), in: channel), after: sequence, limit: limit)
  }
}
