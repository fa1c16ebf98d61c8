/// A handler asks to go on later.
package struct Parking {
  /// Which requests go on when this one does.
  package enum Company {
    /// It waits for something of its own, like the commit of a write, and goes on at once.
    case alone
    /// What it waits for wakes many. Such requests go on some at a time (decision 0061).
    case many
    /// As `many`, and `resume` mostly computes as long as it takes to send the answer. Some of these requests
    /// go on, and then their answers are sent (decision 0054).
    case costly
  }

  let waiter: Waiter
  let milliseconds: Int?
  let company: Company
  var resume: Resumption

  /// Parks until `waiter` is woken or `milliseconds` have passed (nil: until the server stops). `resume` then
  /// runs on a worker thread, exactly once, also when the client has left; it may park again with the same
  /// waiter.
  package init(
    _ waiter: Waiter, milliseconds: Int?, _ company: Company = .alone,
    resume: @escaping (Wake) throws -> Outcome
  ) {
    self.waiter = waiter
    self.milliseconds = milliseconds
    self.company = company
    self.resume = Resumption(resume)
  }
}

/// How a parked request goes on.
struct Resumption {
  private let run: (Wake) throws -> Outcome
  /// Maps the errors that `run` throws, and those of how the request goes on after that. Nil: they stay as
  /// they are.
  private var mapError: ((any Error) -> any Error)?

  fileprivate init(_ run: @escaping (Wake) throws -> Outcome) { self.run = run }

  func callAsFunction(_ wake: Wake) throws -> Outcome {
    guard let mapError else { return try run(wake) }
    do { return try run(wake).mapErrors(mapError) } catch { throw mapError(error) }
  }

  /// Also maps the errors with `change`.
  mutating func mapErrors(_ change: @escaping (any Error) -> any Error) {
    guard let first = mapError else { return mapError = change }
    mapError = { change(first($0)) }
  }
}
