import ChatCache

/// A window that can be stored.
protocol StorableWindow: Equatable, Sendable {
  /// The window as the database has it.
  var stored: [UInt8] { get }

  /// Whether the stored form of `other` serves for this window, too.
  func isStored(as other: Self) -> Bool
}

/// A view's window, and the window that is stored: a value, guarded by the view's lock.
///
/// No answer shows a window that is not stored, because after a crash the view would not know what the client
/// has. A caller that finds `isStored` false asks for a commit with `ask` and answers after it. At most one
/// commit of a window is under way; callers that ask meanwhile share the next one.
///
/// A move that a change tells the client of, such as a cut (B22), is stored together with the change. A move
/// that cannot be stored is taken back, so that the view and the database agree.
struct HeldWindow<Window: StorableWindow>: Sendable {
  /// Called when the window is stored, or could not be.
  typealias Then = @Sendable (Result<Void, any Error>) -> Void

  /// What one commit stores.
  struct Write: Sendable {
    let window: Window
    /// Changes that tell of moves.
    let changes: [Change]
  }

  private struct Move: Sendable {
    let before: Window
    let after: Window
    let change: Change
  }

  /// The window as answers are made from it.
  var now: Window { didSet { isNowStored = now.isStored(as: stored) } }
  /// Whether the window is within its bound: nothing made it grow since it was last checked (B22).
  var isBounded: Bool
  private var stored: Window { didSet { isNowStored = now.isStored(as: stored) } }
  /// Whether the stored form serves for `now`.
  private var isNowStored = true
  /// Moves whose changes are not in the log yet.
  private var moves: [Move] = []
  private var underWay: Write?
  private var served: [Then] = []
  private var waiting: [Then] = []

  /// A window that is stored.
  init(_ window: Window, isBounded: Bool) {
    now = window
    stored = window
    self.isBounded = isBounded
  }

  /// Whether the database has the window as it is now, and the log has the changes of all moves.
  var isStored: Bool { moves.isEmpty && isNowStored }

  /// The window was stored as it was then, by a commit that began the view.
  mutating func begun(as window: Window) { stored = window }

  /// Cuts the window. If it was moved meanwhile, leaves it to be checked again.
  mutating func cut(from before: Window, to after: Window, because change: Change) {
    if !move(from: before, to: after, because: change) { isBounded = false }
  }

  /// Moves the window; `change` will tell its client. False: the window was moved meanwhile, and stays.
  @discardableResult
  mutating func move(from before: Window, to after: Window, because change: Change) -> Bool {
    guard now == before else { return false }
    now = after
    moves.append(Move(before: before, after: after, change: change))
    return true
  }

  /// Calls `then` after the next commit of the window. Returns that commit if it can begin at once.
  mutating func ask(_ then: @escaping Then) -> Write? {
    waiting.append(then)
    return begin()
  }

  private mutating func begin() -> Write? {
    guard underWay == nil, !waiting.isEmpty else { return nil }
    let write = Write(window: now, changes: moves.map(\.change))
    underWay = write
    (served, waiting) = (waiting, [])
    return write
  }

  /// The commit under way has ended. Returns the callbacks that it served, their outcome, and the next commit
  /// if callers asked meanwhile.
  mutating func ended(
    _ error: (any Error)?
  ) -> (served: [Then], outcome: Result<Void, any Error>, next: Write?) {
    let told = served
    if let write = underWay, error == nil {
      stored = write.window
      moves.removeFirst(write.changes.count)
    } else if let move = moves.last, moves.count == 1, now == move.after {
      now = move.before
      moves = []
      isBounded = false
    }
    underWay = nil
    served = []
    // A commit that failed is no failure for its callers if the window needs no storing after the move was
    // taken back (B60).
    let isWhole = error == nil || isStored
    return (told, isWhole ? .success(()) : .failure(error!), begin())
  }
}

extension LoadedRange: StorableWindow {}

extension ChannelWindow: StorableWindow {
  func isStored(as other: ChannelWindow) -> Bool { self == other }
}
