import ChatModel
import JSON
import Platform

/// The body of an answer to a poll. The events are written to where they are sent from, and at last the
/// cursor.
package struct EventsBody: ~Copyable {
  /// The body so far. Events are appended to it.
  var json: JSONWriter
  /// The number of bytes before the first event.
  private let begin: Int

  /// A body without events. `room`: how many bytes they will take.
  package init(room: Int = 0) {
    json = JSONWriter(capacity: room + EventsBody.frame)
    json.beginObject()
    json.name("events")
    json.beginArray()
    begin = json.buffer.count
  }

  /// Room for what stands around the events.
  private static let frame = 128

  /// The number of the events' bytes.
  package var count: Int { json.buffer.count - begin }

  /// The events, with commas between them.
  package var bytes: UnsafeRawBufferPointer {
    UnsafeRawBufferPointer(rebasing: json.buffer.bytes[begin...])
  }

  /// A copy of the events, for tests.
  package var array: [UInt8] { [UInt8](bytes) }

  /// Appends an event.
  package mutating func add(_ event: UnsafeRawBufferPointer) { json.splice(event) }

  /// Appends the events of another answer.
  package mutating func append(_ other: borrowing EventsBody) { json.splice(fields: other.bytes) }

  /// Removes all events after the first `length` bytes, which are whole events, at least one.
  mutating func truncate(to length: Int) { json.buffer.truncate(to: begin + length) }

  /// The whole body. `hasMore`: whether more events follow at once.
  package consuming func finish(_ cursor: EventCursor, hasMore: Bool) -> ByteBuffer {
    json.endArray()
    json.field("cursor", cursor)
    json.field("has_more", hasMore)
    json.endObject()
    return json.finish()
  }
}
