import ChatCache
import ChatCollections
import ChatModel
import MicroHTTP
import Platform

/// Answers whose bytes are made once and shared by all who get the same: the polls of one view, and the views
/// that are alike, whosever they are. Whoever takes one was admitted at that moment (see `Follower.admit`),
/// and nothing was committed since it was made.
///
/// An answer is worth keeping while the log stands where it stood, so old ones go first when the room is
/// used up; what does not fit then is simply made again.
final class SharedAnswers: Sendable {
  private struct Kept {
    let since: EventCursor
    let head: Int64
    let response: SharedResponse
  }

  /// A state of the cache, of its log and of the open views: who was let in and found in it is so, as long as
  /// it is. The log's place comes a little after the revision.
  struct Moment: Sendable, Equatable {
    let revision: UInt64
    let cursor: EventCursor
    let removals: UInt64
  }

  /// What a thread answered in one moment, by the view. A view is opened and ended by commits, which make
  /// other moments, so none is taken for one that came to lie in its place.
  private struct Recent {
    struct Answered {
      let caller: Caller
      let since: EventCursor
      let response: SharedResponse
    }

    var moment: Moment?
    var answered: [ObjectIdentifier: Answered] = [:]
    /// How many views' answers are kept, and how large they may be (bytes).
    static let (most, mostBytes) = (1024, 4 * 1024)
  }

  /// An answer that other views may be alike in.
  struct Alike: Sendable {
    let likeness: Likeness
    let since: EventCursor
    let response: SharedResponse
  }

  /// Channels of which such answers are kept, how many of each, and how large they may be (bytes).
  private static let (mostChannels, mostAlike, mostAlikeBytes) = (256, 4, 16 * 1024)

  private struct State {
    var alike: [ChannelKey: [Alike]] = [:]
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
  private let recent = (0..<16).map { _ in Guarded(Recent()) }
  private let mostAnswers: Int
  private let mostBytes: Int

  /// Room for so many answers and so many bytes of them.
  init(mostAnswers: Int = 4096, mostBytes: Int = 16 << 20) {
    self.mostAnswers = mostAnswers
    self.mostBytes = mostBytes
  }

  /// How many bytes are kept.
  var bytes: Int { state.withLock { $0.bytes } }

  /// What this thread answered the same caller, who asked for the same of the same view in the same moment:
  /// all but the first of the polls that waited for one thing find their answer here.
  func recent(
    _ view: MessageCollection, _ caller: Caller, since: EventCursor, _ moment: Moment
  ) -> SharedResponse? {
    recent[Thread.currentNumber % recent.count].withLock { recent in
      guard recent.moment == moment, let known = recent.answered[ObjectIdentifier(view)],
        known.since == since, known.caller == caller
      else { return nil }
      return known.response
    }
  }

  /// Keeps what this thread has answered.
  func note(
    _ response: SharedResponse, _ view: MessageCollection, _ caller: Caller, since: EventCursor,
    _ moment: Moment
  ) {
    guard response.byteCount <= Recent.mostBytes else { return }
    recent[Thread.currentNumber % recent.count].withLock { recent in
      if recent.moment != moment || recent.answered.count >= Recent.most {
        recent.answered.removeAll(keepingCapacity: true)
        recent.moment = moment
      }
      recent.answered[ObjectIdentifier(view)] = .init(caller: caller, since: since, response: response)
    }
  }

  /// The answer that view gave for that cursor while the log stood so.
  func find(_ view: String, since: EventCursor, head: Int64) -> SharedResponse? {
    state.withLock { state in
      guard let found = state.kept[view], found.since == since, found.head == head else { return nil }
      return found.response
    }
  }

  /// The answer that view gave for that cursor while the log stood so, or the one `other` finds, which is
  /// kept then.
  func known(
    _ view: String, _ since: EventCursor, _ head: EventCursor, or other: () throws -> SharedResponse?
  ) rethrows -> SharedResponse? {
    if let found = find(view, since: since, head: head.sequence) { return found }
    guard let found = try other() else { return nil }
    keep(found, view, since: since, head: head.sequence)
    return found
  }

  /// Keeps an answer, if there is room.
  func keep(_ response: SharedResponse, _ view: String, since: EventCursor, head: Int64) {
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

  /// The answers of that channel's views for that cursor while the log stood so.
  func alike(_ channel: ChannelKey, since: EventCursor, head: Int64) -> [Alike] {
    state.withLock { state in
      (state.alike[channel] ?? []).filter { $0.likeness.until == head && $0.since == since }
    }
  }

  /// Keeps an answer for views that are alike.
  func keep(_ response: SharedResponse, _ likeness: Likeness, _ since: EventCursor) {
    guard response.byteCount <= SharedAnswers.mostAlikeBytes else { return }
    state.withLock { state in
      // What the log has passed is alike to nothing any more.
      state.alike = state.alike.filter { $0.value.contains { $0.likeness.until >= likeness.until } }
      if state.alike.count >= SharedAnswers.mostChannels { state.alike = [:] }
      var alike = (state.alike[likeness.channel] ?? []).filter { $0.likeness.until == likeness.until }
      if alike.count >= SharedAnswers.mostAlike { alike.removeFirst() }
      alike.append(Alike(likeness: likeness, since: since, response: response))
      state.alike[likeness.channel] = alike
    }
  }
}
