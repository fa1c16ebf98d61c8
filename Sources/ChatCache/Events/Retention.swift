import ChatModel

/// How much of the past is kept (B53).
package struct Retention: Sendable, Equatable {
  /// Events in the log. Whatever is older goes, however young it is.
  package var events = Limits.logEvents
  /// How long an event stays in the log, ms.
  package var eventMilliseconds = Limits.logMilliseconds
  /// How long a deleted message is remembered, ms.
  package var tombstoneMilliseconds = Limits.tombstoneMilliseconds

  /// The limits of the rules.
  package init() {}

  /// By how many events the log may be too long before it is trimmed.
  var slack: Int64 { min(Limits.logSlack, max(1, events / 10)) }
}
