import Glibc
import Platform

extension EventStream {
  /// The source from which libmicrohttpd reads a stream, block by block.
  final class Reader {
    private enum Filled { case piece, nothing, ended }

    private let stream: EventStream
    private var piece = ByteBuffer(capacity: Reader.firstBytes)
    private var taken = 0
    private var isEnding = false
    /// Bytes of the stream memory that the piece takes.
    private var held = 0
    private var turn: StreamMemory.Turn?
    /// Set when the response is queued; used on the connection's worker thread alone.
    private var attachment: Attachment?

    /// Where the stream goes, and what it shares with the server's other streams.
    struct Attachment {
      let connection: OpaquePointer
      let client: ClientConnection
      let lot: ParkingLot
      let memory: StreamMemory
    }

    init(_ stream: EventStream) {
      self.stream = stream
      piece.append(":\n\n")
    }

    deinit {
      attachment?.memory.end(turn, held: held)
      stream.ended()
    }

    /// The response is queued: reads from now on send to this connection.
    func begin(at attachment: Attachment) { self.attachment = attachment }

    /// Fills the next block. 0 only after the connection was suspended.
    func read(into block: UnsafeMutablePointer<CChar>, room: Int) -> Int {
      guard let attachment else { return Reader.endOfStream }
      let (lot, limits) = (attachment.lot, attachment.memory.limits)
      while taken == piece.count {
        if isEnding { return Reader.endOfStream }
        letGo(attachment.memory)
        switch fill(attachment) {
        case .ended: return Reader.endOfStream
        case .piece:
          lot.setDeadline(
            attachment.client, lot.tick(at: lot.now(), plusSeconds: limits.streamStallSeconds))
        case .nothing:
          if isEnding { continue }
          let beat = limits.heartbeatSeconds * 1000
          let (connection, client) = (attachment.connection, attachment.client)
          switch lot.park(stream.waiter, connection, client, milliseconds: beat, .many) {
          case nil: return 0
          case .shutdown, .hungUp: return Reader.endOfStream
          case .woken, .deadline: continue
          }
        }
      }
      let count = min(room, piece.count - taken)
      memcpy(block, piece.base + taken, count)
      taken += count
      attachment.client.sentBytes += count
      return count
    }

    /// Gives the piece's memory back, because the client has taken the piece.
    private func letGo(_ memory: StreamMemory) {
      if piece.allocated > Reader.restBytes { piece = ByteBuffer(capacity: Reader.firstBytes) }
      piece.truncate(to: 0)
      taken = 0
      guard held > 0 else { return }
      memory.give(held)
      held = 0
    }

    /// Asks for the next piece, or notes why there is none.
    private func fill(_ attachment: Attachment) -> Filled {
      switch stream.waiter.takeReason() {
      case .shutdown, .hungUp: return .ended
      case .deadline: piece.append(":\n\n")
      case .woken, nil: break
      }
      if attachment.lot.isEnding { return .ended }
      stream.waiter.clear()
      let (lot, memory) = (attachment.lot, attachment.memory)
      guard memory.take(&turn, stream.waiter, now: lot.now()) else {
        if turn?.isOver(at: lot.now()) ?? false { return .ended }
        return piece.count > 0 ? .piece : .nothing
      }
      held = memory.limits.streamPieceBytes
      defer {
        let allocated = piece.count > 0 ? piece.allocated : 0
        memory.change(from: held, to: allocated)
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
    /// Bytes of a new piece's buffer, which doubles as it fills.
    private static let firstBytes = 64
  }
}
