import ChatModel
import JSON

extension JSONWriter {
  /// Writes a position in the form that clients send back.
  package mutating func value(_ position: Position) {
    value(plain: Position.textBytes) { position.write(into: $0) }
  }

  /// `"name": position`
  package mutating func field(_ name: StaticString, _ position: Position) {
    self.name(name)
    value(position)
  }
}
