import ChatCache
import ChatCollections
import ChatModel
import JSON
import MicroHTTP
import Platform

/// Live chat views (B16).
enum MessageCollectionRoutes {
  static let path = "/v1/message-collections"

  static func routes(_ viewing: Viewing) -> [Route] { itself(viewing) + following(viewing) }

  private static func itself(_ viewing: Viewing) -> [Route] {
    [
      Route(
        .post, "/v1/message-collections", operation: "openMessageCollection", body: Viewing.body
      ) { request in
        try Parameters(request).end()
        let asked = try Viewing.parse(request) { try MessageViewRequest($0) }
        return try viewing.reading.admitted(request) { caller in
          try viewing.reading.inChannel(
            request, caller, named: ChannelURL(asked.channelURL), needsJoined: true
          ) { _, caller in try MessageOpening(viewing, request, caller, asked).answer() }
        }
      },
      Route(.get, "/v1/message-collections/{collection_id}", operation: "getMessageCollection") { request in
        try Parameters(request).end()
        return try with(viewing, request) { view, _ in
          .respond(Viewing.answer(try snapshot(viewing, view)))
        }
      },
      Route(
        .post, "/v1/message-collections/{collection_id}/previous", operation: "loadPreviousMessages",
        body: Viewing.body
      ) { request in try load(viewing, request, isOlder: true) },
      Route(
        .post, "/v1/message-collections/{collection_id}/next", operation: "loadNextMessages",
        body: Viewing.body
      ) { request in try load(viewing, request, isOlder: false) },
    ]
  }

  private static func following(_ viewing: Viewing) -> [Route] {
    [
      Route(
        .get, "/v1/message-collections/{collection_id}/events", operation: "pollMessageCollection"
      ) { request in
        var parameters = Parameters(request)
        let poll = PollParameters(request, &parameters)
        _ = parameters.text("ticket")
        try parameters.end()
        return try with(viewing, request) { view, caller in
          let follower = try Follower(
            viewing, caller, [.messages(view)], hasUserFeed: false, again: "\(path)/\(view.id)")
          return try Poll.answer(follower, request, poll)
        }
      },
      Route(
        .post, "/v1/message-collections/{collection_id}/reset", operation: "resetMessageCollection",
        body: Viewing.body
      ) { request in
        try Parameters(request).end()
        let start = try start(request)
        return try with(viewing, request) { view, caller in
          var asked = view.request
          asked.start = start
          try viewing.run { try viewing.collections.dispose(view) }
          return try MessageOpening(viewing, request, caller, asked).answer()
        }
      },
      Route(
        .delete, "/v1/message-collections/{collection_id}/failed", operation: "removeFailedFromCollection"
      ) { request in
        var parameters = Parameters(request)
        let name = parameters.text("request_id")
        try parameters.end()
        return try with(viewing, request) { view, _ in
          let removed = try viewing.run { try viewing.collections.removeFailed(of: view, named: name) }
          var json = JSONWriter()
          json.beginObject()
          json.name("request_ids")
          json.beginArray()
          for id in removed { json.value(id) }
          json.endArray()
          json.endObject()
          return .respond(Viewing.answer(json.finish()))
        }
      },
      Route(.delete, "/v1/message-collections/{collection_id}", operation: "disposeMessageCollection") {
        request in
        try Parameters(request).end()
        return try with(viewing, request) { view, _ in
          try viewing.run { try viewing.collections.dispose(view) }
          return .respond(.empty(204))
        }
      },
    ]
  }

  private static func start(_ request: Request) throws -> String? {
    try Viewing.parse(request) { json in
      var fields = BodyFields(json)
      let start = fields.place("starting_point")
      if let start, start != "latest", !MessageViewRequest.isPlace(start) {
        fields.fault("starting_point", "Give a time in ms since 1970, a position, or latest.")
      }
      try fields.end()
      return start == "latest" ? nil : start
    }
  }

  static func with(
    _ viewing: Viewing, _ request: Request,
    _ body: @escaping (MessageCollection, Caller) throws -> Outcome
  ) throws -> Outcome {
    try viewing.reading.admitted(request) { caller in
      let view = try viewing.run {
        try viewing.collections.messages(request.parameter(0), of: caller.user)
      }
      return try body(view, caller)
    }
  }

  static func snapshot(
    _ viewing: Viewing, _ view: MessageCollection, apiResult: [UInt8]? = nil, at cursor: EventCursor? = nil
  ) throws -> ByteBuffer {
    let cursor = cursor ?? viewing.reading.cache.cursor
    let sight = viewing.collections.sight(view.url)
    return try viewing.run {
      try viewing.reading.cache.read { reader in
        try view.snapshot(
          reader, sight, cursor: cursor.description, at: cursor.sequence, apiResult: apiResult)
      }
    }
  }

  private static func load(_ viewing: Viewing, _ request: Request, isOlder: Bool) throws -> Outcome {
    try Parameters(request).end()
    let token = try Viewing.parse(request) { json in
      var fields = BodyFields(json)
      let token = fields.text("from")
      if token == nil { fields.fault("from", "Give the edge token of the last page.") }
      try fields.end()
      return token ?? ""
    }
    return try with(viewing, request) { view, _ in
      let place = try viewing.run { try view.place(ofEdge: token) }
      return try EdgeLoad(viewing, request, view, place, isOlder: isOlder).answer()
    }
  }
}

/// One opening: answered at once from the cache, or held until the upstream's part is known (B16).
private final class MessageOpening {
  private let viewing: Viewing
  private let request: Request
  private let caller: Caller
  private let asked: MessageViewRequest
  private let preferences: Preferences

  init(_ viewing: Viewing, _ request: Request, _ caller: Caller, _ asked: MessageViewRequest) {
    self.viewing = viewing
    self.request = request
    self.caller = caller
    self.asked = asked
    preferences = Preferences(request)
  }

  func answer() throws -> Outcome {
    let view = try viewing.run { try viewing.collections.openMessages(asked, of: caller.user) }
    let opened = viewing.reading.cache.cursor
    guard let wait = preferences.wait, wait > 0 else {
      // What the worker answers from now on comes as an event after this cursor.
      let body = try MessageCollectionRoutes.snapshot(viewing, view, at: opened)
      viewing.reading.interest.opened(view.openView, isOwedAnswer: true)
      return respond(view, body)
    }
    var topics = Feed.Topics()
    topics.collections = [view.id]
    let waiter = request.makeWaiter()
    let ticket = viewing.collections.feed.subscribe(topics, of: view.user) { waiter.wake() }
    viewing.reading.interest.opened(view.openView, isOwedAnswer: true)
    let end = Clock.system.monotonicNanoseconds() + UInt64(wait) * 1_000_000_000
    return try held(view, since: opened, until: end, ticket)
  }

  private func held(
    _ view: MessageCollection, since: EventCursor, until end: UInt64, _ ticket: Feed.Ticket?
  ) throws -> Outcome {
    let cursor = viewing.reading.cache.cursor
    let sight = viewing.collections.sight(view.url)
    let result = try viewing.run {
      try viewing.reading.cache.read { try view.firstAnswer($0, since: since.sequence, sight) }
    }
    let now = Clock.system.monotonicNanoseconds()
    if result != nil || now >= end || request.isServerStopping {
      if let ticket { viewing.collections.feed.unsubscribe(ticket) }
      if result != nil { try viewing.run { try viewing.collections.moved(view) } }
      return respond(
        view,
        try MessageCollectionRoutes.snapshot(
          viewing, view, apiResult: result, at: result == nil ? since : cursor))
    }
    return .park(
      Parking(request.makeWaiter(), milliseconds: Int((end - now) / 1_000_000) + 1) { [self] wake in
        try held(view, since: since, until: wake == .woken ? end : 0, ticket)
      })
  }

  private func respond(_ view: MessageCollection, _ body: consuming ByteBuffer) -> Outcome {
    let response = Viewing.answer(body, status: 201)
    response.add("Location", "\(MessageCollectionRoutes.path)/\(view.id)")
    preferences.apply(to: response)
    return .respond(response)
  }
}

/// One load call: the page at an edge, fetched where it is missing (B17).
private final class EdgeLoad {
  private let viewing: Viewing
  private let request: Request
  private let view: MessageCollection
  private let anchor: PageAnchor
  private let isOlder: Bool
  private let endsAt: UInt64
  private var through: ReadThrough

  init(_ viewing: Viewing, _ request: Request, _ view: MessageCollection, _ place: Position, isOlder: Bool) {
    self.viewing = viewing
    self.request = request
    self.view = view
    self.isOlder = isOlder
    anchor = isOlder ? .before(place, isInclusive: false) : .after(place, isInclusive: false)
    let preferences = Preferences(request)
    through = ReadThrough(preferences.mode, rows: isOlder ? view.request.previousSize : view.request.nextSize)
    endsAt = Clock.system.monotonicNanoseconds() + UInt64(preferences.milliseconds) * 1_000_000
  }

  func answer(mayFetch: Bool = true) throws -> Outcome {
    let sight = viewing.collections.sight(view.url)
    var wish: MessageWish.Stretch?
    let body = try viewing.run {
      try viewing.reading.cache.read { reader -> ByteBuffer in
        let page = try view.page(anchor, isOlder: isOlder, reader, sight)
        if mayFetch, let stretch = through.next(page.reading(anchor)) {
          wish = stretch
          return ByteBuffer()
        }
        return try view.more(page, isOlder: isOlder, reader, sight)
      }
    }
    guard let wish else {
      try viewing.run { try viewing.collections.moved(view) }
      return .respond(Viewing.answer(body))
    }
    return park(wish)
  }

  private func park(_ stretch: MessageWish.Stretch) -> Outcome {
    let now = Clock.system.monotonicNanoseconds()
    let left = endsAt > now ? Int((endsAt - now) / 1_000_000) : 0
    let came = Guarded<Fetched?>(nil)
    let waiter = request.makeWaiter()
    viewing.reading.interest.fetch(MessageWish(view.url, stretch), within: left) { fetched in
      came.withLock { $0 = fetched }
      waiter.wake()
    }
    return .park(
      Parking(waiter, milliseconds: left + 500) { [self] _ in
        try answer(mayFetch: came.withLock { $0 } == .stored)
      })
  }
}
