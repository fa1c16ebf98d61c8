import JSON
import Platform

/// How often requests with a file were carried out, by the file's name, shown at `/_files` as
///
///     {"files": [{"name": "a.png", "uploads": 1, "sends": 0, "late": 0}]}
///
/// `uploads`: requests with the file alone. `sends`: requests with its message, repeated ones too. `late`:
/// how many of both a fault delayed. The counts show what a client sends twice; answers may be lost.
final class FileCounts: Sendable {
  private struct Count {
    var uploads = 0
    var sends = 0
    var late = 0
  }

  /// The most names that are counted; others are not.
  private static let mostNames = 100_000

  private let counts = Guarded<[String: Count]>([:])

  /// A request with these arguments was carried out.
  func add(_ arguments: Arguments, path: String, isLate: Bool) {
    guard let name = arguments.parts.first(where: { $0.path != nil })?.fileName else { return }
    counts.withLock { counts in
      guard counts[name] != nil || counts.count < FileCounts.mostNames else { return }
      var count = counts[name] ?? Count()
      if path.hasSuffix("/messages") { count.sends += 1 } else { count.uploads += 1 }
      if isLate { count.late += 1 }
      counts[name] = count
    }
  }

  /// All of them, by name.
  var shown: String {
    let counts = counts.withLock { $0 }
    var json = JSONWriter()
    json.beginObject()
    json.name("files")
    json.beginArray()
    for (name, count) in counts.sorted(by: { $0.key < $1.key }) {
      json.beginObject()
      json.field("name", name)
      json.field("uploads", count.uploads)
      json.field("sends", count.sends)
      json.field("late", count.late)
      json.endObject()
    }
    json.endArray()
    json.endObject()
    return String(decoding: json.finish().array, as: UTF8.self)
  }
}
