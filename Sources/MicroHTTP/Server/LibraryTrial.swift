import CMicroHTTPD
import CMicroHTTPDPatches
import Glibc

/// Finds out how the loaded libmicrohttpd keeps requests and answers. It sends a few requests over pairs of
/// sockets to a daemon of its own, whose answers tell what the guards found.
final class LibraryTrial {
  /// What was found.
  struct Findings: Equatable {
    /// Whether the guard that adds up sizes lets only the good requests through.
    var publicGuardJudges = true
    /// Whether the guard that measures distances does.
    var measuringGuardJudges = true
    /// Whether the library sends a header value that was written over.
    var sendsOverwrittenHeaders = true
    /// Whether the library's own refusals arrive in `CMicroHTTPDPatches`.
    var refusalsArrive = true
  }

  /// A guard's verdict on a request.
  private enum Mark {
    static let good = UInt8(ascii: "+")
    static let bad = UInt8(ascii: "-")
  }

  private static let good = [
    "GET /trial?first=1&second=2 HTTP/1.1\r\nHost: trial\r\nX-One: two words\r\n\r\n",
    "POST /trial HTTP/1.1\r\nHost: trial\r\nContent-Length: 3\r\n\r\nabc",
  ]
  private static let smuggled = [
    "GET /trial HTTP/1.1\r\nHost: trial\r\nX-One: two\nX-Two: three\r\n\r\n",
    "GET /trial HTTP/1.1\r\nHost: trial\n\r\n",
    "GET /trial HTTP/1.1\r\nHost: trial\r\nX-One: two\r\n words\r\nX-Two: three\r\n\r\n",
    "GET /trial HTTP/1.1\r\nHost: trial\r\nX-One: two\0words\r\nX-Two: three\r\n\r\n",
    "GET /trial\0more HTTP/1.1\r\nHost: trial\r\n\r\n",
    "POST /trial HTTP/1.1\r\nHost: trial\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "POST /trial HTTP/1.1\r\nHost: trial\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
  ]

  /// The library refuses this by itself, whatever its version.
  private static let refused = "GET /trial HTTP/1.1\r\nHost: trial\r\nContent-Length: x\r\n\r\n"

  private let measures: Bool
  private let limits = Limits()
  /// The answer to all requests, and the address of the header value for the findings; nil without
  /// `measures`.
  private let stamped: (answer: OpaquePointer, value: UnsafeMutableRawPointer)?
  /// The length of the target that came last; requests come one after the other.
  private var targetLength = 0

  /// Runs the trial. `measures`: also tries what depends on the layout, which is not safe with an unknown
  /// version.
  static func run(measures: Bool) -> Findings {
    let trial = LibraryTrial(measures: measures)
    defer { if let stamped = trial.stamped { MHD_destroy_response(stamped.answer) } }
    guard let daemon = trial.start() else {
      return Findings(
        publicGuardJudges: false, measuringGuardJudges: false, sendsOverwrittenHeaders: false,
        refusalsArrive: false)
    }
    defer { MHD_stop_daemon(daemon) }
    var findings = Findings(measuringGuardJudges: measures, sendsOverwrittenHeaders: measures)
    for (requests, mark) in [(good, Mark.good), (smuggled, Mark.bad)] {
      for request in requests {
        let reply = ask(daemon, request)
        // An answer without findings means that the library itself refused: it counts as refused by both
        // guards.
        let marks = marks(in: reply) ?? [Mark.bad, Mark.bad]
        if marks[0] != mark { findings.publicGuardJudges = false }
        if marks[1] != mark { findings.measuringGuardJudges = false }
        if mark == Mark.good, !holds(reply, after) { findings.sendsOverwrittenHeaders = false }
      }
    }
    let seen = mhd_refusals_seen()
    _ = ask(daemon, refused)
    findings.refusalsArrive = mhd_refusals_seen() > seen
    return findings
  }

  private static let before: StaticString = "\r\nX-Found: "
  private static let after: StaticString = "\r\nX-After: it stays\r\n"

  private init(measures: Bool) {
    self.measures = measures
    guard measures else {
      stamped = nil
      return
    }
    var response = Response.empty(200)
    response.endConnection()
    let offset = response.reserve("X-Found", width: 2)
    response.add("X-After", "it stays")
    let sealed = response.seal()!
    stamped = (sealed.handle, sealed.lines + offset)
  }

  private func start() -> OpaquePointer? {
    let me = Unmanaged.passUnretained(self).toOpaque()
    var options = [
      MHD_OptionItem(option: .CONNECTION_MEMORY_LIMIT, value: limits.connectionMemoryBytes, ptr_value: nil),
      MHD_OptionItem(option: .CONNECTION_TIMEOUT, value: 1, ptr_value: nil),
      MHD_OptionItem(
        option: .URI_LOG_CALLBACK, value: unsafeBitCast(beginTrial, to: Int.self), ptr_value: me),
    ]
    if !measures { options.append(MHD_OptionItem(option: .STRICT_FOR_CLIENT, value: 1, ptr_value: nil)) }
    options.append(MHD_OptionItem(option: .END, value: 0, ptr_value: nil))
    let flags =
      MHD_USE_EPOLL_INTERNAL_THREAD.rawValue | MHD_USE_ITC.rawValue | MHD_USE_NO_LISTEN_SOCKET.rawValue
    return options.withUnsafeBufferPointer { options in
      let list: [CVarArg] = [
        Int32(bitPattern: MHD_OPTION.ARRAY.rawValue), OpaquePointer(options.baseAddress!),
        Int32(bitPattern: MHD_OPTION.END.rawValue),
      ]
      return withVaList(list) { MHD_start_daemon_va(flags, 0, nil, nil, answerTrial, me, $0) }
    }
  }

  // MARK: - The client's side

  /// Sends a request and reads until the daemon closes, or for two seconds.
  private static func ask(_ daemon: OpaquePointer, _ request: String) -> [UInt8] {
    guard let pair = SocketPair.make() else { return [] }
    defer { close(pair.ours) }
    var wait = timeval(tv_sec: 2, tv_usec: 0)
    setsockopt(pair.ours, SOL_SOCKET, SO_RCVTIMEO, &wait, socklen_t(MemoryLayout<timeval>.size))
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let length = socklen_t(MemoryLayout<sa_family_t>.size)
    let taken = withUnsafePointer(to: &address) {
      // The daemon closes the socket also if it does not take it.
      MHD_add_connection(
        daemon, pair.daemons, UnsafeRawPointer($0).assumingMemoryBound(to: sockaddr.self), length)
    }
    guard taken == .YES else { return [] }
    let bytes = Array(request.utf8)
    send(pair.ours, bytes, bytes.count, Int32(MSG_NOSIGNAL))
    var reply: [UInt8] = []
    var room = [UInt8](repeating: 0, count: 4096)
    while case let count = recv(pair.ours, &room, room.count, 0), count > 0 { reply += room[..<count] }
    return reply
  }

  /// What the two guards found: first the one that adds up, then the one that measures.
  private static func marks(in reply: [UInt8]) -> [UInt8]? {
    reply.withUnsafeBytes { reply -> [UInt8]? in
      guard let start = memmem(reply.baseAddress, reply.count, before.utf8Start, before.utf8CodeUnitCount)
      else { return nil }
      let offset = UnsafeRawPointer(start) + before.utf8CodeUnitCount - reply.baseAddress!
      return offset + 2 <= reply.count ? [reply[offset], reply[offset + 1]] : nil
    }
  }

  private static func holds(_ reply: [UInt8], _ text: StaticString) -> Bool {
    reply.withUnsafeBytes {
      memmem($0.baseAddress, $0.count, text.utf8Start, text.utf8CodeUnitCount) != nil
    }
  }

  // MARK: - The daemon's side, on its thread

  fileprivate func begin(_ target: UnsafePointer<CChar>) {
    targetLength = strlen(target)
    if measures { QueryArguments.hide(in: target) }
  }

  fileprivate func answer(_ connection: OpaquePointer, _ line: RequestGuard.Line) -> MHD_Result {
    let marks = [judge(connection, line, measures: false), judge(connection, line, measures: true)]
    let answer: OpaquePointer
    if let stamped {
      marks.withUnsafeBytes { _ = memcpy(stamped.value, $0.baseAddress!, 2) }
      answer = stamped.answer
    } else {
      var response = Response.empty(200)
      response.endConnection()
      response.add("X-Found", String(decoding: marks, as: UTF8.self))
      answer = response.sealLineByLine()!
    }
    defer { if stamped == nil { MHD_destroy_response(answer) } }
    let queued = mhd_queue(UnsafeMutableRawPointer(connection), 200, UnsafeMutableRawPointer(answer))
    return queued == 1 ? .YES : .NO
  }

  private func judge(_ connection: OpaquePointer, _ line: RequestGuard.Line, measures: Bool) -> UInt8 {
    guard !measures || self.measures else { return Mark.bad }
    let arguments = MHD_get_connection_values_n(connection, .GET_ARGUMENT_KIND, nil, nil)
    if measures, arguments > 0 { return Mark.bad }
    do throws(Problem) {
      _ = try RequestGuard.inspect(
        connection, line, targetLength: targetLength, limits: limits, measures: measures)
      return Mark.good
    } catch {
      // The finding is that there is a problem, whichever it is.
      return Mark.bad
    }
  }
}

private let beginTrial:
  @convention(c) (
    UnsafeMutableRawPointer?, UnsafePointer<CChar>?, OpaquePointer?
  ) -> UnsafeMutableRawPointer? = { trial, target, _ in
    guard let trial, let target else { return nil }
    Unmanaged<LibraryTrial>.fromOpaque(trial).takeUnretainedValue().begin(target)
    return nil
  }

private let answerTrial: MHD_AccessHandlerCallback = { trial, connection, url, method, version, _, _, _ in
  guard let trial, let connection, let url, let method, let version else { return .NO }
  let line = RequestGuard.Line(method: method, target: url, version: version)
  return Unmanaged<LibraryTrial>.fromOpaque(trial).takeUnretainedValue().answer(connection, line)
}
