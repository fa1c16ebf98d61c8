/// What was found out in one state of something that changes, and nothing of any other state.
///
/// A thread looks at what it found itself, and then at what any thread found. Whoever finds another state
/// forgets what was found before. Each lookup says of which state it is, so nothing outlives its state.
public final class StateMemory<State: Equatable, Found: Findings>: Sendable {
  @usableFromInline
  struct Shelf {
    @usableFromInline var state: State?
    @usableFromInline var found = Found()

    @usableFromInline init() {}

    @inlinable
    mutating func keep(_ state: State, _ most: Int, _ keep: (inout Found) -> Void) {
      if self.state != state || found.count >= most {
        found.removeAll()
        self.state = state
      }
      keep(&found)
    }
  }

  @usableFromInline let ofThread = PerThread { Shelf() }
  @usableFromInline let ofAll = Guarded(Shelf())
  @usableFromInline let mostOfThread: Int
  @usableFromInline let mostOfAll: Int

  /// Room for so many findings of each thread, and of all together.
  package init(mostOfThread: Int, mostOfAll: Int) {
    self.mostOfThread = mostOfThread
    self.mostOfAll = mostOfAll
  }

  /// What this thread found in that state.
  @inlinable
  public func known<Value>(in state: State, _ look: (borrowing Found) -> Value?) -> Value? {
    ofThread.own.withLock { $0.state == state ? look($0.found) : nil }
  }

  /// What this thread found in that state, or else what any thread found, which is this thread's then.
  @inlinable
  public func find<Value>(
    in state: State, _ look: (borrowing Found) -> Value?, _ keep: (inout Found, Value) -> Void
  ) -> Value? {
    if let known = known(in: state, look) { return known }
    guard let found = ofAll.withLock({ $0.state == state ? look($0.found) : nil }) else { return nil }
    ofThread.own.withLock { shelf in shelf.keep(state, mostOfThread) { keep(&$0, found) } }
    return found
  }

  /// Keeps what was found in that state.
  @inlinable
  public func keep(in state: State, _ keep: (inout Found) -> Void) {
    ofThread.own.withLock { $0.keep(state, mostOfThread, keep) }
    ofAll.withLock { $0.keep(state, mostOfAll, keep) }
  }
}

/// What a `StateMemory` keeps.
public protocol Findings {
  /// Nothing found.
  init()
  /// How many findings there are, of the kind of which there are most.
  var count: Int { get }
  /// Forgets all.
  mutating func removeAll()
}
