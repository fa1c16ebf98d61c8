import ChatCache
import ChatCollections
import ChatModel
import JSON
import MicroHTTP
import Platform

/// A page of messages as JSON, with its edges.
struct MessagePageAnswer {
  /// The position before which the client finds older messages. It is nil if there are none, or if they are
  /// in a gap and the upstream cannot be asked now.
  let previous: Position?
  /// The position after which the client finds newer messages. It is nil in the same cases.
  let next: Position?
  /// Whether the page ends at a gap that cannot be filled before the upstream answers again.
  let isCutOff: Bool

  /// `isAway`: the upstream could not be asked for what is missing.
  init(_ page: borrowing MessagePage, _ query: MessagePageQuery, isAway: Bool) {
    let anchor = MessagePageAnswer.position(of: query.anchor)
    let isOlderCutOff = isAway && page.olderGap != nil
    let isNewerCutOff = isAway && page.newerGap != nil
    // If the anchor lies within a gap, the gap's end may lie beyond it: no link leads back over the anchor.
    let older = (MessagePageAnswer.older(page) ?? anchor).map { min($0, anchor ?? .end) }
    let newer = (MessagePageAnswer.newer(page) ?? anchor).map { max($0, anchor ?? .start) }
    previous = page.hasPrevious && !isOlderCutOff ? older : nil
    next = page.hasNext && !isNewerCutOff ? newer : nil
    isCutOff = isOlderCutOff || isNewerCutOff
  }

  private static func position(of anchor: PageAnchor) -> Position? {
    switch anchor {
    case .before(let position, _), .after(let position, _), .around(let position, _):
      position == .start || position == .end ? nil : position
    }
  }

  private static func older(_ page: borrowing MessagePage) -> Position? {
    if let gap = page.olderGap, gap.range.upperBound < .end { return gap.range.upperBound.next }
    return page.span?.lowerBound
  }

  private static func newer(_ page: borrowing MessagePage) -> Position? {
    if let gap = page.newerGap, gap.range.lowerBound > .start { return gap.range.lowerBound.previous }
    return page.span?.upperBound
  }

  /// The first bytes of the whole answer. The page's items are read behind them; `write` adds the rest.
  static let head: StaticString = "{\"items\":["

  /// The whole answer, of a page whose items begin with `head`.
  func write(_ page: consuming MessagePage, cursor: EventCursor) -> ByteBuffer {
    let (hasPrevious, hasNext, isComplete) = (page.hasPrevious, page.hasNext, page.isComplete)
    let (gaps, ground, isUnverified) = (page.gaps, page.ground, page.isUnverified)
    let isAtNewestEnd = page.isAtNewestEnd
    var json = JSONWriter(continuing: page.intoItems())
    json.endArray()
    MessagePageAnswer.write("previous", previous, into: &json)
    MessagePageAnswer.write("next", next, into: &json)
    json.field("has_previous", hasPrevious)
    json.field("has_next", hasNext)
    json.field("complete", isComplete)
    json.name("gaps")
    json.beginArray()
    for gap in gaps { GapObject.write(gap, into: &json) }
    json.endArray()
    if isAtNewestEnd {
      json.name("tail")
      TailObject.write(ground.coverage.tail, ground.tail, into: &json)
    }
    if isUnverified { json.field("unverified", true) }
    json.field("cursor", cursor)
    json.endObject()
    return json.finish()
  }

  private static func write(_ name: StaticString, _ position: Position?, into json: inout JSONWriter) {
    json.name(name)
    if let position { json.value(position) } else { json.null() }
  }
}
