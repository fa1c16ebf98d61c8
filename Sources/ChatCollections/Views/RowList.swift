import ChatModel
import Platform

/// The objects of messages, added oldest first and joined in either order, with their ids and versions.
struct RowList: ~Copyable {
  private var buffer = ByteBuffer(capacity: 8192)
  private var ends: [Int] = []
  private(set) var versions: [Int64: Int64] = [:]
  /// The positions of the oldest and the newest message.
  private(set) var span: ClosedRange<Position>?

  var count: Int { ends.count }

  mutating func append(_ position: Position, version: Int64, _ object: UnsafeRawBufferPointer) {
    buffer.append(object)
    ends.append(buffer.count)
    versions[position.messageID] = version
    span = span.map { $0.lowerBound...position } ?? position...position
  }

  func joined(isReversed: Bool) -> ByteBuffer {
    var joined = ByteBuffer(capacity: buffer.count + ends.count)
    for step in ends.indices {
      let index = isReversed ? ends.count - 1 - step : step
      if step > 0 { joined.append(UInt8(ascii: ",")) }
      let start = index == 0 ? 0 : ends[index - 1]
      joined.append(UnsafeRawBufferPointer(rebasing: buffer.bytes[start..<ends[index]]))
    }
    return joined
  }
}
