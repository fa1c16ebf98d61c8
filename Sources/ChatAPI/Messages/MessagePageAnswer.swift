import ChatCache
import ChatCollections
import ChatModel
import JSON
import MicroHTTP
import Platform

/// A page of messages as JSON, with its edges.
struct MessagePageAnswer {
  /// Where the page before this one is asked for.
  let previous: Position?
  /// Where the page after this one is asked for.
  let next: Position?

  init(_ page: borrowing MessagePage, _ query: MessagePageQuery) {
    let anchor = MessagePageAnswer.place(of: query.anchor)
    previous = page.hasPrevious ? MessagePageAnswer.older(page) ?? anchor : nil
    next = page.hasNext ? MessagePageAnswer.newer(page) ?? anchor : nil
  }

  private static func place(of anchor: PageAnchor) -> Position? {
    switch anchor {
    case .before(let place, _), .after(let place, _), .around(let place, _):
      place == .start || place == .end ? nil : place
    }
  }

  private static func older(_ page: borrowing MessagePage) -> Position? {
    if page.isOlderEdgeMet, case .gap(let gap) = page.ground.plan.older, gap.range.upperBound < .end {
      return gap.range.upperBound.next
    }
    return page.span?.lowerBound
  }

  private static func newer(_ page: borrowing MessagePage) -> Position? {
    if page.isNewerEdgeMet, case .gap(let gap) = page.ground.plan.newer, gap.range.lowerBound > .start {
      return gap.range.lowerBound.previous
    }
    return page.span?.upperBound
  }

  /// The whole answer.
  func write(_ page: borrowing MessagePage, cursor: String) -> ByteBuffer {
    var json = JSONWriter(capacity: page.items.count + 512)
    json.beginObject()
    json.name("items")
    json.beginArray()
    json.splice(fields: page.items.bytes)
    json.endArray()
    MessagePageAnswer.write("previous", previous, into: &json)
    MessagePageAnswer.write("next", next, into: &json)
    json.field("has_previous", page.hasPrevious)
    json.field("has_next", page.hasNext)
    json.field("complete", page.isComplete)
    json.name("gaps")
    json.beginArray()
    for gap in page.gaps { GapObject.write(gap, into: &json) }
    json.endArray()
    if page.isAtNewestEnd {
      json.name("tail")
      TailObject.write(page.ground.coverage.tail, page.ground.tail, into: &json)
    }
    if page.isUnverified { json.field("unverified", true) }
    json.field("cursor", cursor)
    json.endObject()
    return json.finish()
  }

  private static func write(_ name: StaticString, _ place: Position?, into json: inout JSONWriter) {
    json.name(name)
    if let place { json.value(place.description) } else { json.null() }
  }
}
