/// How many requests wait for the same as a parked request does. The server lets it go on accordingly.
package enum Company: Sendable {
  /// It waits for something of its own, like the commit of a write, and goes on at once.
  case alone
  /// Many requests wait for the same change. The server lets some of them go on at a time, and serves other
  /// requests in between (decision 0061).
  case many
  /// As `many`, and making the answer mostly takes as long as sending the answer does. The server makes the
  /// answers of some of these requests first, and then sends them (decision 0054).
  case costly
}
