import ChatCache
import ChatModel
import JSON
import Platform

/// One open chat view: the window of a channel that its client has loaded, and what the client knows
/// (B16–B18).
///
/// It keeps positions, not messages: every answer is read from the cache as it is at that moment.
package final class MessageCollection: Sendable {
  /// The view's id.
  package let id: String
  /// The user who opened the view.
  package let user: UserKey
  /// The same user's id.
  package let userID: UserID
  /// The channel whose messages it shows.
  package let channel: ChannelKey
  /// The same channel's url.
  package let url: ChannelURL
  /// The parameters with which the client opened the view.
  package let request: MessageViewRequest

  struct State: Sendable {
    /// The loaded window, and how much of it the table `collection` has.
    var held: HeldWindow<LoadedRange>
    var known = ClientKnowledge<Int64>()
    var accessedAt: Int64
    /// The view's user, if that is a plain member.
    var member: PlainMember?
    /// Whether the window may be without the first page as the upstream answered it (B16).
    var mayLackFirstPage = true
    /// Whether the client loaded older messages last, and none came at the newest end since: a window that is
    /// too large is cut at its newest end then, where the client does not read.
    var isGrowingOlder = false

    var range: LoadedRange {
      get { held.now }
      set { held.now = newValue }
    }
    var isBounded: Bool {
      get { held.isBounded }
      set { held.isBounded = newValue }
    }

    /// Notes that the client was answered up to `sequence` and then has `shown`.
    mutating func answered(at sequence: Int64, _ shown: ClientKnowledge<Int64>.Shown, _ bound: WindowBound) {
      // Two answers of a wave end at one cursor. The later one may have what came since.
      known.oneAnswered(at: sequence, shown)
      if shown.exceeds(bound.rows) { isBounded = false }
    }
  }
  let state: Guarded<State>
  /// Whether Perch knows all that a client with that cursor shows.
  package func isShownKnown(at sequence: Int64) -> Bool {
    state.withLock { $0.known.shown(at: sequence).isWhole }
  }
  /// The changes of the log that the view reads.
  package var logScope: LogScope { LogScope(view: id, of: user, in: channel) }
  /// The topics that requests for its events subscribe to.
  package let topics: ChangeSubscriptions.Topics
  /// The identity of the log that `channel` belongs to.
  let epoch: UInt64
  /// The most messages that the window may hold.
  let bound: WindowBound

  init(
    id: String, user: UserKey, userID: UserID, channel: ChannelKey, request: MessageViewRequest,
    range: LoadedRange, accessedAt: Int64, epoch: UInt64, bound: WindowBound = WindowBound(),
    isBounded: Bool = false
  ) {
    self.epoch = epoch
    self.bound = bound
    topics = ChangeSubscriptions.Topics(of: user, channels: [channel], collections: [id], isOfView: true)
    self.id = id
    self.user = user
    self.userID = userID
    self.channel = channel
    url = ChannelURL(request.channelURL)
    self.request = request
    state = Guarded(State(held: HeldWindow(range, isBounded: isBounded), accessedAt: accessedAt))
  }

  /// The loaded window.
  package var range: LoadedRange { state.withLock { $0.range } }

  /// The description of the view for the sync worker.
  package var openView: OpenView {
    let start = OpenView.Start(
      at: request.positions?.lowerBound.createdAt, older: request.previousSize,
      newer: request.start == nil ? 0 : request.nextSize)
    return OpenView(
      id: id, channel: url, start: start, isAtNewest: !range.hasNext,
      thread: request.filter.parent)
  }

  /// The coverage of the channel, or of the thread that the view shows.
  func coverage(_ reader: CacheReader) throws -> Coverage {
    try reader.coverage(of: channel, thread: request.filter.parent)
  }

  /// The view's user as a plain member of the channel; nil: the user is none.
  package func member(_ cache: Cache) throws -> PlainMember? {
    if let known = state.withLock({ $0.member }), cache.isStill(known) { return known }
    let found = try cache.plainMember(userID, in: url).flatMap { $0.user == user ? $0 : nil }
    state.withLock { $0.member = found }
    return found
  }

  /// The channel as the user sees it now. Throws if the user may not see it (B1).
  func view(_ reader: CacheReader) throws -> ChannelView {
    guard let view = try reader.view(of: url, for: user) else { throw ViewError.channelNotFound }
    guard view.isJoined else { throw ViewError.notJoined }
    try reader.requireLog(since: view.heldAt)
    return view
  }

  /// Extends a range by the first page as the cache has it now. Called when the view is opened, and again
  /// after the upstream's answer. The range never shrinks.
  func withFirstPage(
    _ range: LoadedRange, _ reader: CacheReader, _ view: ChannelView, _ viewContext: ViewContext
  ) throws -> LoadedRange {
    var range = range
    if let start = request.positions {
      let older = try page(
        .before(start.lowerBound, isInclusive: false), request.previousSize, reader, view, viewContext)
      let newer = try page(
        .after(start.upperBound, isInclusive: false), request.nextSize, reader, view, viewContext)
      range.take(start, hasPrevious: nil, hasNext: nil)
      range.take(older.span, hasPrevious: older.hasPrevious, hasNext: nil)
      range.take(newer.span, hasPrevious: nil, hasNext: !newer.isAtNewestEnd)
    } else {
      let page = try page(.newest, request.previousSize, reader, view, viewContext)
      if range.loaded == nil {
        let tail = page.ground.coverage.tailStart
        range.take(page.span ?? tail...tail, hasPrevious: page.hasPrevious, hasNext: false)
      } else {
        range.take(page.span, hasPrevious: page.hasPrevious, hasNext: nil)
      }
    }
    return range
  }

  /// One page of the view's messages.
  func page(
    _ anchor: PageAnchor, _ limit: Int, _ reader: CacheReader, _ view: ChannelView, _ viewContext: ViewContext
  ) throws -> MessagePage {
    try page(
      MessagePageQuery(anchor, limit: limit, isReversed: request.isReversed, filter: request.filter), reader,
      view, viewContext)
  }

  func page(
    _ query: MessagePageQuery, _ reader: CacheReader, _ view: ChannelView, _ viewContext: ViewContext
  ) throws -> MessagePage {
    let ground = MessagePageGround(
      query.anchor, try coverage(reader), view, link: viewContext.link,
      interval: viewContext.interval, now: viewContext.now)
    return try reader.page(query, in: view, on: ground)
  }

  /// Whether a shown row belongs to the view (B18).
  func contains(_ position: Position, in range: LoadedRange, _ coverage: Coverage, _ view: ChannelView)
    -> Bool
  {
    if !request.isInclusive, let start = request.positions, start.contains(position) { return false }
    return range.contains(position) && coverage.shows(position, floor: view.floorAt)
  }

  /// All messages of the view now.
  func rows(
    _ reader: CacheReader, _ view: ChannelView, _ coverage: Coverage, _ range: LoadedRange
  ) throws -> RowList {
    var list = RowList()
    guard let reach = range.reach else { return list }
    try reader.eachRow(of: reach, filter: request.filter, in: view) { row in
      if row.isShown, contains(row.position, in: range, coverage, view) {
        list.append(row.position, version: row.version, row.object.bytes)
      }
      return true
    }
    return list
  }

  /// Whether the window may hold too many rows, so that it has to be checked.
  package var isPerhapsTooLarge: Bool { state.withLock { !$0.isBounded } }

  /// Cuts a window that holds too many rows (B22), at the end that does not grow. Returns the smaller window
  /// and the stretch that was cut. Nil: nothing has to be cut.
  func cut(
    _ range: LoadedRange, _ reader: CacheReader
  ) throws -> (range: LoadedRange, gone: ClosedRange<Position>)? {
    let isGrowingOlder = state.withLock { state in
      // Set before counting: an answer given meanwhile clears it, and the window is checked again.
      state.isBounded = true
      return state.isGrowingOlder
    }
    // A user who is no longer in the channel is shown nothing.
    guard let view = try reader.view(of: url, for: user), view.isJoined, let reach = range.reach else {
      return nil
    }
    let coverage = try coverage(reader)
    var positions: [Position] = []
    try reader.eachRow(of: reach, filter: request.filter, in: view) { row in
      if row.isShown, contains(row.position, in: range, coverage, view) { positions.append(row.position) }
      return true
    }
    guard positions.count > bound.rows else { return nil }
    var left = range
    if isGrowingOlder {
      let last = positions[bound.rowsLeft - 1]
      left.letGo(newerThan: last)
      return (left, last.next...max(positions[positions.count - 1], reach.upperBound))
    }
    let first = positions[positions.count - bound.rowsLeft]
    left.letGo(olderThan: first)
    return (left, min(positions[0], reach.lowerBound)...first.previous)
  }

  /// The token of an edge: a position and the view's id.
  package func edge(_ position: Position) -> String { "\(position).\(id)" }

  /// The position in an edge token, which came as the field of that name. If it is in a part of the window
  /// that was cut, of which the client may not have heard yet, the window's own end.
  package func position(ofEdge token: String, _ field: String) throws(ViewError) -> Position {
    let parts = token.split(separator: ".", maxSplits: 1)
    guard parts.count == 2, parts[1].hasSameBytes(as: id), let position = Position(parts[0]),
      let loaded = range.loaded
    else { throw ViewError.foreignEdge(field) }
    return min(max(position, loaded.lowerBound), loaded.upperBound)
  }
}
