import MicroHTTP
import Platform

/// The last answer of each view that many may wait for: its bytes are made once and shared by all who get the
/// same.
///
/// An answer is worth keeping while the log stands where it stood, so old ones go first when the room is
/// used up; what does not fit then is simply made again.
final class SharedAnswers: Sendable {
  private struct Kept {
    let since: String
    let head: Int64
    let response: SharedResponse
  }

  private struct State {
    var kept: [String: Kept] = [:]
    var bytes = 0

    func hasRoom(_ count: Int, _ mostAnswers: Int, _ mostBytes: Int) -> Bool {
      kept.count < mostAnswers && bytes + count <= mostBytes
    }

    mutating func remove(where isGone: (Kept) -> Bool) {
      kept = kept.filter { !isGone($0.value) }
      bytes = kept.values.reduce(0) { $0 + $1.response.byteCount }
    }
  }

  private let state = Guarded(State())
  private let mostAnswers: Int
  private let mostBytes: Int

  /// Room for so many answers and so many bytes of them.
  init(mostAnswers: Int = 4096, mostBytes: Int = 16 << 20) {
    self.mostAnswers = mostAnswers
    self.mostBytes = mostBytes
  }

  /// How many bytes are kept.
  var bytes: Int { state.withLock { $0.bytes } }

  /// The answer that view gave for that cursor while the log stood so.
  func find(_ view: String, since: String, head: Int64) -> SharedResponse? {
    state.withLock { state in
      guard let found = state.kept[view], found.since == since, found.head == head else { return nil }
      return found.response
    }
  }

  /// Keeps an answer, if there is room.
  func keep(_ response: SharedResponse, _ view: String, since: String, head: Int64) {
    let count = response.byteCount
    guard count <= mostBytes else { return }
    state.withLock { state in
      if let old = state.kept.removeValue(forKey: view) { state.bytes -= old.response.byteCount }
      if !state.hasRoom(count, mostAnswers, mostBytes) { state.remove { $0.head < head } }
      if !state.hasRoom(count, mostAnswers, mostBytes) { state.remove { _ in true } }
      state.kept[view] = Kept(since: since, head: head, response: response)
      state.bytes += count
    }
  }
}
