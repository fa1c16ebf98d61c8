/// The users of a load, their channels, and the views that users follow. The sizes alone decide all of it, so
/// a second load of the same sizes uses the users and channels of the first.
package struct LoadPlan: Sendable, Equatable {
  /// The number of users.
  package let users: Int
  /// The number of channels.
  package let channels: Int
  /// The number of members of each channel.
  package let members: Int
  /// The number of users who follow a view of one of their channels by long polls.
  package let parked: Int

  /// The members that a channel has at least, if there are so many users.
  private static let fewestMembers = 10

  /// A plan of these sizes. Requires that each is at least 1, and that `parked` is at most `users`.
  package init(users: Int, channels: Int, parked: Int) {
    self.users = users
    self.channels = channels
    self.parked = parked
    let share = (users + channels - 1) / channels
    members = min(users, max(share, LoadPlan.fewestMembers))
  }

  /// A user's id.
  package func userID(_ user: Int) -> String { "load-user-\(user)" }

  /// A channel's url. Loads of other sizes have other channels, because the members differ.
  package func channelURL(_ channel: Int) -> String { "load-\(users)-\(channels)-\(channel)" }

  /// The url of the small channel beside the others, which nobody follows.
  package var besideURL: String { "load-\(users)-beside" }

  /// The number of members of the channel beside the others: the first users.
  package var besideMembers: Int { min(users, LoadPlan.fewestMembers) }

  /// The members of a channel: users with successive numbers. Every user is a member of some channel.
  package func member(_ index: Int, of channel: Int) -> Int { (first(of: channel) + index) % users }

  /// The user who follows with that number, and the channel.
  package func reader(_ number: Int) -> (user: Int, channel: Int) {
    let user = number * users / parked
    var channel = user * channels / users
    while channel + 1 < channels, first(of: channel + 1) <= user { channel += 1 }
    return (user, channel)
  }

  private func first(of channel: Int) -> Int { channel * users / channels }
}
