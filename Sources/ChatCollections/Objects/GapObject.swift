import ChatCache
import ChatModel
import JSON

/// The JSON object of a gap (B14).
package enum GapObject {
  /// Writes the gap's object.
  package static func write(_ segment: Segment, into json: inout JSONWriter) {
    guard let gap = segment.gap else { return }
    json.beginObject()
    json.field("id", String(gap.id))
    json.field("from", segment.range.lowerBound)
    json.field("to", segment.range.upperBound)
    json.name("state")
    json.value(plain: gap.state.text)
    json.name("reason")
    json.value(plain: gap.reason.text)
    json.name("estimated_missing")
    if let missing = gap.estimatedMissing { json.value(missing) } else { json.null() }
    json.endObject()
  }

  /// Writes the gap's object, or that of a closed gap if there is none any more.
  static func write(
    _ gap: Segment?, named id: String, from stretch: ClosedRange<Position>, into json: inout JSONWriter
  ) {
    if let gap { write(gap, into: &json) } else { write(gone: id, from: stretch, into: &json) }
  }

  /// Writes the list of a view's gaps.
  static func write(all gaps: [Segment], into json: inout JSONWriter) {
    json.name("gaps")
    json.beginArray()
    for gap in gaps { write(gap, into: &json) }
    json.endArray()
  }

  /// Writes the object of a closed gap: its id and its former ends.
  private static func write(gone id: String, from stretch: ClosedRange<Position>, into json: inout JSONWriter)
  {
    json.beginObject()
    json.field("id", id)
    json.field("from", stretch.lowerBound)
    json.field("to", stretch.upperBound)
    json.field("state", "closed")
    json.endObject()
  }
}

/// The JSON object of the newest end (B25). The time of confirmation of a live tail changes all the time and
/// is left out, so that equal answers have equal bytes.
package enum TailObject {
  /// Writes the tail's object.
  package static func write(_ tail: Tail, _ state: Tail.State, into json: inout JSONWriter) {
    json.beginObject()
    json.name("state")
    switch state {
    case .live: json.value(plain: "live")
    case .stale: json.value(plain: "stale")
    case .offline: json.value(plain: "offline")
    }
    if state != .live {
      json.name("confirmed_at")
      if let moment = tail.confirmedAt { json.value(moment) } else { json.null() }
    }
    json.endObject()
  }
}

extension Position {
  /// Writes the field with the channel's newest message, for a hint (B18, B28).
  func writeNewest(into json: inout JSONWriter) {
    json.name("newest")
    json.beginObject()
    json.field("message_id", String(messageID))
    json.field("position", description)
    json.endObject()
  }
}
