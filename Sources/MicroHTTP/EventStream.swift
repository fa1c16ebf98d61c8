import CMicroHTTPD
import Glibc
import Platform

/// Server-sent events on one connection: a position and a waiter, not a buffer.
///
/// Whenever the client has taken what it was sent, `produce` is asked for the next piece. It appends events
/// and returns `.more`, or appends nothing and returns `.wait` to be parked until the waiter is woken, or
/// `.end`. A stream keeps one piece until its client has taken it, and nothing while it waits; the pieces of
/// all streams have a bound (`StreamMemory`). A comment goes out when nothing else did for some time, so that
/// proxies and clients know that the stream lives. A client that does not take a piece in time is cut off; it
/// comes back with the cursor it has.
package struct EventStream {
  /// What `produce` made.
  package enum Step: Sendable {
    /// There may be more at once.
    case more
    /// Nothing until the waiter is woken.
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

  /// What libmicrohttpd pulls from, block by block.
  final class Reader {
    private enum Filled { case piece, nothing, ended }

    private let stream: EventStream
    private var piece = ByteBuffer(capacity: Reader.firstBytes)
    private var taken = 0
    private var isEnding = false
    /// Bytes counted for the piece.
    private var held = 0
    private var turn: StreamMemory.Turn?
    private var memory: StreamMemory?
    /// Set when the response is queued; used on the connection's worker thread alone.
    weak var request: Request?
    /// Bytes handed over so far, for the access log.
    private(set) var sent = 0

    init(_ stream: EventStream) {
      self.stream = stream
      piece.append(":\n\n")
    }

    deinit {
      memory?.end(turn, held: held)
      stream.ended()
    }

    /// Fills the next block. 0 only after the connection was suspended.
    func read(into block: UnsafeMutablePointer<CChar>, room: Int) -> Int {
      guard let request, let connection = request.connection else { return Reader.endOfStream }
      let server = request.server
      while taken == piece.count {
        if isEnding { return Reader.endOfStream }
        letGo(server)
        switch fill(server) {
        case .ended: return Reader.endOfStream
        case .piece:
          let stall = server.configuration.limits.streamStallSeconds
          server.lot.setDeadline(request.client, server.lot.tick(at: server.lot.now(), plusSeconds: stall))
        case .nothing:
          if isEnding { continue }
          let beat = server.configuration.limits.heartbeatSeconds * 1000
          switch server.lot.park(stream.waiter, connection, request.client, milliseconds: beat) {
          case nil: return 0
          case .shutdown, .hungUp: return Reader.endOfStream
          case .woken, .deadline: continue
          }
        }
      }
      let count = min(room, piece.count - taken)
      memcpy(block, piece.base + taken, count)
      taken += count
      sent += count
      request.sentBytes = sent
      return count
    }

    /// The client has taken the piece: its memory is for others.
    private func letGo(_ server: Server) {
      if piece.allocated > Reader.restBytes { piece = ByteBuffer(capacity: Reader.firstBytes) }
      piece.truncate(to: 0)
      taken = 0
      guard held > 0 else { return }
      server.streamMemory.give(held)
      held = 0
    }

    /// Asks for the next piece, or notes why there is none.
    private func fill(_ server: Server) -> Filled {
      switch stream.waiter.takeReason() {
      case .shutdown, .hungUp: return .ended
      case .deadline: piece.append(":\n\n")
      case .woken, nil: break
      }
      if server.isStopping { return .ended }
      stream.waiter.clear()
      memory = server.streamMemory
      guard server.streamMemory.take(&turn, stream.waiter, now: server.lot.now()) else {
        if turn?.isOver(at: server.lot.now()) ?? false { return .ended }
        return piece.count > 0 ? .piece : .nothing
      }
      let limit = server.configuration.limits.streamPieceBytes
      held = limit
      defer {
        let allocated = piece.count > 0 ? piece.allocated : 0
        server.streamMemory.change(from: held, to: allocated)
        held = allocated
      }
      return produce()
    }

    private func produce() -> Filled {
      let before = piece.count
      do {
        while true {
          switch try stream.produce(&piece) {
          case .more:
            if piece.count > before { return .piece }
          case .wait: return piece.count > 0 ? .piece : .nothing
          case .end:
            isEnding = true
            return piece.count > 0 ? .piece : .nothing
          }
        }
      } catch {
        Log.line(.error, "stream_failed", ["error": .text("\(error)")])
        return .ended
      }
    }

    private static let endOfStream = -1
    /// Bytes that a stream keeps while it waits.
    private static let restBytes = 1024
    /// Bytes of a new piece; it doubles up to what a piece may have.
    private static let firstBytes = 64
  }
}

extension Response {
  /// A stream of server-sent events.
  package static func events(_ stream: EventStream, blockBytes: Int = 1024) -> Response {
    let reader = EventStream.Reader(stream)
    let handle = MHD_create_response_from_callback(
      UInt64.max, blockBytes, readStream, Unmanaged.passRetained(reader).toOpaque(), freeStream)
    guard let handle else { preconditionFailure("out of memory") }
    var response = Response(status: 200, handle: handle, byteCount: 0, content: .stream(reader))
    response.add("Content-Type", "text/event-stream")
    response.add("Cache-Control", "no-store")
    response.add("X-Accel-Buffering", "no")
    return response
  }
}

extension ByteBuffer {
  /// Appends one server-sent event; `data` must not hold line ends (JSON does not).
  package mutating func append(
    event name: StaticString, id: UnsafeRawBufferPointer?, data: UnsafeRawBufferPointer
  ) {
    if let id {
      append("id: ")
      append(id)
      append("\n")
    }
    if name.utf8CodeUnitCount > 0 {
      append("event: ")
      append(name)
      append("\n")
    }
    append("data: ")
    append(data)
    append("\n\n")
  }
}

private let readStream: MHD_ContentReaderCallback = { context, _, block, room in
  guard let context, let block else { return -1 }
  return Unmanaged<EventStream.Reader>.fromOpaque(context).takeUnretainedValue().read(into: block, room: room)
}

private let freeStream: MHD_ContentReaderFreeCallback = { context in
  if let context { Unmanaged<EventStream.Reader>.fromOpaque(context).release() }
}
