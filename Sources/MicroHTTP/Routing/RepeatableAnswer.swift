import CMicroHTTPD
import Glibc
import Platform

/// A request that was answered, and its answer, which is given again as long as it holds. Clients that poll
/// with `If-None-Match` send the same request each time.
///
/// Two requests are the same if their bytes are: request line and headers, including the token. By then the
/// library has written zeroes over line ends, colons and the query's separators. So the query as it came and
/// the number of headers are compared, too.
final class RepeatableAnswer {
  private let head: [UInt8]
  private let headers: Int32
  private let targetLength: Int
  private let query: [UInt8]
  /// The table of routes that was served; it is only compared.
  private let table: UnsafeRawPointer
  private let shared: SharedResponse
  private let value: String?
  private let holds: () -> Bool
  // How the request was understood.
  private let method: Method
  private let seen: HeaderNotes
  private unowned(unsafe) let endpoint: Endpoint?
  private let user: String?

  init(
    _ shared: SharedResponse, _ value: String?, while holds: @escaping () -> Bool, to request: Request,
    of table: UnsafeRawPointer, on connection: OpaquePointer, head: UnsafeRawBufferPointer
  ) {
    self.head = Array(head)
    headers = RepeatableAnswer.headers(connection)
    targetLength = request.target.length
    query = Array(request.target.query)
    self.table = table
    self.shared = shared
    self.value = value
    self.holds = holds
    method = request.method
    seen = request.seen
    endpoint = request.endpoint
    user = request.user
  }

  func isAsked(by request: Request, of table: UnsafeRawPointer, head: UnsafeRawBufferPointer) -> Bool {
    guard head.count == self.head.count, request.target.length == targetLength,
      let connection = request.connection, RepeatableAnswer.headers(connection) == headers,
      table == self.table
    else { return false }
    return self.head.withUnsafeBytes { memcmp($0.baseAddress!, head.baseAddress!, head.count) == 0 }
      && request.target.ends(with: query)
  }

  private static func headers(_ connection: OpaquePointer) -> Int32 {
    MHD_get_connection_values_n(connection, .HEADER_KIND, nil, nil)
  }

  /// Whether a handler would give this answer now.
  var isCurrent: Bool { holds() }

  /// Copies to the request how the earlier request was understood.
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
