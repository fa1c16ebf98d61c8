import ChatCache
import ChatCollections
import ChatModel
import MicroHTTP
import Platform

/// Answers whose bytes are made once and given to several polls: those of one view, and those of views with
/// equal answer keys, of whatever user. A poll gets a shared answer only after `Follower.admit`, and only if
/// the answer has all that concerns the poll's view: up to the log's end or, during a wave, up to the end of
/// the wave's present part (`Waves`).
///
/// An answer of one view is of use until the next commit. When the room is used up, answers from before the
/// last commit are removed first; a removed answer is made again.
final class SharedAnswers: Sendable {
  private struct Kept {
    let since: EventCursor
    let head: Int64
    let response: SharedResponse
  }

  /// The state of the cache, of its log and of the open views. A caller admitted in one moment stays admitted
  /// while the moment is the same. The log's sequence is published a little after the revision.
  struct Moment: Sendable, Equatable {
    let revision: UInt64
    let cursor: EventCursor
    let removals: UInt64
  }

  /// The answers of one moment, by the identity of the view. Opening or ending a view is a commit and makes a
  /// new moment, so a new view at an old one's address never gets the old view's answer.
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

  /// A poll's question: the view, the sequence from which the poll goes on, and the moment. The sequence is
  /// of the epoch and run of that moment's log.
  struct Asked: Sendable {
    let view: ObjectIdentifier
    let since: Int64
    let moment: Moment

    /// Nil: the cursor is of another log, of an earlier run, or has more than a sequence.
    init?(_ view: ObjectIdentifier, since: EventCursor, _ moment: Moment) {
      guard since.epoch == moment.cursor.epoch, since.run == moment.cursor.run,
        since.connection == since.sequence
      else { return nil }
      self.view = view
      self.since = since.sequence
      self.moment = moment
    }
  }

  /// An answer for every view that its answer key matches.
  struct Alike: Sendable {
    let key: AnswerKey
    let since: EventCursor
    let response: SharedResponse
  }

  /// The answers of one channel that views may share, by the sequence after which they begin.
  ///
  /// Polls that fell behind go on from many cursors. If only the last few answers were kept, each of these
  /// polls would make its own, and fall behind further.
  private struct OfChannel {
    /// The most cursors with answers, and the most answers for each.
    static let (most, mostEach) = (64, 8)
    private(set) var bySequence: [Int64: [Alike]] = [:]

    /// Keeps an answer, in the place of the oldest ones if there are too many. Returns by how many there are
    /// more then.
    mutating func keep(_ alike: Alike) -> Int {
      let since = alike.since.sequence
      var (others, more) = (bySequence[since] ?? [], 1)
      if others.count >= OfChannel.mostEach {
        others.removeFirst()
        more -= 1
      }
      if others.isEmpty, bySequence.count >= OfChannel.most, let oldest = bySequence.keys.min() {
        more -= bySequence.removeValue(forKey: oldest)?.count ?? 0
      }
      bySequence[since] = others + [alike]
      return more
    }
  }

  /// The most such answers in all, and the largest (bytes).
  private static let (mostAlike, mostAlikeBytes) = (2048, 16 * 1024)

  private struct State {
    var alike: [ChannelKey: OfChannel] = [:]
    /// How many answers `alike` has.
    var alikeCount = 0
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

  /// How many answers are kept that views of a channel may share.
  var alikeCount: Int { state.withLock { $0.alikeCount } }

  /// The answer that an equal poll of the view got in the same moment. When a change wakes several polls of
  /// one view, the first makes the answer and the others find it here.
  func recent(_ asked: Asked) -> SharedResponse? {
    let found = recent.find(
      in: asked.moment, { $0.answered[asked.view] }, { $0.answered[asked.view] = $1 })
    return found.flatMap { $0.since == asked.since ? $0.response : nil }
  }

  /// Keeps the answer for equal polls of the same moment.
  func note(_ response: SharedResponse, _ asked: Asked) {
    guard response.byteCount <= Recent.mostBytes else { return }
    recent.keep(in: asked.moment) {
      $0.answered[asked.view] = Recent.Answered(since: asked.since, response: response)
    }
  }

  /// The answer kept for the view, if it was made for this cursor and the log's end was `head`.
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

  /// The answers after a cursor that views of the channel may share.
  func alike(_ channel: ChannelKey, _ since: EventCursor) -> [Alike] {
    state.withLock { $0.alike[channel]?.bySequence[since.sequence] ?? [] }
  }

  /// Keeps an answer for all views that `key` matches.
  func keep(_ response: SharedResponse, _ key: AnswerKey, _ since: EventCursor) {
    guard response.byteCount <= SharedAnswers.mostAlikeBytes else { return }
    state.withLock { state in
      if state.alikeCount >= SharedAnswers.mostAlike { (state.alike, state.alikeCount) = ([:], 0) }
      let answer = Alike(key: key, since: since, response: response)
      state.alikeCount += state.alike[key.channel, default: OfChannel()].keep(answer)
    }
  }
}
