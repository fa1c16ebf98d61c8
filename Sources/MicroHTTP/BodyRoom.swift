import Platform
import Synchronization

/// The memory that request bodies share while no handler has looked at their requests: whoever sends them has
/// shown no token yet.
///
/// A body takes room for the bytes that have come and gives it back when its handler was asked, or when the
/// request is over. A body that finds no room leaves its bytes in the socket and waits in line.
package final class BodyRoom: Sendable {
  /// Bytes at most.
  let most: Int
  private let held = Atomic<Int>(0)
  /// The most bytes that were held since all were given back. Roughly: two threads may overtake one another.
  private let peak = Atomic<Int>(0)
  private static let muchMemory = 2 << 20
  private let hasLine = Atomic<Bool>(false)
  private let line = Guarded<[Waiter]>([])
  /// How much room one more body is expected to need, when those in line are told.
  private static let usualBytes = 4096

  init(most: Int) { self.most = most }

  /// Bytes held now.
  package var bytes: Int { held.load(ordering: .relaxed) }

  /// Takes room for `count` bytes. False when there is not so much.
  func take(_ count: Int) -> Bool {
    var before = held.load(ordering: .sequentiallyConsistent)
    while before + count <= most {
      let (exchanged, original) = held.compareExchange(
        expected: before, desired: before + count, ordering: .sequentiallyConsistent)
      if exchanged {
        if before + count > peak.load(ordering: .relaxed) {
          peak.store(before + count, ordering: .relaxed)
        }
        return true
      }
      before = original
    }
    return count == 0
  }

  /// Whether all of much memory was given back since this was asked last: the allocator still holds it.
  func hasEmptied() -> Bool {
    guard peak.load(ordering: .relaxed) >= BodyRoom.muchMemory, bytes == 0 else { return false }
    peak.store(0, ordering: .relaxed)
    return true
  }

  /// Puts a body in line. It must ask for room once more afterwards, because some may have come in between.
  func wait(_ waiter: Waiter) {
    line.withLock { $0.append(waiter) }
    hasLine.store(true, ordering: .sequentiallyConsistent)
  }

  /// Takes a body out of the line.
  func leave(_ waiter: Waiter) {
    line.withLock { line in
      line.removeAll { $0 === waiter }
      if line.isEmpty { hasLine.store(false, ordering: .sequentiallyConsistent) }
    }
  }

  /// Gives room back and wakes as many in line as may find some; they ask again.
  func give(back count: Int) {
    let left = held.wrappingSubtract(count, ordering: .sequentiallyConsistent).newValue
    guard hasLine.load(ordering: .sequentiallyConsistent) else { return }
    let woken = line.withLock { line -> ArraySlice<Waiter> in
      let count = min(line.count, max(1, (most - left) / BodyRoom.usualBytes))
      defer { line.removeFirst(count) }
      return line[..<count]
    }
    Waiter.wakeAll(woken)
  }
}

/// A request's body while it arrives, and its share of the room.
final class PendingBody {
  let intake: BodyIntake
  /// Bytes of the room that it holds.
  var held = 0
  /// How many times more it may wait after its time has ended.
  var laterWaits = 3
  /// Wakes it when there may be room. Not the request's own waiter: a late wake would be taken for the
  /// handler's.
  var waiter: Waiter?

  init(_ intake: BodyIntake) { self.intake = intake }
}

/// What became of the bytes of a body that libmicrohttpd showed.
enum BodyProgress {
  /// They were taken.
  case taken
  /// The connection is suspended and shows them again.
  case waiting
  /// The connection is to be closed.
  case cut
}

extension Server {
  /// Takes the next bytes of a request's body, or waits until there is room for them.
  func take(_ piece: UnsafeRawBufferPointer, of request: Request) -> BodyProgress {
    guard let body = request.intake else { return .taken }
    let wanted = body.intake.wantedBytes(piece.count)
    if var reason = body.waiter?.takeReason() {
      // Of those whose time ends together, the first to be refused makes room for the next.
      if reason == .deadline, body.laterWaits > 0, bodyRoom.bytes + wanted <= bodyRoom.most {
        body.laterWaits -= 1
        reason = .woken
      }
      if let end = goOn(after: reason, request) { return end }
    }
    while !bodyRoom.take(wanted) {
      if let end = waitForRoom(wanted, body, request) { return end }
    }
    let isTaken = body.intake.take(piece, overrun: configuration.limits.overrunBytes)
    let holds = body.intake.heldBytes
    bodyRoom.give(back: body.held + wanted - holds)
    body.held = holds
    if !isTaken { counters.refused(.body) }
    return isTaken ? .taken : .cut
  }

  /// Parks the request until there may be room. Nil when there may be some at once.
  private func waitForRoom(_ wanted: Int, _ body: PendingBody, _ request: Request) -> BodyProgress? {
    guard let connection = request.connection else { return .cut }
    let waiter = body.waiter ?? Waiter(lot: lot)
    body.waiter = waiter
    bodyRoom.wait(waiter)
    if bodyRoom.bytes + wanted <= bodyRoom.most { return nil }
    let milliseconds = configuration.limits.bodyRoomSeconds * 1000
    switch lot.park(waiter, connection, request.client, milliseconds: milliseconds) {
    case nil: return .waiting
    case .woken: return nil
    case .deadline, .shutdown, .hungUp: return goOn(after: .shutdown, request)
    }
  }

  /// A request goes on that waited for room. Not nil when it is over.
  private func goOn(after reason: Wake, _ request: Request) -> BodyProgress? {
    switch reason {
    case .woken:
      lot.awaitClient(request.client, until: bodyEnd(of: request))
      return nil
    case .hungUp: return .cut
    case .deadline:
      counters.refused(.unadmittedBodies)
      admitBody(of: request)
      refuse(
        request,
        Problem(
          503, "busy", detail: "too many bodies are being sent at once: send it again after Retry-After",
          headers: [("Retry-After", "2")]))
      return .cut
    case .shutdown:
      refuse(
        request,
        Problem(
          503, "stopping", detail: "the service is ending: send it again", headers: [("Retry-After", "1")]))
      return .cut
    }
  }

  /// When the body has to be there.
  func bodyEnd(of request: Request) -> UInt32 {
    lot.tick(at: request.startedAt, plusSeconds: configuration.limits.bodySeconds)
  }

  /// The body's handler was asked, or nobody will ask it: the body's room is free again.
  func admitBody(of request: Request) {
    guard let body = request.intake else { return }
    if let waiter = body.waiter {
      waiter.end()
      bodyRoom.leave(waiter)
      body.waiter = nil
    }
    guard body.held > 0 else { return }
    let held = body.held
    body.held = 0
    bodyRoom.give(back: held)
  }
}
