import Platform

extension ByteBuffer {
  /// Appends one server-sent event; `data` must not hold line ends (JSON does not).
  package mutating func append(
    event name: StaticString, id: UnsafeRawBufferPointer?, data: UnsafeRawBufferPointer
  ) {
    if let id {
      append("id: ")
      append(id)
      append("\n")
    }
    if name.utf8CodeUnitCount > 0 {
      append("event: ")
      append(name)
      append("\n")
    }
    append("data: ")
    append(data)
    append("\n\n")
  }
}
