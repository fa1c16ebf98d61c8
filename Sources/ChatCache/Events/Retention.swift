import ChatModel

/// How much of the past is kept (B53).
package struct Retention: Sendable, Equatable {
  /// The number of events in the log. Older ones are deleted, however young they are.
  package var events = Limits.logEvents
  /// How long an event stays in the log, ms.
  package var eventMilliseconds = Limits.logMilliseconds
  /// How long a deleted message is remembered, ms.
  package var tombstoneMilliseconds = Limits.tombstoneMilliseconds

  /// The limits of the rules.
  package init() {}

  /// The number of events above `events` at which the log is trimmed.
  var slack: Int64 { min(Limits.logSlack, max(1, events / 10)) }
}
