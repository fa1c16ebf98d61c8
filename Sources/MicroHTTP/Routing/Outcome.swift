/// A handler's result: how the request is answered, now or later.
package enum Outcome: ~Copyable {
  /// Answer now.
  case respond(Response)
  /// Read the form into this intake, then run the route's handler. Only the `admit` of an upload route
  /// returns this.
  case receive(any FormIntake)
  /// Answer later: the connection is suspended and no thread is held.
  case park(Parking)

  /// The same outcome, except that `change` maps the errors that a parked request throws when it goes on.
  package consuming func mapErrors(_ change: @escaping (any Error) -> any Error) -> Outcome {
    switch consume self {
    case .respond(let response): return .respond(response)
    case .receive(let intake): return .receive(intake)
    case .park(var parking):
      parking.resume.mapErrors(change)
      return .park(parking)
    }
  }
}
