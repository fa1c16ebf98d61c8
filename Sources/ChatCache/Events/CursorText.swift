import ChatModel
import JSON

extension JSONWriter {
  /// `"name": cursor`, as clients give it back.
  package mutating func field(_ name: StaticString, _ cursor: EventCursor) {
    self.name(name)
    withUnsafeTemporaryAllocation(byteCount: EventCursor.mostTextBytes, alignment: 1) { room in
      let count = cursor.write(into: room)
      value(utf8: UnsafeRawBufferPointer(rebasing: room[..<count]))
    }
  }
}
