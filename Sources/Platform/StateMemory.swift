/// A cache of values that hold for one state only, such as one revision of the database.
///
/// Each lookup and each store names the state. A lookup for another state than the stored one finds nothing,
/// and a store for another state first empties the cache. Each thread has a copy of its own, so that threads
/// seldom wait for each other; a value that one thread stored is copied to another thread when it is asked
/// for there.
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

  /// An empty cache. A thread's copy is emptied when it holds `mostOfThread` values, the common copy when it
  /// holds `mostOfAll`.
  package init(mostOfThread: Int, mostOfAll: Int) {
    self.mostOfThread = mostOfThread
    self.mostOfAll = mostOfAll
  }

  /// Looks a value up in this thread's copy alone.
  @inlinable
  public func known<Value>(in state: State, _ look: (borrowing Found) -> Value?) -> Value? {
    ofThread.own.withLock { $0.state == state ? look($0.found) : nil }
  }

  /// Looks a value up in this thread's copy and then in the common one. `keep` stores a value that was found
  /// in the common copy in the thread's.
  @inlinable
  public func find<Value>(
    in state: State, _ look: (borrowing Found) -> Value?, _ keep: (inout Found, Value) -> Void
  ) -> Value? {
    if let known = known(in: state, look) { return known }
    guard let found = ofAll.withLock({ $0.state == state ? look($0.found) : nil }) else { return nil }
    ofThread.own.withLock { shelf in shelf.keep(state, mostOfThread) { keep(&$0, found) } }
    return found
  }

  /// Stores a value in this thread's copy and in the common one.
  @inlinable
  public func keep(in state: State, _ keep: (inout Found) -> Void) {
    ofThread.own.withLock { $0.keep(state, mostOfThread, keep) }
    ofAll.withLock { $0.keep(state, mostOfAll, keep) }
  }
}

/// The values in one copy of a `StateMemory`: one dictionary, or several.
public protocol Findings {
  /// No values.
  init()
  /// The size of the largest dictionary.
  var count: Int { get }
  /// Empties every dictionary.
  mutating func removeAll()
}
