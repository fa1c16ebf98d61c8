/// A handler asks to go on later.
package struct Parking {
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
