import ChatModel
import JSON

extension JSONWriter {
  /// A place as clients give it back.
  package mutating func value(_ place: Position) {
    value(plain: Position.textBytes) { place.write(into: $0) }
  }

  /// `"name": place`
  package mutating func field(_ name: StaticString, _ place: Position) {
    self.name(name)
    value(place)
  }
}
