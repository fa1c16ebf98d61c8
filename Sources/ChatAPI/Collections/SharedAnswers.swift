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
  /// it is. The log's sequence comes a little after the revision.
  struct Moment: Sendable, Equatable {
    let revision: UInt64
    let cursor: EventCursor
    let removals: UInt64
  }

  /// What was answered in one moment, by the view. A view is opened and ended by commits, which make
  /// other moments, so none is taken for one that came to lie at its address.
  private struct Recent: Findings {
    struct Answered {
      let since: Int64
      let response: SharedResponse
    }

    /// How many views' answers are kept, and how large they may be (bytes).
    static let (most, mostBytes) = (1024, 4 * 1024)
    var answered: [ObjectIdentifier: Answered] = [:]

    var count: Int { answered.count }

    mutating func removeAll() { answered.removeAll(keepingCapacity: true) }
  }

  /// What the owner of a view asked of it, and when: from a sequence of the log of that moment's epoch and
  /// run.
  struct Asked: Sendable {
    let view: ObjectIdentifier
    let since: Int64
    let moment: Moment

    /// Nil where the cursor is of another log, or of before a start.
    init?(_ view: ObjectIdentifier, since: EventCursor, _ moment: Moment) {
      guard since.epoch == moment.cursor.epoch, since.run == moment.cursor.run else { return nil }
      self.view = view
      self.since = since.sequence
      self.moment = moment
    }
  }

  /// An answer that other views may be alike in.
  struct Alike: Sendable {
    let key: AnswerKey
    let since: EventCursor
    let response: SharedResponse
  }

  /// Channels of which such answers are kept, how many of each, and how large they may be (bytes).
  private static let (mostChannels, mostAlike, mostAlikeBytes) = (256, 4, 16 * 1024)

  private struct State {
    var alike: [ChannelKey: [Alike]] = [:]
    var kept = TextMap<Kept>()
    var bytes = 0

    func hasRoom(_ count: Int, _ mostAnswers: Int, _ mostBytes: Int) -> Bool {
      kept.count < mostAnswers && bytes + count <= mostBytes
    }

    mutating func remove(where isGone: (Kept) -> Bool) {
      kept = kept.filter { !isGone($0) }
      bytes = kept.values.reduce(0) { $0 + $1.response.byteCount }
    }
  }

  private let state = Guarded(State())
  private let recent = StateMemory<Moment, Recent>(mostOfThread: Recent.most, mostOfAll: Recent.most)
  private let mostAnswers: Int
  private let mostBytes: Int

  /// Room for so many answers and so many bytes of them.
  init(mostAnswers: Int = 4096, mostBytes: Int = 16 << 20) {
    self.mostAnswers = mostAnswers
    self.mostBytes = mostBytes
  }

  /// How many bytes are kept.
  var bytes: Int { state.withLock { $0.bytes } }

  /// What was answered to who asked for the same of the same view in the same moment: all but the first of
  /// the polls that waited for one thing find their answer here.
  func recent(_ asked: Asked) -> SharedResponse? {
    let found = recent.find(
      in: asked.moment, { $0.answered[asked.view] }, { $0.answered[asked.view] = $1 })
    return found.flatMap { $0.since == asked.since ? $0.response : nil }
  }

  /// Keeps what was answered.
  func note(_ response: SharedResponse, _ asked: Asked) {
    guard response.byteCount <= Recent.mostBytes else { return }
    recent.keep(in: asked.moment) {
      $0.answered[asked.view] = Recent.Answered(since: asked.since, response: response)
    }
  }

  /// The answer that view gave for that cursor while the log stood so.
  func find(_ view: String, since: EventCursor, head: Int64) -> SharedResponse? {
    state.withLock { state in
      guard let found = state.kept[view], found.since == since, found.head == head else { return nil }
      return found.response
    }
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

  /// The answers of that channel's views.
  func alike(_ channel: ChannelKey) -> [Alike] { state.withLock { $0.alike[channel] ?? [] } }

  /// Keeps an answer for views that are alike.
  func keep(_ response: SharedResponse, _ key: AnswerKey, _ since: EventCursor) {
    guard response.byteCount <= SharedAnswers.mostAlikeBytes else { return }
    state.withLock { state in
      // What the log has passed is alike to nothing any more.
      state.alike = state.alike.filter { $0.value.contains { $0.key.until >= key.until } }
      if state.alike.count >= SharedAnswers.mostChannels { state.alike = [:] }
      var alike = (state.alike[key.channel] ?? []).filter { $0.key.until == key.until }
      if alike.count >= SharedAnswers.mostAlike { alike.removeFirst() }
      alike.append(Alike(key: key, since: since, response: response))
      state.alike[key.channel] = alike
    }
  }
}
