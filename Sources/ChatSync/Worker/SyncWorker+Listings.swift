import ChatCache
import ChatModel

// Lists stretches of a channel. Pages are anchored at a time, since messages of one millisecond may come in
// another order in each answer. A page is anchored at a message in two cases: inside a millisecond with more
// messages than a page holds, if a page showed that they are ordered by id; and at the outermost message of a
// stretch.
extension SyncWorker {
  /// Lists a stretch; a full millisecond takes several listings.
  func listed(
    _ url: ChannelURL, _ stretch: MessageSyncRequest.Stretch, _ importance: Importance
  ) async throws -> [MessageListing] {
    guard let (position, isOlder) = stretch.message else {
      let listing = try await list(url, MessageWindow(stretch), importance)
      return [listing] + (try await listedByID(url, listing, importance))
    }
    // The whole millisecond of the stretch's oldest message is stored, because a cut page covers nothing of
    // its last millisecond. An item beside it that could not be read may be of the same millisecond.
    if isOlder, !(besideUnreadable[url]?.contains(position) ?? false),
      try store.line(of: url)?.oldest == position
    {
      return try await listed(url, beyond: position, isOlder: true, importance)
    }
    let window = MessageWindow(stretch)
    let listing = try await list(url, window, importance)
    let rows = listing.rows.map(\.position)
    let isFull = rows.count >= window.older + window.newer
    let moment = rows.filter { $0.createdAt == position.createdAt }
    if moment.count < rows.count {
      guard isFull, listing.isGainless(beyond: position, isOlder), Listing.areTiesOrdered(rows) else {
        return [listing]
      }
      let edge = (isOlder ? moment.min() : moment.max()) ?? position
      return [listing] + (try await listed(url, beyond: edge, isOlder: isOlder, importance))
    }
    // No message beyond the millisecond came: the page is full of it, or no more messages exist.
    guard let edge = isOlder ? rows.min() : rows.max() else { return [listing] }
    guard isFull else {
      return [listing] + (try await listed(url, beyond: edge, isOlder: isOlder, importance))
    }
    guard Listing.areTiesOrdered(rows) else { return [listing] }
    do { return [listing] + (try await pages(url, beyond: position, isOlder: isOlder, importance)) } catch {
      guard error.isNotFoundUpstream else { throw error }
      return [listing]
        + (try await listed(url, from: nearest(to: position, rows, isOlder), isOlder, importance))
    }
  }

  /// The row from which a full millisecond is paged if no message has exactly that position.
  private func nearest(to position: Position, _ rows: [Position], _ isOlder: Bool) -> Position? {
    isOlder
      ? rows.filter { $0 >= position }.min() ?? rows.max()
      : rows.filter { $0 <= position }.max() ?? rows.min()
  }

  /// A page anchored at a message. It includes the message, and one row on the message's other side. That row
  /// joins the page to the stretch there.
  private func listed(
    _ url: ChannelURL, from row: Position?, _ isOlder: Bool, _ importance: Importance
  ) async throws -> [MessageListing] {
    guard let row else { return [] }
    let rows = GapCheck.pageRows
    let window = MessageWindow(.message(row), older: isOlder ? rows : 1, newer: isOlder ? 1 : rows)
    do { return [try await list(url, window, importance)] } catch {
      // The message was deleted meanwhile: the next check begins at another one.
      guard error.isNotFoundUpstream else { throw error }
      return []
    }
  }

  /// Lists what is older, or newer, than a message beside which nothing else of its millisecond is missing.
  /// If the message is gone upstream, lists its millisecond, and then what is beyond a message of that.
  private func listed(
    _ url: ChannelURL, beyond edge: Position, isOlder: Bool, _ importance: Importance
  ) async throws -> [MessageListing] {
    do { return try await pages(url, beyond: edge, isOlder: isOlder, importance) } catch {
      guard error.isNotFoundUpstream else { throw error }
      let window = MessageWindow(
        .time(edge.createdAt), older: isOlder ? GapCheck.pageRows : 0, newer: isOlder ? 0 : GapCheck.pageRows)
      let listing = try await list(url, window, importance)
      let rows = listing.rows.map(\.position)
      guard let next = isOlder ? rows.min() : rows.max(), next.createdAt == edge.createdAt, next != edge
      else {
        return [listing]
      }
      return [listing] + (try await pages(url, beyond: next, isOlder: isOlder, importance))
    }
  }

  /// One page beyond the message. A page that is full of one other millisecond proves nothing of it: then
  /// that millisecond is paged by message, from its row nearest to `edge`.
  private func pages(
    _ url: ChannelURL, beyond edge: Position, isOlder: Bool, _ importance: Importance
  ) async throws -> [MessageListing] {
    let listing = try await page(url, beyond: edge, isOlder: isOlder, importance)
    let rows = listing.rows.map(\.position)
    guard let low = rows.min(), let high = rows.max(), low.createdAt == high.createdAt,
      low.createdAt != edge.createdAt, rows.count >= GapCheck.pageRows, Listing.areTiesOrdered(rows)
    else { return [listing] }
    return [listing] + (try await listed(url, from: isOlder ? high : low, isOlder, importance))
  }

  /// One page beyond the message. A server that orders ties anew in each answer may show known messages of
  /// the same millisecond there: then the page beyond the millisecond is listed.
  private func page(
    _ url: ChannelURL, beyond edge: Position, isOlder: Bool, _ importance: Importance
  ) async throws -> MessageListing {
    let rows = GapCheck.pageRows
    let window = MessageWindow(
      .message(edge), older: isOlder ? rows : 0, newer: isOlder ? 0 : rows, includesAnchor: false)
    let listing = try await list(url, window, importance)
    guard listing.rows.contains(where: { isOlder ? $0.position > edge : $0.position < edge }) else {
      return listing
    }
    var moment = window
    moment.anchor = .time(edge.createdAt)
    var beyond = try await list(url, moment, importance)
    beyond.window = window
    return beyond
  }

  /// If a page proved nothing, lists its stretch again with a message as the anchor. If no message beyond the
  /// anchor comes, asks for those alone: only an empty answer proves that there are none.
  private func listedByID(
    _ url: ChannelURL, _ page: MessageListing, _ importance: Importance
  ) async throws -> [MessageListing] {
    guard let window = page.window.byMessage(from: page.rows.map(\.position)),
      case .message(let from) = window.anchor
    else { return [] }
    do {
      let listing = try await list(url, window, importance)
      let rows = listing.rows.map(\.position)
      var beyond: MessageWindow?
      if window.newer == 1, rows.max() == from { beyond = MessageWindow(.message(from), older: 0, newer: 1) }
      if window.older == 1, rows.min() == from { beyond = MessageWindow(.message(from), older: 1, newer: 0) }
      guard var beyond else { return [listing] }
      beyond.includesAnchor = false
      return [listing, try await list(url, beyond, importance)]
    } catch {
      // The message was deleted meanwhile: the next check begins at another one.
      guard error.isNotFoundUpstream else { throw error }
      return []
    }
  }
}

extension MessageWindow {
  /// The window to list for a sync request.
  ///
  /// The anchor is the position's whole millisecond. A position of no message (the end of a claim) has the
  /// smallest or the largest id of its millisecond, which tells whether the millisecond is in the stretch.
  init(_ stretch: MessageSyncRequest.Stretch) {
    func rows(_ wanted: Int) -> Int { min(max(wanted, 0), Limits.messagePageRows) }
    // The rest of the position's millisecond comes, too.
    let least = stretch.message == nil ? 0 : GapCheck.pageRows
    switch stretch {
    case .older(let position, let wanted):
      self.init(
        .time(min(position.createdAt, Endpoint.newest)), older: rows(max(wanted, least)), newer: 0,
        includesAnchor: position.messageID != .min)
    case .newer(let position, let wanted):
      self.init(
        .time(position.createdAt), older: 0, newer: rows(max(wanted, least)),
        includesAnchor: position.messageID != .max)
    case .around(let time, let older, let newer):
      self.init(.time(time), older: rows(older), newer: rows(newer))
    case .newest, .message:
      self.init(.newest, older: GapCheck.pageRows, newer: 0)
    }
  }

  /// The same window anchored at a message, for a page whose rows proved nothing. Nil: the page proved
  /// something or was empty, or the server does not order ties by their ids.
  func byMessage(from rows: [Position]) -> MessageWindow? {
    guard case .time = anchor, let first = rows.min(), let last = rows.max(), listing(rows).claim == nil,
      Listing.areTiesOrdered(rows)
    else { return nil }
    // One row beyond the anchor joins it to what lies on the other side.
    if newer == 0 { return MessageWindow(.message(last), older: older, newer: 1) }
    if older == 0 { return MessageWindow(.message(first), older: 1, newer: newer) }
    return MessageWindow(.message(first), older: older, newer: newer)
  }
}

extension MessageListing {
  /// Whether a message after the position replies to one that the listing lacks.
  func lacksParents(after position: Position?) -> Bool {
    let ids = Set(rows.map(\.messageID))
    return rows.contains { row in
      row.parentID.map { !ids.contains($0) && position.map { row.position > $0 } ?? true } ?? false
    }
  }

  /// Whether the listing proves none of its rows beyond the position, because it may have cut their
  /// millisecond.
  fileprivate func isGainless(beyond position: Position, _ isOlder: Bool) -> Bool {
    let rows = rows.map(\.position)
    guard let claim = window.listing(rows).claim else { return true }
    return !rows.contains { (isOlder ? $0 < position : $0 > position) && claim.contains($0) }
  }
}

extension MessageSyncRequest.Stretch {
  /// The message at which the stretch begins, and whether the stretch is older; nil: no message has that
  /// position.
  fileprivate var message: (position: Position, isOlder: Bool)? {
    switch self {
    case .older(let position, _) where position.isOfMessage: (position, true)
    case .newer(let position, _) where position.isOfMessage: (position, false)
    default: nil
    }
  }
}

extension Position {
  /// Whether it may be a message's position, and not only an end of its millisecond.
  fileprivate var isOfMessage: Bool {
    messageID != .min && messageID != .max && self < .end && self > .start
  }
}
