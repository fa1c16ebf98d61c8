/// Every limit of the chat, with its unit. MicroHTTP has the limits of HTTP.
package enum Limits {
  /// Times that Perch accepts from the upstream, in milliseconds since 1970: up to the year 2286.
  package static let moments: ClosedRange<Int64> = 0...9_999_999_999_999
  /// Numbers that count messages, mentions, replies or members.
  package static let counts: ClosedRange<Int64> = 0...1_000_000_000
  /// Ids of confirmed messages: 18 digits at most. The smallest and the largest `Int64` mark the ends of a
  /// millisecond.
  package static let messageIDs: ClosedRange<Int64> = 1...999_999_999_999_999_999
  /// Sizes of files, in bytes, that the upstream or a client may state.
  package static let fileBytes: ClosedRange<Int64> = 0...(1 << 50)
  /// Bytes of a request id.
  package static let requestIDBytes = 80
  /// Unicode code points of a channel url, which bound its bytes.
  package static let channelURLCharacters = 100
  /// Rows of one message page.
  package static let messagePageRows = 200
  /// Rows of a message page when the client names none.
  package static let messagePageDefaultRows = 30
  /// Rows of one channel page.
  package static let channelPageRows = 100
  /// Rows of a channel page when the client names none.
  package static let channelPageDefaultRows = 20
  /// Rows looked at for one request: a filtered page may end before it is full (B15).
  package static let rowsLookedAt = 5000
  /// Upstream pages asked for one request (B15).
  package static let upstreamPagesPerRequest = 3
  /// Values in one list of a query string (B6).
  package static let listValues = 20
  /// The most messages missing at the newest end that are fetched without a client's request (B28).
  package static let missingMessagesFilled = 300
  /// The most changes of one message changelog that do not put the covered messages in doubt (B31).
  package static let changelogChanges = 250
  /// The most messages of one channel that are asked for by id because webhooks named them (B34).
  package static let namedMessages = 100
  /// The most new messages of a channel that nobody has open that are asked for by id for that reason.
  package static let namedWhileClosed = 3
  /// Rows of a message collection's window (B22).
  package static let windowRows = 2000
  /// Rows that a cut leaves in a window that grew too large: so few that the next message does not cut again.
  package static let windowRowsLeft = 1900
  /// Entries of one events answer (B49).
  package static let eventEntries = 500
  /// Bytes of one events answer (B49).
  package static let eventBytes = 256 * 1024
  /// The most messages of one change in the log, because an answer can end only between two changes (B49).
  package static let changeMessages = 100
  /// The most bytes of the messages of one change in the log, unless one message alone is larger.
  package static let changeBytes = 32 * 1024
  /// Bytes that one more change of messages may need as JSON: an events answer with less room left ends.
  package static let changeRoom = 64 * 1024
  /// Events kept in the log (B53).
  package static let logEvents: Int64 = 200_000
  /// Milliseconds an event is kept (B53).
  package static let logMilliseconds: Int64 = 7 * 86_400_000
  /// Milliseconds until a call that the upstream did not offer is tried again (B32).
  package static let capabilityMilliseconds: Int64 = 86_400_000
  /// Milliseconds a tombstone is kept: longer than any answer is under way (B21).
  package static let tombstoneMilliseconds: Int64 = 30 * 86_400_000
  /// Rows that one slice of trimming removes: the writer is free again within a few ms (B53).
  package static let trimmedRows = 200
  /// Rows of a table that one commit clears. If there are more, they are deleted later, slice by slice (B58).
  package static let clearedAtOnce = 1000
  /// Members of a crowded channel whose rows count cleared messages at once. Then a slice looks at the time.
  package static let countedMembers = 4
  /// Nanoseconds after which a slice of such a deletion ends.
  package static let sliceNanoseconds: UInt64 = 1_000_000
  /// Events by which the log may exceed its limit before it is trimmed (B53).
  package static let logSlack: Int64 = 1000
  /// Unsent messages and changes of one user.
  package static let unsentRows = 10_000
  /// Unsent messages that a view lists, the newest of them; counts stay exact.
  package static let unsentListed = 200
  /// Milliseconds by which the upstream's clock may be ahead of this machine's.
  package static let clockSlackMilliseconds: Int64 = 3_600_000
  /// Milliseconds for which a message that may be the answer to a send in flight is withheld (B38).
  package static let withheldMilliseconds: Int64 = 10_000
  /// Milliseconds a pending message waits before it fails (B41).
  package static let pendingMilliseconds: Int64 = 3 * 86_400_000
  /// Milliseconds after its expiry in which an uncertain send is still looked for if no look can be finished.
  package static let lookBeyondMilliseconds: Int64 = 3_600_000
  /// Milliseconds the data of a user is kept after the upstream said that the user is gone (B5).
  package static let closedMilliseconds: Int64 = 30 * 86_400_000
  /// Milliseconds a request id is remembered after the request ended (B37).
  package static let requestMemoryMilliseconds: Int64 = 7 * 86_400_000
}

extension ClosedRange<Int64> {
  /// The number of the range that is nearest to `number`.
  package func nearest(to number: Int64) -> Int64 { Swift.min(Swift.max(number, lowerBound), upperBound) }
}
