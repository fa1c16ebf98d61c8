import ChatCache
import ChatModel
import Glibc
import MicroHTTP
import Platform

/// The strong tag of an answer: a hash of everything that determines the answer's bytes, if possible computed
/// before any row is read. The user is part of the hash, so that two users' answers never have the same tag.
struct EntityTag {
  private var hash: UInt64 = 0xCBF2_9CE4_8422_2325
  private var other: UInt64 = 0x9E37_79B9_7F4A_7C15

  /// Begins a tag with the log and the user.
  init(_ cursor: EventCursor, _ user: UserKey) {
    add(Int64(bitPattern: cursor.epoch))
    add(cursor.run)
    add(user.rawValue)
  }

  /// The tag of bytes that are the same for everybody.
  init(of bytes: UnsafeRawBufferPointer) { add(bytes: bytes) }

  /// Mixes a number in.
  mutating func add(_ number: Int64) {
    hash = (hash ^ UInt64(bitPattern: number)) &* 0x0000_0100_0000_01B3
    hash ^= hash >> 29
    other = (other ^ UInt64(bitPattern: number)) &* 0xBF58_476D_1CE4_E5B9
    other ^= other >> 32
  }

  /// Mixes bytes in, such as the request's query.
  mutating func add(bytes: UnsafeRawBufferPointer) {
    var rest = bytes
    while rest.count >= 8 {
      add(rest.loadUnaligned(as: Int64.self))
      rest = UnsafeRawBufferPointer(rebasing: rest[8...])
    }
    var last: Int64 = Int64(bytes.count)
    for byte in rest { last = last << 8 | Int64(byte) }
    add(last)
  }

  /// The header's value, with its quotes.
  var text: String {
    String(unsafeUninitializedCapacity: EntityTag.digits + 2) { room in
      write(quotedInto: UnsafeMutableRawBufferPointer(room))
      return EntityTag.width
    }
  }

  /// Appends the header's value.
  func write(to buffer: inout ByteBuffer) { buffer.append(EntityTag.width) { write(quotedInto: $0) } }

  private func write(quotedInto bytes: UnsafeMutableRawBufferPointer) {
    bytes[0] = UInt8(ascii: "\"")
    write(into: bytes, at: 1)
    bytes[EntityTag.digits + 1] = UInt8(ascii: "\"")
  }

  /// The tag without its quotes.
  var digits: String {
    String(unsafeUninitializedCapacity: EntityTag.digits) { room in
      write(into: UnsafeMutableRawBufferPointer(room), at: 0)
      return EntityTag.digits
    }
  }

  private static let digits = 2 * Digits.hexDigits

  /// The length of the header's value in bytes, with its quotes.
  static let width = digits + 2

  private func write(into bytes: UnsafeMutableRawBufferPointer, at offset: Int) {
    Digits.writeHex(hash, into: bytes, at: offset)
    Digits.writeHex(other, into: bytes, at: offset + Digits.hexDigits)
  }

  /// Whether the request's `If-None-Match` names this tag.
  func isKnown(to request: Request) -> Bool {
    request.header("If-None-Match") != nil && EntityTag.isKnown(text, to: request)
  }

  /// Whether the request's `If-None-Match` names the tag `text`.
  static func isKnown(_ text: String, to request: Request) -> Bool {
    guard let known = request.header("If-None-Match") else { return false }
    var text = text
    let isSame = text.withUTF8 { text in
      known.count == text.count && !known.isEmpty
        && memcmp(known.baseAddress!, text.baseAddress!, text.count) == 0
    }
    if isSame { return true }
    guard known.contains(UInt8(ascii: ",")) || known.first != UInt8(ascii: "\"") else { return false }
    return String(decoding: known, as: UTF8.self).split(separator: ",").contains { part in
      var part = part.drop { $0 == " " }
      if part.hasPrefix("W/") { part = part.dropFirst(2) }
      return part == "*" || part.reversed().drop { $0 == " " }.elementsEqual(text.reversed())
    }
  }
}

extension EntityTag {
  /// The tag of a channel as one user sees it. Every change of the channel or of the membership changes the
  /// tag.
  init(_ cursor: EventCursor, _ view: ChannelView) {
    self.init(cursor, view.user)
    add(view.channelVersion)
    add(view.membershipVersion)
    if let heldAt = view.heldAt { add(heldAt) }
  }

  /// The tag of one unsent message.
  init(_ cursor: EventCursor, _ view: ChannelView, of unsent: UnsentMessage) {
    self.init(cursor, view.user)
    unsent.object.withUnsafeBytes { add(bytes: $0) }
  }

  /// Mixes in the coverage that a page of messages shows.
  mutating func add(_ ground: MessagePageGround) {
    ground.coverage.eachStart { start, content in
      add(start.createdAt)
      add(start.messageID)
      switch content {
      case .covered(let isUnverified): add(isUnverified ? 1 : 2)
      case .gap(let gap):
        add(gap.id)
        add(gap.state.rawValue << 8 | gap.reason.rawValue)
        add(Int64(gap.estimatedMissing ?? -1))
      case .tail(let tail):
        switch ground.tail {
        case .live: add(3)
        case .stale: add(4)
        case .offline: add(5)
        }
        if ground.tail != .live { add(tail.confirmedAt ?? -1) }
      }
    }
  }
}
