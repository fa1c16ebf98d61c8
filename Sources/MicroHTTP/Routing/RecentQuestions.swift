import CMicroHTTPD

/// The requests that a worker answered last, with their answers. Only the worker's own thread uses it.
///
/// A request's hash chooses two slots. A new request takes the first slot and moves the one that was there to
/// the second. A request that lost its slot is answered by its handler again.
final class RecentQuestions: @unchecked Sendable {  // because one thread uses it
  private static let count = 2048
  /// Longer heads are not remembered.
  private static let mostBytes = 2048
  private let places: UnsafeMutablePointer<Repetition?>

  init() {
    places = .allocate(capacity: RecentQuestions.count)
    places.initialize(repeating: nil, count: RecentQuestions.count)
  }

  deinit {
    places.deinitialize(count: RecentQuestions.count)
    places.deallocate()
  }

  /// The earlier request with the same bytes; the head of this one begins at `start`. Requests without
  /// `If-None-Match` are not looked up: they always get a body.
  func find(_ request: Request, of table: UnsafeRawPointer, head start: UnsafePointer<CChar>) -> Repetition? {
    guard let connection = request.connection,
      MHD_lookup_connection_value(connection, .HEADER_KIND, "If-None-Match") != nil,
      let head = RecentQuestions.head(on: connection, at: start)
    else { return nil }
    let place = RecentQuestions.place(of: head)
    if let kept = places[place], kept.isAsked(by: request, of: table, head: head) { return kept }
    if let kept = places[place + 1], kept.isAsked(by: request, of: table, head: head) { return kept }
    return nil
  }

  /// Remembers an answer that may be given again.
  func keep(
    _ response: borrowing Response, _ request: Request, of table: UnsafeRawPointer,
    head start: UnsafePointer<CChar>
  ) {
    guard case .shared(let shared, let value, let holds?) = response.content, !request.seen.hasBody,
      let connection = request.connection, let head = RecentQuestions.head(on: connection, at: start)
    else { return }
    let made = Repetition(shared, value, while: holds, to: request, of: table, on: connection, head: head)
    let place = RecentQuestions.place(of: head)
    let isAskedAgain = places[place]?.isAsked(by: request, of: table, head: head) ?? true
    if !isAskedAgain { places[place + 1] = places[place] }
    places[place] = made
  }

  private static func head(
    on connection: OpaquePointer, at start: UnsafePointer<CChar>
  ) -> UnsafeRawBufferPointer? {
    let count = mhd_head_size(connection)
    return count <= mostBytes ? UnsafeRawBufferPointer(start: start, count: count) : nil
  }

  /// The first of the two places.
  private static func place(of head: UnsafeRawBufferPointer) -> Int {
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
