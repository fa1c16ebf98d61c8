import ChatCache
import ChatCollections
import ChatModel
import JSON
import MicroHTTP
import Platform

/// The parts of a poll or stream: the caller, the views it follows, and whether it follows the user's own
/// feed.
struct Followed {
  let context: CollectionContext
  let caller: Caller
  let targets: [Follower.Target]
  let hasUserFeed: Bool
}

/// One poll or stream of events. It reads the event log again each time it is woken (B50, B51).
class Follower {
  /// A view that is followed.
  enum Target {
    case messages(MessageCollection)
    case channels(ChannelCollection)

    /// The view's id.
    var id: String {
      switch self {
      case .messages(let view): view.id
      case .channels(let view): view.id
      }
    }

    /// The path of the request that reads the view again.
    var path: String {
      switch self {
      case .messages: "\(MessageCollectionRoutes.path)/\(id)"
      case .channels: "\(ChannelCollectionRoutes.path)/\(id)"
      }
    }
  }

  /// The views that are followed. Most requests follow one, which is stored without an array.
  struct Targets: RandomAccessCollection {
    private let first: Target?
    private let others: [Target]
    var startIndex: Int { 0 }
    var endIndex: Int { (first == nil ? 0 : 1) + others.count }
    subscript(index: Int) -> Target { index == 0 ? first! : others[index - 1] }

    init(_ targets: [Target]) {
      first = targets.first
      others = Array(targets.dropFirst())
    }
  }

  /// The events that one read of the log found.
  struct Found: ~Copyable {
    let body: EventsBody
    let cursor: EventCursor
    let hasMore: Bool
    let isEmpty: Bool
    /// Whether messages are held back, because Perch does not know which channels the user has left (B1).
    let isHeld: Bool
    /// The answer key, if other views may get the same answer.
    let key: AnswerKey?
    fileprivate let moves: [() -> Void]
    fileprivate let settles: [(Int64) -> Void]

    /// The body of the answer.
    consuming func answer() -> ByteBuffer { body.finish(cursor, hasMore: hasMore) }
  }

  final let context: CollectionContext
  final let request: Request
  final let caller: Caller
  let targets: Targets
  private let hasUserFeed: Bool
  /// Whether the views were made ready since the last answer.
  final var hasMadeReady = false
  private let user: UserKey
  /// How many views had ended when those of the request were last found; nil: they were not looked for yet.
  private var foundAt: UInt64?
  private var ticket: ChangeSubscriptions.Ticket?

  init(_ followed: Followed, _ request: Request) throws {
    context = followed.context
    self.request = request
    caller = followed.caller
    targets = Targets(followed.targets)
    hasUserFeed = followed.hasUserFeed
    let (context, name) = (followed.context, followed.caller.user)
    guard let user = try context.run({ try context.route.cache.userKey(of: name) }) else {
      throw Problem(ViewError.notFound)
    }
    self.user = user
  }

  /// The name under which answers are shared: a single chat view's id, or the user's feed. Nil for several of
  /// them, and for a channel list: a second poll of the same list is rare.
  final var sharedName: String? {
    if targets.isEmpty, hasUserFeed { return "user:\(user.rawValue)" }
    return alone?.id
  }

  /// Subscribes to changes of the views and the feed; called before the log is read (B51). Throws a 503 if
  /// too many requests wait (B54). `isOnce`: the subscription ends with the first wake, after which `woken`
  /// is called.
  final func subscribe(_ waiter: Waiter, isOnce: Bool = false) throws {
    guard ticket == nil else { return }
    ticket = context.collections.subscriptions.subscribe(waiter, to: topics, isOnce: isOnce)
    guard ticket != nil else { throw Problem.tooManyParked }
  }

  /// The topics of a single view, or the topics of all views together.
  private var topics: ChangeSubscriptions.Topics {
    if targets.count == 1, !hasUserFeed {
      switch targets[0] {
      case .messages(let view): return view.topics
      case .channels(let view): return view.topics
      }
    }
    var channels: [ChannelKey] = []
    var names: [String] = []
    var isOfUser = hasUserFeed
    for target in targets {
      switch target {
      case .messages(let view):
        channels.append(view.channel)
        names.append(view.id)
      case .channels(let view):
        isOfUser = true
        names.append(view.id)
      }
    }
    return ChangeSubscriptions.Topics(
      of: user, channels: channels, collections: names, user: isOfUser ? user : nil)
  }

  private var cursorExpired: Problem { .cursorExpired(targets, hasUserFeed: hasUserFeed) }

  /// Whether the request waits for events.
  final var isSubscribed: Bool { ticket != nil }

  /// The request was woken. If something other than a change woke it, its subscription is still there and
  /// ends here.
  final func woken() { unsubscribe() }

  /// Ends the subscription.
  final func unsubscribe() {
    if let ticket { context.collections.subscriptions.unsubscribe(ticket) }
    ticket = nil
  }

  /// The cursor at this moment.
  final var cursorNow: EventCursor { context.route.cache.cursor(of: user) }

  /// Checks that the caller still has the right to ask, and that the views still exist. Every answer is given
  /// after this check, a shared one too.
  ///
  /// The cursor's log is checked before the views: they may be gone together with that log (B52, B58).
  final func admit(_ since: EventCursor) throws {
    try context.route.admitAgain(caller, request)
    guard since.epoch == context.route.cache.cursor.epoch else { throw cursorExpired }
    let removals = context.collections.removals
    try context.run {
      for target in targets {
        // The cursor belongs to the old view if the view began anew or is about to.
        guard try isSame(target, isOpen: removals == foundAt) else { throw cursorExpired }
      }
    }
    foundAt = removals
  }

  /// Whether the view is the one that was found when the request came. Throws if it was disposed of.
  /// `isOpen`: whether no view has ended since it was found.
  private func isSame(_ target: Target, isOpen: Bool) throws -> Bool {
    let (collections, user) = (context.collections, caller.user)
    do {
      switch target {
      case .messages(let view):
        if isOpen { try collections.asked(for: view) }
        return try (isOpen || collections.messages(view.id, of: user) === view)
          && collections.isOfThisLog(view)
      case .channels(let view):
        if isOpen { try collections.asked(for: view) }
        return try (isOpen || collections.channels(view.id, of: user) === view)
          && collections.isOfThisLog(view)
      }
    } catch ViewError.notFound where EventRoutes.namesViews(request) {
      throw Problem.collectionNotFound(target.id)
    }
  }

  /// The message view, if the request follows nothing else.
  final var alone: MessageCollection? {
    guard targets.count == 1, !hasUserFeed, case .messages(let view) = targets[0] else { return nil }
    return view
  }

  /// The identity of `alone`, without retaining the view.
  final var aloneIdentity: ObjectIdentifier? {
    guard targets.count == 1, !hasUserFeed, case .messages(let view) = targets[0] else { return nil }
    return ObjectIdentifier(view)
  }

  /// The answer of another view whose answer key matches this view (see `AnswerKey`). It may end before the
  /// log's end, if what came since concerns others. So clients who were told together stay together. `end`:
  /// the sequence up to which the poll is told; nil: the log's end.
  final func alike(_ since: EventCursor, _ head: EventCursor, upTo end: Int64?) throws -> SharedResponse? {
    guard let view = alone, since.epoch == head.epoch else { return nil }
    let known = context.shared.alike(view.channel, since)
    guard !known.isEmpty else { return nil }
    return try context.run {
      guard let member = try view.member(context.route.cache),
        let found = known.last(where: {
          $0.since == since && $0.key.until <= head.sequence && $0.key.matches(view, member)
        }),
        try !lacks(found.key, of: view, upTo: end ?? .max), found.key.adopt(by: view)
      else { return nil }
      return found.response
    }
  }

  /// Whether the other view's answer lacks what concerns this view and came after it, up to `end`, or what
  /// came since for this view's user alone: a message that was withheld from its sender when the answer was
  /// made may be shown by now.
  private func lacks(_ key: AnswerKey, of view: MessageCollection, upTo end: Int64) throws -> Bool {
    let cache = context.route.cache
    guard end > key.until || cache.mayHaveOwn(view.user, after: key.until) else { return false }
    return try cache.read { reader in
      try reader.concerns(view.logScope, after: key.until, upTo: end)
        || end < .max && reader.hasOwn(view.logScope, after: key.until)
    }
  }

  /// Whether a poll with this cursor is answered with the chat's present wave, waits for the next one, or
  /// neither.
  ///
  /// A client of which Perch does not know all that it shows is told everything at once: after that Perch
  /// knows it. So is another client of a view that was told with the wave: it may show something else. And so
  /// is one for whose user alone something came that the wave does not tell. The user's own counts may wait:
  /// each member's own poll brings them.
  final func turn(_ since: EventCursor) throws -> Waves.Turn {
    guard let view = alone else { return .free }
    let turn = context.collections.subscriptions.turn(in: view.channel, after: since.sequence)
    var end = since.sequence
    switch turn {
    case .free: return .free
    case .told(let head) where view.isShownKnown(at: head): return .free
    case .told(let head): end = head
    case .waits: break
    }
    guard view.isShownKnown(at: since.sequence) else { return .free }
    let cache = context.route.cache
    guard cache.mayHaveOwn(view.user, after: end) else { return turn }
    let hasOwn = try context.run { try cache.read { try $0.hasOwn(view.logScope, after: end) } }
    return hasOwn ? .free : turn
  }

  /// Counts the poll as told with the present wave of the chat.
  final func noteTold() {
    if let view = alone { context.collections.subscriptions.noteTold(in: view.channel) }
  }

  /// Whether the client has everything: its cursor is the log's end, or what came since concerns others, and
  /// the user may still see all it follows.
  final func isUpToDate(_ since: EventCursor) throws -> Bool {
    let cache = context.route.cache
    let head = cache.cursor
    return try context.run {
      guard try since == head || areOfOthers(since, head) else { return false }
      for case .messages(let view) in targets where try view.member(cache) == nil {
        guard let own = try cache.view(of: view.url, for: view.userID), own.isJoined, own.user == view.user
        else { return false }
      }
      return try !hasUserFeed || cache.userKey(of: caller.user) == user
    }
  }

  /// Whether all changes between the cursors concern others. False if that takes a look at the views.
  private func areOfOthers(_ since: EventCursor, _ head: EventCursor) throws -> Bool {
    guard let view = alone, since.epoch == head.epoch, since.run == head.run, since.sequence < head.sequence
    else { return false }
    return try context.route.cache.read { reader in
      let isKept = try reader.covers(since)
      return try isKept && !reader.concerns(view.logScope, after: since.sequence)
    }
  }

  /// Reads the events after `since`, for an admitted caller. Changes nothing: `settle` does. `end`: the
  /// sequence at which the answer ends, if it has events up to there; nil: the log's end.
  final func look(_ since: EventCursor, upTo end: Int64? = nil) throws -> Found {
    if let end {
      let found = try context.run { try read(since, upTo: end) }
      if !found.isEmpty || end >= context.route.cache.cursor.sequence { return found }
    }
    return try context.run { try read(since) }
  }

  /// Moves the views' windows as the answer needs it. False: the move has to be stored first, and the answer
  /// is made again after `makeReady`.
  final func move(_ found: borrowing Found) -> Bool {
    guard !found.moves.isEmpty else { return true }
    for move in found.moves { move() }
    return isReady
  }

  /// Called when the client gets the answer: each view notes what its client now has.
  final func settle(_ found: borrowing Found) {
    for settle in found.settles { settle(found.cursor.sequence) }
    // The next read of a stream makes its views ready again.
    hasMadeReady = false
  }

  private func read(_ since: EventCursor, upTo end: Int64? = nil) throws -> Found {
    let head = context.route.cache.cursor
    return try context.route.read { reader in
      guard try reader.covers(since) else { throw cursorExpired }
      let head = EventCursor(
        epoch: head.epoch, run: head.run,
        sequence: max(min(try reader.lastChange(), end ?? .max), since.sequence))
      // Asked for after the snapshot was opened: it is at least as new as the changes that tell of it.
      let connection = connection(since)
      do {
        return try tell(reader, connection, since: since, head: head, endsAtHead: end != nil)
      } catch CacheError.rightsUnknown {
        return try foundOfConnection(reader, connection, since)
      }
    }
  }

  private func tell(
    _ reader: CacheReader, _ connection: ClientConnection, since: EventCursor, head: EventCursor,
    endsAtHead: Bool
  ) throws -> Found {
    var until = head.sequence
    while true {
      let told = try tell(
        reader, connection, since: since.sequence, until: until, endsAtHead: endsAtHead)
      // If one view's answer was cut, or all together are too large, all are read again up to an earlier end.
      let end = told.end
      if let earlier = told.earlierEnd(since: since.sequence, until: until) {
        until = earlier
      } else {
        let cursor = EventCursor(
          epoch: head.epoch, run: head.run, sequence: end, connection: since.connection)
        return told.found(cursor, head: head.sequence)
      }
    }
  }

  /// The answer for a user of whom Perch does not know which channels the user has left (B1). It has an event
  /// of the user's connection, if that changed. Its cursor stays before the messages that are held back.
  private func foundOfConnection(
    _ reader: CacheReader, _ connection: ClientConnection, _ since: EventCursor
  ) throws -> Found {
    let changes = try reader.connectionChanges(
      of: user, after: since.connection, upTo: try reader.lastChange())
    let name = targets.count > 1 && !hasUserFeed ? targets[0].id : nil
    let event = connection.event(changes, collection: name)
    var body = EventsBody()
    event?.withUnsafeBytes { body.add($0) }
    return Found(
      body: body,
      cursor: since.knowingConnection(upTo: changes.last?.sequence ?? since.connection), hasMore: false,
      isEmpty: event == nil, isHeld: true, key: nil, moves: [], settles: [])
  }

  private func connection(_ since: EventCursor) -> ClientConnection {
    ClientConnection(
      context.route.syncRequests.connection(of: caller.user), knownUpTo: since.connection)
  }

  private func tell(
    _ reader: CacheReader, _ connection: ClientConnection, since: Int64, until: Int64, endsAtHead: Bool
  ) throws -> Told {
    let isMany = targets.count + (hasUserFeed ? 1 : 0) > 1
    var told = Told(until: until, feeds: targets.count + (hasUserFeed ? 1 : 0))
    for (index, target) in targets.enumerated() {
      // If the views so far are far too large, the rest is not read. A single sequence is not cut.
      if told.isFarTooMuch, until > since + 1 { return told }
      // Only one feed of an answer reports the connection.
      let own = !hasUserFeed && index == 0 ? connection : nil
      switch target {
      case .messages(let view):
        var exact = context.collections.viewContext(view.url)
        exact.head = until
        exact.connection = own
        exact.endsAtHead = endsAtHead
        told.take(
          try view.changes(
            reader, since: since, until: until, exact, room: Limits.eventBytes,
            collection: isMany ? view.id : nil))
      case .channels(let view):
        told.take(
          try view.changes(
            reader, since: since, until: until, connection: own, room: Limits.eventBytes,
            collection: isMany ? view.id : nil))
      }
    }
    if hasUserFeed {
      do {
        told.take(
          try UserFeed(caller.user).changes(
            reader, since: since, until: until, connection: connection, room: Limits.eventBytes))
      } catch ViewError.notFound {
        // The user's data was removed, and the client's with it.
        throw cursorExpired
      }
    }
    return told
  }

  /// The events of several views in one answer.
  private struct Told: ~Copyable {
    /// The events so far; nil: there is no answer yet.
    private var body: EventsBody?
    /// The earliest and the latest end of the answers so far.
    private(set) var end: Int64
    private var latestEnd: Int64 = 0
    private var answers = 0
    private var moves: [() -> Void] = []
    private var settles: [(Int64) -> Void] = []
    private var isEmpty = true
    private var key: AnswerKey?
    private var hasMore = false

    /// How many views and feeds there are.
    private let feeds: Int

    init(until: Int64, feeds: Int) {
      end = until
      self.feeds = feeds
    }

    /// Whether the views that were read so far fill more than two answers.
    var isFarTooMuch: Bool { bytes > 2 * Limits.eventBytes }

    private var bytes: Int {
      switch body {
      case nil: 0
      case .some(let body): body.count
      }
    }

    /// The end up to which all views have to be read again. If all together are too large, it is nearer to
    /// `since` in proportion; otherwise it is where a view was cut. Nil: the answer stays as it is.
    func earlierEnd(since: Int64, until: Int64) -> Int64? {
      let isEven = answers == feeds && latestEnd <= end
      let bytes = bytes * feeds / max(1, answers)
      guard feeds > 1, until > since + 1, bytes > Limits.eventBytes else { return isEven ? nil : end }
      let part = Double(Limits.eventBytes) * 0.75 / Double(bytes)
      return since + max(1, min(Int64(Double(end - since) * part), until - since - 1))
    }

    mutating func take(_ answer: consuming ViewAnswer) {
      answers += 1
      // A view alone may end later: it tells the loss of its channel at once, in a wave, too.
      end = feeds == 1 ? answer.end : min(end, answer.end)
      latestEnd = max(latestEnd, answer.end)
      if let move = answer.move { moves.append(move) }
      settles.append(answer.settle)
      hasMore = hasMore || answer.hasMore
      key = answers == 1 ? answer.key : nil
      isEmpty = isEmpty && answer.isEmpty
      if body == nil { body = answer.releaseBody() } else { body?.append(answer.body) }
    }

    /// `head`: the log's end. A view alone ends at the last change that concerns it.
    consuming func found(_ cursor: EventCursor, head: Int64) -> Found {
      let hasMore = feeds == 1 ? hasMore : cursor.sequence < head
      return Found(
        body: body ?? EventsBody(), cursor: cursor, hasMore: hasMore, isEmpty: isEmpty, isHeld: false,
        key: key, moves: moves, settles: settles)
    }
  }
}

extension Waiter: Wakeable {}
