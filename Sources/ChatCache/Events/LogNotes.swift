import ChatModel
import Platform

/// Values that one poll read from the database, kept for other polls that read the same snapshot. After each
/// commit thousands of polls need the same values.
final class LogNotes {
  /// The first sequence from which the log is complete.
  var oldest: Int64?
  /// The last sequence.
  var last: Int64?
  /// The last sequence of the run that was asked for last; nil: there is no such run.
  var run: (number: Int64, end: Int64?)?
  /// The changes after a sequence, those of all users, if they are few.
  var tail: (after: Int64, changes: [LoggedChange])?
  /// Whether everything is being cleared.
  var isClearing: Bool?
  /// Whether any message is kept from its sender's views.
  var isAnyWithheld: Bool?

  private var channels: [ChannelKey: ChannelNotes] = [:]
  private static let mostChannels = 64
  /// The channel that was asked for last: after a commit it is mostly the same one.
  private var recent: (key: ChannelKey, notes: ChannelNotes)?

  /// The values of a channel; nil: those of too many others are kept already.
  func channel(_ key: ChannelKey) -> ChannelNotes? {
    if let recent, recent.key == key { return recent.notes }
    var found = channels[key]
    if found == nil, channels.count < LogNotes.mostChannels {
      found = ChannelNotes()
      channels[key] = found
    }
    if let found { recent = (key, found) }
    return found
  }
}

/// The values of one channel in `LogNotes`.
final class ChannelNotes {
  /// The channel's url.
  var url: ChannelURL?
  /// The values of its row.
  var values: CommonValues?
  /// Its newest messages, if it is crowded.
  let counted = CountedMessages()
  private var texts: [CommonText] = []

  /// The JSON text of the fields that all members see, without `updated_at`.
  struct CommonText {
    let parts: ChannelParts
    /// Whether the text shows the last message.
    let hasLastMessage: Bool
    let bytes: [UInt8]
    /// The hash of `bytes`.
    let hash: Int

    fileprivate static let mostBytes = 16_384
  }

  /// The text of the common fields, if it is kept.
  func text(_ parts: ChannelParts, hasLastMessage: Bool) -> CommonText? {
    texts.first { $0.parts == parts && $0.hasLastMessage == hasLastMessage }
  }

  /// Keeps a text, unless it is long.
  func keep(_ text: CommonText) {
    if text.bytes.count <= CommonText.mostBytes { texts.append(text) }
  }
}
