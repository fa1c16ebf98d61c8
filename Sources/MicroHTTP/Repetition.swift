import CMicroHTTPD
import Glibc
import Platform

/// A question that was answered, and its answer, which is given again as long as it holds: who polls with
/// `If-None-Match` asks the same each time.
///
/// The same question is the same bytes: request line and headers, the token among them. They are compared
/// after the library has written zeroes over line ends, colons and what separates the query's parts; so the
/// query is compared beside them as it came, and how many headers the library found.
final class Repetition {
  fileprivate let head: [UInt8]
  private let headers: Int32
  private let targetLength: Int
  private let query: [UInt8]
  private let table: Unmanaged<RouteTable>
  private let shared: SharedResponse
  private let value: String?
  private let holds: () -> Bool
  // How the request was understood.
  private let method: Method
  private let seen: HeaderNotes
  private unowned(unsafe) let endpoint: Endpoint?
  private let user: String?

  fileprivate init(
    _ shared: SharedResponse, _ value: String?, while holds: @escaping () -> Bool, to request: Request,
    on connection: OpaquePointer, head: UnsafeRawBufferPointer
  ) {
    self.head = Array(head)
    headers = Repetition.headers(connection)
    targetLength = request.target.length
    query = Array(request.target.query)
    table = request.server.servedTable
    self.shared = shared
    self.value = value
    self.holds = holds
    method = request.method
    seen = request.seen
    endpoint = request.endpoint
    user = request.user
  }

  fileprivate func isAsked(by request: Request, head: UnsafeRawBufferPointer) -> Bool {
    guard head.count == self.head.count, request.target.length == targetLength,
      let connection = request.connection, Repetition.headers(connection) == headers,
      request.server.servedTable.toOpaque() == table.toOpaque()
    else { return false }
    return self.head.withUnsafeBytes { memcmp($0.baseAddress!, head.baseAddress!, head.count) == 0 }
      && request.target.ends(with: query)
  }

  private static func headers(_ connection: OpaquePointer) -> Int32 {
    MHD_get_connection_values_n(connection, .HEADER_KIND, nil, nil)
  }

  /// Whether a handler would answer so now.
  var isCurrent: Bool { holds() }

  /// Tells the request what the one before was found to be.
  func note(in request: Request) {
    request.method = method
    request.seen = seen
    request.endpoint = endpoint
    request.user = user
  }

  /// The answer.
  var answer: Response {
    Response(status: shared.status, handle: nil, byteCount: shared.byteCount, content: .shared(shared, value))
  }
}

/// What a worker was asked last; only its own thread comes here.
///
/// Each question has two places, by its bytes' hash; a later one takes the first, and what was there the
/// second. What is lost is answered by its handler again.
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

  /// The question that this request asks again; its head begins at `start`. Who does not say what it has is
  /// not looked for: its answer has a body.
  func find(_ request: Request, head start: UnsafePointer<CChar>) -> Repetition? {
    guard let connection = request.connection,
      MHD_lookup_connection_value(connection, .HEADER_KIND, "If-None-Match") != nil,
      let head = RecentQuestions.head(on: connection, at: start)
    else { return nil }
    let place = RecentQuestions.place(of: head)
    if let kept = places[place], kept.isAsked(by: request, head: head) { return kept }
    if let kept = places[place + 1], kept.isAsked(by: request, head: head) { return kept }
    return nil
  }

  /// Remembers an answer that may be given again.
  func keep(_ response: borrowing Response, _ request: Request, head start: UnsafePointer<CChar>) {
    guard case .shared(let shared, let value, let holds?) = response.content, !request.seen.hasBody,
      let connection = request.connection, let head = RecentQuestions.head(on: connection, at: start)
    else { return }
    let made = Repetition(shared, value, while: holds, to: request, on: connection, head: head)
    let place = RecentQuestions.place(of: head)
    if !(places[place]?.isAsked(by: request, head: head) ?? true) { places[place + 1] = places[place] }
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
