import Glibc
import JSON

/// Requests to a server and its answers, in the order of the answers: a file with one JSON object per line.
///
/// The first line names the format (`{"perch_recording":1}`); every other line is an `Exchange`.
struct Recording: Sendable, Equatable {
  /// The version of the file format that this program writes and reads.
  static let version: Int64 = 1
  /// Bytes of the largest file that is written or read.
  static let mostBytes = 64 << 20

  var exchanges: [Exchange] = []

  static let head = Value.object(["perch_recording": .integer(version)]).text

  /// Reads the text of a file.
  init(_ text: some StringProtocol) throws {
    var lines = text.utf8.split(separator: 10)[...]
    guard let first = lines.popFirst(),
      Recording.value(first)?["perch_recording"] == .integer(Recording.version)
    else { throw OriginError(description: "the first line of a recording is \(Recording.head)") }
    for (index, line) in lines.enumerated() {
      guard let exchange = Recording.value(line).flatMap({ Exchange($0) }) else {
        throw OriginError(description: "line \(index + 2) of the recording is no exchange")
      }
      exchanges.append(exchange)
    }
  }

  /// A recording of these exchanges.
  init(_ exchanges: [Exchange]) { self.exchanges = exchanges }

  /// Reads the file at `path`.
  init(path: String) throws {
    guard let file = fopen(path, "re") else {
      throw OriginError(description: "cannot read \(path): \(String(cString: strerror(errno)))")
    }
    defer { fclose(file) }
    var bytes: [UInt8] = []
    var room = [UInt8](repeating: 0, count: 65_536)
    while bytes.count <= Recording.mostBytes {
      let count = fread(&room, 1, room.count, file)
      if count == 0 { break }
      bytes += room[..<count]
    }
    guard bytes.count <= Recording.mostBytes else {
      throw OriginError(description: "\(path) is larger than \(Recording.mostBytes >> 20) MB")
    }
    do { try self.init(String(decoding: bytes, as: UTF8.self)) } catch let error as OriginError {
      throw OriginError(description: "\(path): \(error.description)")
    }
  }

  /// The file's text.
  var text: String { ([Recording.head] + exchanges.map(\.line)).joined(separator: "\n") + "\n" }

  private static func value(_ line: some Collection<UInt8>) -> Value? {
    let value = Value(stored: String(decoding: line, as: UTF8.self))
    return value == .null ? nil : value
  }
}
