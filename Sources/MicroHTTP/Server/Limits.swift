/// Every limit of the HTTP layer, with its unit in its name.
package struct Limits: Sendable {
  /// Bytes of libmicrohttpd's pool per connection: request head, header index and response head share it. All
  /// of it is resident in every parked request, so it is what the head's limit needs and no more.
  package var connectionMemoryBytes = 7552
  /// Bytes of all request header lines together, with their line ends; more is a 431.
  package var headerBytes = 6144
  /// Bytes of libmicrohttpd's pool that a request's head must leave free for the head of its answer; less is
  /// a 431.
  package var answerHeadBytes = 768
  /// Bytes that all request bodies together may hold in memory while no handler has looked at their requests
  /// yet; further bytes wait in the sockets.
  package var unadmittedBodyBytes = 16_777_216
  /// Seconds that a body waits for its share of `unadmittedBodyBytes`; then the answer is a 503.
  package var bodyRoomSeconds = 5
  /// Bytes that are read and thrown away before a refused connection is closed, so that the refusal is not
  /// lost in a reset.
  package var drainBytes = 262_144
  /// Bytes of a request body on a route that takes none; they are read and thrown away, more is a 413.
  package var ignoredBodyBytes = 65_536
  /// Bytes beyond a route's limit that are still read, so that the 413 reaches a client that streams its
  /// body.
  package var overrunBytes = 1_048_576
  /// Parts of one multipart body.
  package var multipartParts = 16
  /// Bytes of the headers of one part of a multipart body.
  package var multipartHeaderBytes = 4096
  /// Bytes of a multipart part that is a plain field, kept in memory.
  package var multipartFieldBytes = 262_144
  /// The most connections at once; further ones wait in the backlog.
  package var connections = 24_000
  /// Connections that the kernel holds until they are accepted.
  package var backlog = 4096
  /// Seconds from the accepted connection, or the end of its idle time, to the end of a request's head.
  package var headSeconds = 10
  /// Seconds from the end of the head to the end of the body.
  package var bodySeconds = 30
  /// Bytes of an upload that have to come in each `uploadPaceSeconds`.
  package var uploadPaceBytes = 8192
  /// Seconds in which `uploadPaceBytes` of an upload have to come.
  package var uploadPaceSeconds = 10
  /// Seconds from the first line of an upload to the end of its body.
  package var uploadSeconds = 3600
  /// Seconds without a byte in either direction until a connection is closed.
  package var idleSeconds = 60
  /// Seconds in which an answer must have been taken by the client.
  package var sendSeconds = 300
  /// Seconds between two comments that keep an event stream alive.
  package var heartbeatSeconds = 15
  /// Seconds in which the client of an event stream must take the bytes it was sent.
  package var streamStallSeconds = 30
  /// Bytes of one piece of an event stream. A stream keeps no more until its client has taken them, unless
  /// one event alone is larger, and nothing while it waits.
  package var streamPieceBytes = 65_536
  /// Bytes that the pieces of all event streams take together. A stream whose next piece does not fit waits
  /// for its turn.
  package var streamMemoryBytes = 33_554_432
  /// Seconds that an event stream waits for its turn before it is closed. Its client connects again.
  package var streamTurnSeconds = 60

  /// The limits of the contract.
  package init() {}
}
