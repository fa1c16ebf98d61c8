import ChatModel
import JSON

extension JSONWriter {
  /// A position as clients give it back.
  package mutating func value(_ position: Position) {
    value(plain: Position.textBytes) { position.write(into: $0) }
  }

  /// `"name": position`
  package mutating func field(_ name: StaticString, _ position: Position) {
    self.name(name)
    value(position)
  }
}
