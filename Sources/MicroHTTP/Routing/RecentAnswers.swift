import CMicroHTTPD

/// The answers that a worker gave last and may give again. Only the worker's own thread uses them.
///
/// The hash of a request's head names two slots. A later answer takes the first slot, and the answer that was
/// there moves to the second. A request whose answer was dropped goes to its handler again.
final class RecentAnswers: @unchecked Sendable {  // because one thread uses it
  private static let count = 2048
  /// Answers to longer heads are not kept.
  private static let mostBytes = 2048
  private let slots: UnsafeMutablePointer<RepeatableAnswer?>

  init() {
    slots = .allocate(capacity: RecentAnswers.count)
    slots.initialize(repeating: nil, count: RecentAnswers.count)
  }

  deinit {
    slots.deinitialize(count: RecentAnswers.count)
    slots.deallocate()
  }

  /// The answer that this request gets again; its head begins at `start`. Requests without `If-None-Match`
  /// are not looked up: they always get a body.
  func find(_ request: Request, of table: UnsafeRawPointer, head start: UnsafePointer<CChar>)
    -> RepeatableAnswer?
  {
    guard let connection = request.connection,
      MHD_lookup_connection_value(connection, .HEADER_KIND, "If-None-Match") != nil,
      let head = RecentAnswers.head(on: connection, at: start)
    else { return nil }
    let slot = RecentAnswers.slot(of: head)
    if let kept = slots[slot], kept.isAsked(by: request, of: table, head: head) { return kept }
    if let kept = slots[slot + 1], kept.isAsked(by: request, of: table, head: head) { return kept }
    return nil
  }

  /// Remembers an answer that may be given again.
  func keep(
    _ response: borrowing Response, _ request: Request, of table: UnsafeRawPointer,
    head start: UnsafePointer<CChar>
  ) {
    guard case .shared(let shared, let value, let holds?) = response.content, !request.seen.hasBody,
      let connection = request.connection, let head = RecentAnswers.head(on: connection, at: start)
    else { return }
    let made = RepeatableAnswer(
      shared, value, while: holds, to: request, of: table, on: connection, head: head)
    let slot = RecentAnswers.slot(of: head)
    let isAskedAgain = slots[slot]?.isAsked(by: request, of: table, head: head) ?? true
    if !isAskedAgain { slots[slot + 1] = slots[slot] }
    slots[slot] = made
  }

  private static func head(
    on connection: OpaquePointer, at start: UnsafePointer<CChar>
  ) -> UnsafeRawBufferPointer? {
    let count = mhd_head_size(connection)
    return count <= mostBytes ? UnsafeRawBufferPointer(start: start, count: count) : nil
  }

  /// The first of the two slots for a head.
  private static func slot(of head: UnsafeRawBufferPointer) -> Int {
    var hash = UInt64(head.count)
    var at = 0
    while at + 8 <= head.count {
      hash = (hash ^ head.loadUnaligned(fromByteOffset: at, as: UInt64.self)) &* 0x9E37_79B9_7F4A_7C15
      hash ^= hash >> 32
      at += 8
    }
    return Int(truncatingIfNeeded: hash >> 16) & (count - 2)
  }
}
