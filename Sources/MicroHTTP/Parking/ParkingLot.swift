import CMicroHTTPD
import Glibc
import Platform
import Synchronization

/// All connections of a server, the deadline wheel over them, and the suspended ones among them.
///
/// Parking suspends the connection and publishes that under one lock; waking resumes it under the same lock,
/// which hands it to its worker's thread. So no wake is lost: a wake resumes a parked waiter, and leaves a
/// note in one that is not parked yet. Exactly one of wake, deadline, hang-up and shutdown resumes.
///
/// The wheel has a slot per tick. A worker that sets a later deadline only stores it: the wheel visits the
/// client at the old time, sees the new deadline and moves the client to a later slot. Only an earlier
/// deadline takes the lock. Both sides store their own field before they read the other's, so one of them
/// always sees the change.
final class ParkingLot: @unchecked Sendable {  // because everything mutable is under `state`'s lock or atomic
  static let tickNanoseconds: UInt64 = 50_000_000
  private static let slotCount = 1024

  private struct State {
    var slots: UnsafeMutablePointer<Unmanaged<ClientConnection>?>
    var bySocket: [Unmanaged<ClientConnection>?] = []
    var connections = 0
    var parked = 0
    var tick: UInt32
    var isStopping = false
    var isClosed = false
    var generation: UInt32 = 0
  }

  private let state: Watched<State>
  private let clock: Clock
  private let watch: HangUpWatch
  private let start: UInt64
  private let isReadingOver = Atomic<Bool>(false)
  private let hasEndBegun = Atomic<Bool>(false)

  init(clock: Clock) throws(ServerError) {
    self.clock = clock
    start = clock.monotonicNanoseconds()
    watch = try HangUpWatch()
    let slots = UnsafeMutablePointer<Unmanaged<ClientConnection>?>.allocate(capacity: ParkingLot.slotCount)
    slots.initialize(repeating: nil, count: ParkingLot.slotCount)
    state = Watched(State(slots: slots, tick: 0))
  }

  deinit { state.read { $0.slots.deallocate() } }

  /// The tick that is `seconds` after a monotonic time.
  func tick(at nanoseconds: UInt64, plusSeconds seconds: Int = 0) -> UInt32 {
    UInt32(truncatingIfNeeded: (nanoseconds &- start) / ParkingLot.tickNanoseconds)
      + UInt32(seconds * Int(1_000_000_000 / ParkingLot.tickNanoseconds))
  }

  func now() -> UInt64 { clock.monotonicNanoseconds() }

  // MARK: - Connections

  /// Adds a new connection. The wheel turns while there is any.
  func open(socket: Int32, owner: AnyObject, headSeconds: Int) -> Unmanaged<ClientConnection> {
    let now = now()
    let deadline = tick(at: now, plusSeconds: headSeconds)
    return state.update { state in
      state.generation &+= 1
      let client = ClientConnection(socket: socket, generation: state.generation, owner: owner, at: now)
      let unmanaged = Unmanaged.passRetained(client)
      while state.bySocket.count <= Int(socket) { state.bySocket.append(nil) }
      state.bySocket[Int(socket)] = unmanaged
      state.connections += 1
      client.deadline.store(deadline, ordering: .sequentiallyConsistent)
      insert(client, &state)
      watch.arm(client)
      if isReadingOver.load(ordering: .sequentiallyConsistent) { endReading(client) }
      return unmanaged
    }
  }

  /// Removes the connection, whose socket is about to be closed.
  func close(_ client: Unmanaged<ClientConnection>) {
    state.read { state in
      let object = client.takeUnretainedValue()
      remove(object, &state)
      state.bySocket[Int(object.socket)] = nil
      state.connections -= 1
    }
    client.release()
  }

  var counts: (connections: Int, parked: Int) { state.read { ($0.connections, $0.parked) } }

  /// The number of open connections for each activity that occurs. Takes time in proportion to the
  /// connections.
  var connectionCounts: [ConnectionActivity: Int] {
    state.read { state in
      var counts: [ConnectionActivity: Int] = [:]
      for case let client? in state.bySocket {
        let client = client.takeUnretainedValue()
        let activity: ConnectionActivity =
          switch client.activity.load(ordering: .relaxed) {
          case .idle: .idle
          case .reading: .reading
          case .streaming: .streaming
          case .answering: client.parked == nil ? .running : .parked
          }
        counts[activity, default: 0] += 1
      }
      return counts
    }
  }

  // MARK: - Deadlines

  /// Moves the connection's deadline to `tick`.
  func setDeadline(_ client: ClientConnection, _ tick: UInt32) {
    client.deadline.store(tick, ordering: .sequentiallyConsistent)
    if client.visit.load(ordering: .sequentiallyConsistent) > tick {
      state.read { state in reschedule(client, &state) }
    }
  }

  /// Gives the client until `tick` to send its next bytes, or one second if it has closed its sending side.
  func awaitClient(_ client: ClientConnection, until tick: UInt32) {
    client.isReading.store(true, ordering: .sequentiallyConsistent)
    setDeadline(client, tick)
    if isReadingOver.load(ordering: .sequentiallyConsistent) { endReading(client) }
    if client.isLeft.load(ordering: .sequentiallyConsistent) {
      hurry(client) { state.read { state in reschedule(client, &state) } }
    }
  }

  private func hurry(_ client: ClientConnection, reschedule: () -> Void) {
    let soon = tick(at: now(), plusSeconds: 1)
    guard client.deadline.load(ordering: .relaxed) > soon else { return }
    client.deadline.store(soon, ordering: .sequentiallyConsistent)
    reschedule()
  }

  private func reschedule(_ client: ClientConnection, _ state: inout State) {
    remove(client, &state)
    insert(client, &state)
  }

  private func insert(_ client: ClientConnection, _ state: inout State) {
    while true {
      let furthest = state.tick + UInt32(ParkingLot.slotCount - 1)
      let visit = max(min(client.deadline.load(ordering: .sequentiallyConsistent), furthest), state.tick + 1)
      client.visit.store(visit, ordering: .sequentiallyConsistent)
      guard client.deadline.load(ordering: .sequentiallyConsistent) < visit, visit > state.tick + 1 else {
        let slot = Int(visit) % ParkingLot.slotCount
        let first = state.slots[slot]?.takeUnretainedValue()
        client.next = first
        client.previous = nil
        first?.previous = client
        state.slots[slot] = Unmanaged.passUnretained(client)
        return
      }
    }
  }

  private func remove(_ client: ClientConnection, _ state: inout State) {
    let next = client.next
    next?.previous = client.previous
    if let previous = client.previous {
      previous.next = next
    } else {
      let slot = Int(client.visit.load(ordering: .relaxed)) % ParkingLot.slotCount
      state.slots[slot] = next.map(Unmanaged.passUnretained)
    }
    client.next = nil
    client.previous = nil
  }

  /// Runs the wheel until `close`; sleeps while there is no connection. `each` is called after each turn.
  func runWheel(_ each: () -> Void) {
    while true {
      let isClosed = state.wait { $0.isClosed ? true : $0.connections > 0 ? false : nil }
      if isClosed == true { return }
      // Only time moves the wheel, so there is nothing else to wait for.
      usleep(UInt32(ParkingLot.tickNanoseconds / 1000))
      let current = tick(at: now())
      state.read { state in
        while state.tick < current {
          state.tick += 1
          visitSlot(&state)
        }
      }
      each()
    }
  }

  private func visitSlot(_ state: inout State) {
    let slot = Int(state.tick) % ParkingLot.slotCount
    var visited = state.slots[slot]?.takeUnretainedValue()
    state.slots[slot] = nil
    while let client = visited {
      visited = client.next
      if client.deadline.load(ordering: .sequentiallyConsistent) <= state.tick { expire(client, &state) }
      insert(client, &state)
    }
  }

  private func expire(_ client: ClientConnection, _ state: inout State) {
    client.deadline.store(ClientConnection.noDeadline, ordering: .sequentiallyConsistent)
    if let waiter = client.parked {
      resume(waiter, .deadline, &state)
    } else {
      shutdown(client.socket, Int32(SHUT_RDWR))
    }
  }

  // MARK: - Parking

  /// Suspends the connection, unless it still is. Nil when the request is parked, else why it goes on at
  /// once.
  func park(
    _ waiter: Waiter, _ connection: OpaquePointer, _ client: ClientConnection, milliseconds: Int?,
    _ company: Company, isSuspended: Bool = false
  ) -> Wake? {
    let deadline = milliseconds.map { milliseconds in
      tick(at: now() + UInt64(max(0, milliseconds)) * 1_000_000 + ParkingLot.tickNanoseconds - 1)
    }
    if waiter.clear() { return .woken }
    return state.read { state in
      if state.isStopping { return .shutdown }
      waiter.connection = connection
      waiter.client = .passUnretained(client)
      waiter.company = company
      client.parked = waiter
      state.parked += 1
      client.deadline.store(deadline ?? ClientConnection.noDeadline, ordering: .sequentiallyConsistent)
      if client.visit.load(ordering: .sequentiallyConsistent) > deadline ?? ClientConnection.noDeadline {
        reschedule(client, &state)
      }
      if !isSuspended { MHD_suspend_connection(connection) }
      let before = waiter.state.compareExchange(
        expected: .idle, desired: .parked, ordering: .acquiringAndReleasing)
      // A wake came before the waiter was parked and left a note: the connection is resumed at once.
      if !before.exchanged { resume(waiter, .woken, &state) }
      watch.arm(client)
      return nil
    }
  }

  func wake(_ waiter: Waiter) {
    state.read { state in
      if waiter.state.load(ordering: .relaxed) == .parked { resume(waiter, .woken, &state) }
    }
  }

  private func resume(_ waiter: Waiter, _ reason: Wake, _ state: inout State) {
    guard let connection = waiter.connection, let client = waiter.client else { return }
    waiter.connection = nil
    waiter.client = nil
    // By now the client's memory is in no processor cache. A relaxed store does not wait for it.
    let daemon = client._withUnsafeGuaranteedRef { client in
      client.parked = nil
      // Relaxed: the wheel has to see a deadline at once only if it became earlier, and this one becomes
      // later.
      client.deadline.store(ClientConnection.noDeadline, ordering: .relaxed)
      return client.daemon
    }
    state.parked -= 1
    waiter.state.store(reason.resumed, ordering: .releasing)
    daemon.noteResumed(connection, client, waiter.company)
  }

  // MARK: - Hang-ups and the end

  /// Waits for clients that leave, until `close`.
  func runHangUpWatch() {
    watch.run { socket, generation in
      state.read { state in
        guard Int(socket) < state.bySocket.count,
          let client = state.bySocket[Int(socket)]?.takeUnretainedValue(), client.generation == generation
        else { return }
        client.isArmed = false
        if let waiter = client.parked {
          resume(waiter, .hungUp, &state)
        } else {
          client.isLeft.store(true, ordering: .sequentiallyConsistent)
          if client.isReading.load(ordering: .sequentiallyConsistent) {
            hurry(client) { reschedule(client, &state) }
          }
        }
      }
    }
  }

  /// Whether the server is ending: `beginEnd` was called.
  var isEnding: Bool { hasEndBegun.load(ordering: .relaxed) }

  /// The server begins to end; nothing changes for connections yet.
  func beginEnd() { hasEndBegun.store(true, ordering: .sequentiallyConsistent) }

  /// Resumes everything parked; nothing parks from now on.
  func stopParking() {
    state.update { state in
      state.isStopping = true
      for client in state.bySocket {
        if let waiter = client?.takeUnretainedValue().parked { resume(waiter, .shutdown, &state) }
      }
    }
  }

  /// Ends reading from clients: incomplete requests end at once, and so do connections without a request.
  /// Bytes that came before are still read and answered.
  func stopReading() {
    isReadingOver.store(true, ordering: .sequentiallyConsistent)
    state.read { state in
      for client in state.bySocket {
        guard let client = client?.takeUnretainedValue() else { continue }
        if client.isReading.load(ordering: .sequentiallyConsistent) { endReading(client) }
      }
    }
  }

  private func endReading(_ client: ClientConnection) { shutdown(client.socket, Int32(SHUT_RD)) }

  /// Cuts every connection that is still open.
  func shutSockets() {
    state.read { state in
      for case let client? in state.bySocket {
        shutdown(client.takeUnretainedValue().socket, Int32(SHUT_RDWR))
      }
    }
  }

  /// Ends the threads of `runWheel` and `runHangUpWatch`.
  func close() {
    state.update { $0.isClosed = true }
    watch.stop()
  }
}
