import ChatModel

@testable import ChatSync

// The users to whom nothing new is shown.
extension MemoryStore {
  func holdRights(of users: [UserID]) throws {
    state.withLock { state in
      // A user without a row cannot be held.
      for user in users where state.users[user] != nil {
        state.heldUntil[user] = state.heldUntil[user] ?? state.sequence
      }
    }
  }
  func holdRightsOfAll() throws {
    try holdRights(of: state.withLock { $0.users.filter { $0.value.isSynced }.map(\.key) })
  }
  func raiseRights(of user: UserID, to sequence: Int64) throws {
    state.withLock { $0.heldUntil[user] = $0.heldUntil[user].map { max($0, sequence) } }
  }
  func releaseRights(of user: UserID) throws { state.withLock { $0.heldUntil[user] = nil } }
}
