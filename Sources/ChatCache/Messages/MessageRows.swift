import ChatModel
import Platform
import SQLite

// Copies rows of messages into a JSON answer.

extension CacheReader {
  /// One message as JSON, as the view's user may see it; nil if there is none (B23).
  package func message(
    _ id: Int64, parts: MessageQuery.Parts, in view: ChannelView
  ) throws -> ByteBuffer? {
    var found = try self.rows(ofMessage: id, from: view.floorAt, view.channel)
    guard let row = try found.next() else { return nil }
    var filter = MessageQuery()
    filter.replies = .all
    filter.parts = parts
    var rows = MessageRows(filter, floor: view.floorAt, pending: try pendingChanges(in: view, of: id))
    rows.begin(isBackwards: false)
    rows.take(row)
    return rows.count == 0 ? nil : rows.joined(isReversed: false)
  }
}

/// The JSON of the rows of a page. Each row is written when it is read; `joined` puts the rows into order.
struct MessageRows: ~Copyable {
  let filter: MessageQuery
  private let floor: Int64
  /// The user's pending changes, which are written with their messages; nil for most users.
  private let pending: PendingChanges?
  /// Whether rows are read in the order of the answer, so that they need no reordering.
  private let isDirect: Bool
  private var buffer: ByteBuffer
  /// The text of the answer before the rows.
  private let head: StaticString
  /// The number of rows that the filter shows.
  private(set) var count = 0
  /// The end of each row's text in the buffer, in the order of reading. Empty if `isDirect`.
  private var ends: [Int] = []
  /// The number of rows of the first walk, if it went backwards.
  private var backwards = 0
  private var isBackwards = false
  private var oldest: Position?
  private var newest: Position?

  init(
    _ filter: MessageQuery, floor: Int64, pending: PendingChanges? = nil, isDirect: Bool = false,
    head: StaticString = "", capacity: Int = 16_384
  ) {
    self.filter = filter
    self.floor = floor
    self.pending = pending
    self.isDirect = isDirect
    self.head = head
    buffer = ByteBuffer(capacity: capacity)
    if isDirect { buffer.append(head) }
    if !isDirect { ends.reserveCapacity(capacity > 4096 ? 64 : 1) }
  }

  mutating func begin(isBackwards: Bool) { self.isBackwards = isBackwards }

  /// Writes a row of `plainRows` if the filter shows it.
  mutating func take(plain row: Row, at position: Position) {
    look(at: position)
    if hides(MessageFlags(rawValue: row.int64(PlainMessageColumn.flags.rawValue))) { return }
    if pending != nil { return take(row, body: PlainMessageColumn.body.rawValue) }
    let body = row.bytes(PlainMessageColumn.body.rawValue)
    let start = isDirect && count > 0 ? 1 : 0
    buffer.append(start + body.count + 2) { room in
      room[0] = UInt8(ascii: ",")
      room[start] = UInt8(ascii: "{")
      UnsafeMutableRawBufferPointer(rebasing: room[(start + 1)...]).copyMemory(from: body)
      room[room.count - 1] = UInt8(ascii: "}")
    }
    noteEnd()
  }

  /// Writes a row if the filter shows it.
  mutating func take(_ row: Row) {
    look(at: row.messagePosition)
    guard shows(row) else { return }
    take(row, body: MessageColumn.body.rawValue)
  }

  /// Writes a row that the filter shows, with its pending changes; `plainRows` have no parts.
  private mutating func take(_ row: Row, body: Int32) {
    if let pending, pending.withheld.contains(row.int64(.messageID)) { return }
    begin(row.bytes(body))
    if let fragment = pending?.fragments[row.int64(.messageID)] {
      buffer.append(UInt8(ascii: ","))
      fragment.withUnsafeBytes { buffer.append($0) }
    }
    let parts = filter.parts
    if !parts.isEmpty {
      if parts.contains(.reactions) { append(row, .reactions, ",\"reactions\":") }
      if parts.contains(.metaarray) { append(row, .metaarray, ",\"metaarray\":") }
      if parts.contains(.threadInfo) { append(row, .threadInfo, ",\"thread_info\":") }
      if parts.contains(.parentMessage), floor == 0 || row.int64OrNil(.parentAt).map({ $0 >= floor }) ?? false
      {
        append(row, .parent, ",\"parent_message\":")
      }
    }
    end()
  }

  /// The positions of the oldest and the newest row that was read, shown or not.
  var span: ClosedRange<Position>? { oldest.flatMap { oldest in newest.map { oldest...$0 } } }

  /// Notes a row's position. Rows are read from an anchor outwards, so each is the oldest or the newest so
  /// far.
  private mutating func look(at position: Position) {
    if isBackwards || oldest == nil { oldest = position }
    if !isBackwards || newest == nil { newest = position }
  }

  private mutating func begin(_ body: UnsafeRawBufferPointer) {
    buffer.reserve(body.count + 3)
    if isDirect, count > 0 { buffer.append(UInt8(ascii: ",")) }
    buffer.append(UInt8(ascii: "{"))
    buffer.append(body)
  }

  private mutating func end() {
    buffer.append(UInt8(ascii: "}"))
    noteEnd()
  }

  private mutating func noteEnd() {
    count += 1
    if isDirect { return }
    ends.append(buffer.count)
    if isBackwards { backwards += 1 }
  }

  private mutating func append(_ row: Row, _ column: MessageColumn, _ name: StaticString) {
    guard !row.isNull(column) else { return }
    buffer.append(name)
    buffer.append(row.bytes(column.rawValue))
  }

  private func shows(_ row: Row) -> Bool {
    guard mayShow(row) else { return false }
    return filter.customTypes.isEmpty || filter.customTypes.contains { row.holds(text: $0.text, .customType) }
  }

  /// Whether the filter showed the message at some time, or shows it: an edit changes a custom type alone.
  func mayShow(_ row: Row) -> Bool {
    if filter.parent == nil, hides(MessageFlags(rawValue: row.int64(.flags))) { return false }
    if filter.isPlain { return true }
    if let kind = filter.kind, kind.stored != row.int64(.type) { return false }
    return filter.senders.isEmpty || filter.senders.contains { row.holds(text: $0.text, .sender) }
  }

  private func hides(_ flags: MessageFlags) -> Bool {
    guard flags.contains(.reply) else { return false }
    return switch filter.replies {
    case .none: true
    case .onlyReplyToChannel: !flags.contains(.replyToChannel)
    case .all: false
    }
  }

  /// The head, and all rows with commas between them: oldest first, or newest first.
  consuming func joined(isReversed: Bool) -> ByteBuffer {
    if isDirect { return buffer }
    let isOrdered = isReversed ? backwards == ends.count : backwards == 0
    var joined = ByteBuffer(capacity: head.utf8CodeUnitCount + buffer.count + ends.count + 512)
    joined.append(head)
    for step in 0..<ends.count {
      // The line's order: the backward walk's rows from its last to its first, then the forward walk's.
      let inLine = isReversed ? ends.count - 1 - step : step
      let index = isOrdered ? step : inLine < backwards ? backwards - 1 - inLine : inLine
      if step > 0 { joined.append(UInt8(ascii: ",")) }
      let start = index == 0 ? 0 : ends[index - 1]
      joined.append(UnsafeRawBufferPointer(rebasing: buffer.bytes[start..<ends[index]]))
    }
    return joined
  }
}

extension Row {
  /// Whether the column's bytes are those of `text`.
  func holds(text: String, _ column: MessageColumn) -> Bool {
    let bytes = bytes(column.rawValue)
    return text.utf8.count == bytes.count && text.utf8.elementsEqual(bytes)
  }
}
