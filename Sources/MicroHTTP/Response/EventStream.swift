import Platform

/// Server-sent events on one connection: a position and a waiter, not a buffer.
///
/// Whenever the client has taken what it was sent, `produce` is asked for the next piece. It appends events,
/// if there are any, and returns `.more`, or `.wait` to be parked until the waiter is woken, or `.end`. A
/// stream keeps one piece until its client has taken it, and nothing while it waits; the pieces of all
/// streams have a bound (`StreamMemory`). A comment goes out when nothing else did for some time, so that
/// proxies and clients know that the stream lives. A client that does not take a piece in time is cut off; it
/// comes back with the cursor it has.
package struct EventStream {
  /// What `produce` made.
  package enum Step: Sendable {
    /// There may be more now: call again.
    case more
    /// There is nothing until the waiter is woken.
    case wait
    /// The stream is over once this is sent.
    case end
  }

  let waiter: Waiter
  let produce: (inout ByteBuffer) throws -> Step
  let ended: () -> Void

  /// A stream woken by `waiter`. `produce` runs on the connection's worker thread, `ended` once when the
  /// connection or the stream is over.
  package init(
    _ waiter: Waiter, produce: @escaping (inout ByteBuffer) throws -> Step, ended: @escaping () -> Void = {}
  ) {
    self.waiter = waiter
    self.produce = produce
    self.ended = ended
  }
}
