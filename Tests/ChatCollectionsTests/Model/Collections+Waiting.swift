import ChatCache
import ChatModel
import Platform

@testable import ChatCollections

// A test's own thread may wait for the disk.
extension Collections {
  private func waiting<Made: Sendable>(
    _ start: (@escaping @Sendable (Result<Made, any Error>) -> Void) throws -> Void
  ) throws -> Made {
    let came = Watched<Result<Made, any Error>?>(nil)
    try start { result in came.update { $0 = result } }
    return try came.wait { $0 }!.get()
  }

  func openMessages(
    _ request: MessageViewRequest, of user: UserID, named name: String
  ) throws -> MessageCollection {
    try waiting { try openMessages(request, of: user, named: name, then: $0) }
  }

  func openChannels(_ query: ChannelQuery, of user: UserID) throws -> ChannelCollection {
    try waiting { try openChannels(query, of: user, then: $0) }
  }

  /// The view as a request gets it: stored and within its bound.
  func readyMessages(_ id: String, of user: UserID) throws -> MessageCollection {
    let view = try messages(id, of: user)
    return isReady(view) ? view : try waiting { try makeReady(view, then: $0) }
  }

  /// The view as a request gets it: stored and within its bound.
  func readyChannels(_ id: String, of user: UserID) throws -> ChannelCollection {
    let view = try channels(id, of: user)
    return isReady(view) ? view : try waiting { try makeReady(view, then: $0) }
  }

  func moved(_ view: MessageCollection) throws { try waiting { moved(view, then: $0) } }

  func moved(_ view: ChannelCollection) throws { try waiting { moved(view, then: $0) } }

  func bound(_ view: MessageCollection) throws { try waiting { try bound(view, then: $0) } }

  func bound(_ view: ChannelCollection) throws { try waiting { try bound(view, then: $0) } }
}
