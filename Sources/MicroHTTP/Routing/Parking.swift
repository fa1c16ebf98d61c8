/// A handler asks to go on later.
package struct Parking {
  let waiter: Waiter
  let milliseconds: Int?
  let resume: (Wake) throws -> Outcome

  /// Parks until `waiter` is woken or `milliseconds` have passed (nil: until the server stops). `resume` then
  /// runs on a worker thread, exactly once, also when the client has left; it may park again with the same
  /// waiter.
  package init(_ waiter: Waiter, milliseconds: Int?, resume: @escaping (Wake) throws -> Outcome) {
    self.waiter = waiter
    self.milliseconds = milliseconds
    self.resume = resume
  }
}
