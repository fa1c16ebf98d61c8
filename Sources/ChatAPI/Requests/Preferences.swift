import ChatCache
import MicroHTTP

/// The headers in which a request asks for a wait and for fresh data.
struct Preferences {
  /// How long a read-through may take without `Prefer: wait` (ms, B15).
  static let readThroughMilliseconds = 5_000
  /// The longest wait that is granted (seconds).
  static let longestWait: Int64 = 30

  /// What `Prefer: wait=N` asked for (seconds), if it did (RFC 7240).
  let wait: Int64?
  /// What `Cache-Control` asked for.
  let mode: ReadThrough.Mode

  /// Reads the headers. Malformed ones are ignored.
  init(_ request: Request) {
    wait = request.headerText("Prefer").flatMap(Preferences.wait)
    switch request.headerText("Cache-Control").map({ $0.lowercased() }) {
    case let text? where text.contains("only-if-cached"): mode = .never
    case let text? where text.contains("no-cache"): mode = .always
    default: mode = .whereNeeded
    }
  }

  /// How long the request may be held (ms).
  var milliseconds: Int { wait.map { Int($0) * 1000 } ?? Preferences.readThroughMilliseconds }

  private static func wait(_ header: String) -> Int64? {
    for preference in header.split(separator: ",") {
      guard let first = preference.split(separator: ";", omittingEmptySubsequences: false).first else {
        continue
      }
      let parts = first.split(separator: "=", maxSplits: 1)
      guard parts.count == 2, parts[0].trimmed.lowercased() == "wait",
        let seconds = Parameters.number(parts[1].trimmed), seconds >= 0
      else { continue }
      return min(seconds, longestWait)
    }
    return nil
  }

  /// Adds `Preference-Applied`, if the request asked for a wait.
  func apply(to response: inout Response) {
    guard let wait else { return }
    response.add("Preference-Applied", "wait=\(wait)")
  }
}

extension Substring {
  fileprivate var trimmed: String {
    String(drop { $0 == " " }.reversed().drop { $0 == " " }.reversed())
  }
}
