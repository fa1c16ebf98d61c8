/// A handler asks to go on later.
package struct Parking {
  /// How many requests wait for the same as this one.
  package enum Company {
    /// It waits for something of its own, like the commit of a write, and goes on at once.
    case alone
    /// Many requests wait for the same change. The server lets some of them go on at a time, and serves
    /// other requests in between (decision 0061).
    case many
    /// As `many`, and `resume` mostly takes as long as sending the answer does. The server makes the answers
    /// of some of these requests first, and then sends them (decision 0054).
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
