/// A request's body while it arrives, and its share of the room.
final class PendingBody {
  let intake: BodyIntake
  /// Bytes that it holds of the room.
  var held = 0
  /// The pace that the body must keep; nil: it only has a deadline as a whole.
  var pace: BodyPace?
  /// How many times more the body may wait for room after its deadline has passed.
  var laterWaits = 3
  /// Resumes the request when there may be room. The request's own waiter is not used, because the handler
  /// would take a late wake for its own.
  var waiter: Waiter?

  init(_ intake: BodyIntake) { self.intake = intake }
}
