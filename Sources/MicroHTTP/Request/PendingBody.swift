/// A request's body while it arrives, and its share of the room.
final class PendingBody {
  let intake: BodyIntake
  /// Bytes of the room that it holds.
  var held = 0
  /// How many times more it may wait after its time has ended.
  var laterWaits = 3
  /// Wakes it when there may be room. Not the request's own waiter: a late wake would be taken for the
  /// handler's.
  var waiter: Waiter?

  init(_ intake: BodyIntake) { self.intake = intake }
}
