import Platform
import Synchronization

/// The memory that the pieces of all event streams share, and the streams that wait for room.
///
/// A stream takes room for a piece before it makes the piece. Without room the stream waits for its turn:
/// streams are served in order of arrival, and each is woken when room is kept for it. A stream whose turn
/// does not come in time is closed. One event can be larger than a piece, so all streams together exceed the
/// bound by at most the largest event of each worker thread.
final class StreamMemory: Sendable {
  /// One stream's wait for room.
  final class Turn: @unchecked Sendable {  // because the rest is only touched under the memory's lock
    fileprivate let waiter: Waiter
    fileprivate var isWaiting = false
    fileprivate var isGranted = false
    /// When the wait ends (monotonic nanoseconds); touched by the stream's worker thread alone.
    fileprivate var endsAt: UInt64 = 0

    fileprivate init(_ waiter: Waiter) { self.waiter = waiter }

    /// Whether the stream has waited too long.
    func isOver(at now: UInt64) -> Bool { now >= endsAt }
  }

  private struct State {
    var held = 0
    /// The most bytes held at once since memory was last given back to the system.
    var peak = 0
    /// How often streams have taken room, and how often they had at the last `hasComeToRest`.
    var takes = 0
    var takesSeen = 0
    /// The waiting streams in order of arrival. Streams that have ended are skipped.
    var waiting: [Turn] = []
    var first = 0

    var isAnybodyWaiting: Bool { first < waiting.count }

    mutating func hold(_ bytes: Int) {
      held += bytes
      takes += 1
      peak = max(peak, held)
    }

    mutating func next() -> Turn? {
      while first < waiting.count {
        let turn = waiting[first]
        first += 1
        if turn.isWaiting { return turn }
      }
      waiting.removeAll(keepingCapacity: waiting.capacity < 1024)
      first = 0
      return nil
    }
  }

  private let state = Guarded(State())
  private let refusals = Atomic<Int>(0)
  let limits: Limits
  private let most: Int
  private let piece: Int
  private let turnNanoseconds: UInt64

  /// Room for the pieces of these limits.
  init(_ limits: Limits) {
    self.limits = limits
    most = max(limits.streamMemoryBytes, limits.streamPieceBytes)
    piece = limits.streamPieceBytes
    turnNanoseconds = UInt64(limits.streamTurnSeconds) * 1_000_000_000
  }

  /// The bytes that streams hold now.
  var bytes: Int { state.withLock { $0.held } }

  /// Streams that were closed because their turn did not come.
  var refused: Int { refusals.load(ordering: .relaxed) }

  /// Takes room for a piece. False: the stream waits for its turn, and its waiter is woken when it comes.
  func take(_ turn: inout Turn?, _ waiter: Waiter, now: UInt64) -> Bool {
    let (known, wasWaiting) = (turn, turn != nil)
    let made = state.withLock { state -> Turn? in
      if let known, known.isGranted {
        known.isGranted = false
        return nil
      }
      if known == nil, !state.isAnybodyWaiting, state.held + piece <= most {
        state.hold(piece)
        return nil
      }
      let turn = known ?? Turn(waiter)
      if !turn.isWaiting {
        turn.isWaiting = true
        state.waiting.append(turn)
      }
      return turn
    }
    turn = made
    guard let made else { return true }
    if !wasWaiting { made.endsAt = now + turnNanoseconds }
    if made.isOver(at: now) { refusals.wrappingAdd(1, ordering: .relaxed) }
    return false
  }

  /// Corrects the room of a piece, which is larger or smaller than planned.
  func change(from before: Int, to after: Int) {
    if after < before { return give(before - after) }
    if after > before { state.withLock { $0.hold(after - before) } }
  }

  /// Whether streams held much memory, and no stream has taken any since this was asked last. The allocator
  /// still keeps that memory.
  func hasComeToRest() -> Bool {
    state.withLock { state in
      defer { state.takesSeen = state.takes }
      guard state.peak >= StreamMemory.muchMemory, state.takes == state.takesSeen else { return false }
      state.peak = state.held
      return true
    }
  }

  private static let muchMemory = 2 << 20

  /// Gives room back, and wakes the streams whose turn comes.
  func give(_ bytes: Int) {
    let woken = state.withLock { state -> [Turn] in
      state.held -= bytes
      return grant(&state)
    }
    for turn in woken { turn.waiter.wake() }
  }

  /// Called when the stream has ended: gives its room and its turn back.
  func end(_ turn: Turn?, held: Int) {
    guard turn != nil || held > 0 else { return }
    let woken = state.withLock { state -> [Turn] in
      state.held -= held
      if let turn {
        if turn.isGranted { state.held -= piece }
        turn.isGranted = false
        turn.isWaiting = false
      }
      return grant(&state)
    }
    for turn in woken { turn.waiter.wake() }
  }

  private func grant(_ state: inout State) -> [Turn] {
    guard state.isAnybodyWaiting else { return [] }
    var granted: [Turn] = []
    while state.held + piece <= most, let turn = state.next() {
      state.hold(piece)
      turn.isWaiting = false
      turn.isGranted = true
      granted.append(turn)
    }
    return granted
  }
}
