import CMicroHTTPD
import Glibc
import Platform

/// One request, from its first line until its answer is sent.
///
/// Views (`UnsafeRawBufferPointer`) are valid as long as the request is being answered.
package final class Request: @unchecked Sendable {  // because one thread at a time works on it
  /// An answer without a handler: a problem, or the allowed methods for `OPTIONS`.
  final class Refusal {
    let problem: Problem?
    let allow: String?

    init(_ problem: Problem) {
      self.problem = problem
      allow = nil
    }

    init(allow: String) {
      problem = nil
      self.allow = allow
    }
  }

  /// An answer that the library does not have yet; in an object, because most requests never have one.
  final class HeldAnswer {
    var response: Response?

    init(_ response: consuming Response) { self.response = consume response }
  }

  /// How far the request is processed.
  enum Phase: Equatable {
    case head, judging, body, running, parked
    /// It was parked and went on: the library gets `answer`, or closes the connection if there is none.
    case goneOn
    case answered
  }

  unowned(unsafe) let lot: ParkingLot  // its server keeps it until the last request was completed
  let client: ClientConnection
  var connection: OpaquePointer?
  // The fields are ordered so that no padding is between them, because ten thousand requests may be parked.
  // Target, method and headers are read at every step, by one thread at a time, so Swift's exclusivity checks
  // would only cost time.
  @exclusivity(unchecked) var target: RequestTarget
  var phase = Phase.head
  /// Whether the answer's body is bytes in memory, so that only building its head can fail.
  var isWhole = false
  /// The method.
  @exclusivity(unchecked) package internal(set) var method = Method.get
  @exclusivity(unchecked) var seen = HeaderNotes()
  var status: UInt16 = 0
  unowned(unsafe) var endpoint: Endpoint?  // the server keeps every table of routes there was
  /// The answer to send instead of running the handler; in an object, because it is rare and large.
  var refusal: Refusal?
  /// The remembered answer that this request gets again; nil: the handler answers.
  var repeated: RepeatableAnswer?
  var intake: PendingBody?
  /// The caller's name in the access log; set by the code that authenticates.
  package var user: String?
  var waiter: Waiter?
  var resume: Resumption?
  /// The answer that `Server.goOnBeforehand` made, until libmicrohttpd asks for it.
  var answer: HeldAnswer?
  let startedAt: UInt64
  let number: UInt64

  init(
    _ lot: ParkingLot, _ client: ClientConnection, connection: OpaquePointer, target: UnsafePointer<CChar>,
    at now: UInt64
  ) {
    self.lot = lot
    self.client = client
    self.connection = connection
    self.target = RequestTarget(copying: target)
    startedAt = now
    number = RequestID.next()
  }

  deinit { target.free() }

  // MARK: - Target

  /// The decoded path parameter at `index`, counted along the template.
  package func parameter(_ index: Int) -> String { String(decoding: target.parameter(index), as: UTF8.self) }

  /// The decoded path parameter that the template calls `name`.
  package func parameter(_ name: String) -> String? {
    endpoint?.parameterNames.firstIndex(of: name).map { parameter($0) }
  }

  /// The query's items in order, repeats included.
  package var query: QueryItems { QueryItems(target.query) }

  /// The path, decoded segment by segment; a decoded slash cannot be told from a real one here.
  package var path: String { String(decoding: target.path, as: UTF8.self) }

  /// The query as it came, without its question mark.
  package var encodedQuery: UnsafeRawBufferPointer { target.query }

  // MARK: - Headers

  /// The value of the first header called `name`, ignoring case.
  package func header(_ name: StaticString) -> UnsafeRawBufferPointer? {
    guard seen.names.mayHold(name.bytes), let connection else { return nil }
    var value: UnsafePointer<CChar>?
    var count = 0
    let found = MHD_lookup_connection_value_n(
      connection, .HEADER_KIND, name.cString, name.utf8CodeUnitCount, &value, &count)
    guard found == .YES, let value else { return nil }
    return UnsafeRawBufferPointer(start: value, count: count)
  }

  /// The value of the first header called `name` as text.
  package func headerText(_ name: StaticString) -> String? {
    header(name).map { String(decoding: $0, as: UTF8.self) }
  }

  /// The request's id: the client's, if it is well formed, or a new one.
  package var requestID: String { withRequestID { String(cString: $0) } }

  /// Lends the request's id as a C string.
  func withRequestID<Result>(_ body: (UnsafePointer<CChar>) -> Result) -> Result {
    if let given = header("X-Request-Id"), RequestID.isWellFormed(given) {
      return body(given.baseAddress!.assumingMemoryBound(to: CChar.self))
    }
    return withUnsafeTemporaryAllocation(of: CChar.self, capacity: RequestID.length + 1) { room in
      RequestID.write(number, to: room.baseAddress!)
      room[RequestID.length] = 0
      return body(UnsafePointer(room.baseAddress!))
    }
  }

  // MARK: - Body

  /// The collected body; empty when there is none.
  package var body: UnsafeRawBufferPointer {
    guard case .collected(let collected) = intake?.intake else {
      return UnsafeRawBufferPointer(start: nil, count: 0)
    }
    return collected.bytes
  }

  /// The parts of a multipart body in their order; nil when it was no multipart body.
  package var parts: [MultipartPart]? {
    guard case .multipart(let form) = intake?.intake else { return nil }
    return form.parts
  }

  // MARK: - Beyond the request

  /// An object that handlers keep with the connection, for its later requests.
  package var attachment: AnyObject? {
    get { client.attachment }
    set { client.attachment = newValue }
  }

  /// The object that wakes this request, made on first use. Hand it out before checking for the awaited
  /// change.
  package func makeWaiter() -> Waiter {
    if let waiter { return waiter }
    let made = Waiter(lot: lot)
    waiter = made
    return made
  }

  /// Shuts the connection down in both directions: no answer reaches the client.
  package func cut() { shutdown(client.socket, Int32(SHUT_RDWR)) }

  /// Whether the server is stopping.
  package var isServerStopping: Bool { lot.isEnding }
}
