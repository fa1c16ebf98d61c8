/// What a client's view showed at the last two cursors that it was answered with (B9): the name and version
/// of each message or channel. Older cursors, and those of before a start, are not remembered.
package struct ClientKnowledge<Name: Hashable & Sendable>: Sendable {
  /// The messages or channels that a client has at one cursor: the name of each, and the version that the
  /// client got.
  ///
  /// From one answer to the next only a few of them change. The two states of a client share one dictionary,
  /// and each keeps its own last changes, so that an answer does not copy all that the client has.
  package struct Shown: Sendable, Equatable {
    private struct Change {
      let name: Name
      var version: Int64?
    }

    private static var mostChanges: Int { 4 }

    /// The names and versions that the client had before it got `changes`.
    private var base: [Name: Int64]
    /// The names that the client got last, each once; without a version: the client removed it.
    private var changes: [Change] = []
    /// The sum of the seeded hashes of each name with its version. Two clients that have the same have the
    /// same sum; that two which differ have it is as good as impossible (one in 2^64).
    private var digest: UInt64 = 0
    /// Whether these are all. They are not after an answer that was cut and followed a forgotten cursor: then
    /// the client may have others, too.
    package let isWhole: Bool

    /// Nothing is remembered.
    package static var nothing: Shown { Shown(base: [:], isWhole: false) }

    /// The client has the whole view, in these versions.
    package init(all versions: [Name: Int64]) { self.init(base: versions, isWhole: true) }

    private init(base: [Name: Int64], isWhole: Bool) {
      self.base = base
      self.isWhole = isWhole
      digest = base.reduce(0) { $0 &+ Shown.digest($1.key, $1.value) }
    }

    private static func digest(_ name: Name, _ version: Int64?) -> UInt64 {
      guard let version else { return 0 }
      var hasher = Hasher()
      hasher.combine(name)
      hasher.combine(version)
      return UInt64(bitPattern: Int64(hasher.finalize()))
    }

    /// The version that the client has; nil: it is not known to have `name`.
    package subscript(name: Name) -> Int64? {
      get {
        if let change = changes.first(where: { $0.name == name }) { return change.version }
        return base[name]
      }
      set {
        digest &+= Shown.digest(name, newValue) &- Shown.digest(name, self[name])
        if let index = changes.firstIndex(where: { $0.name == name }) {
          changes[index].version = newValue
        } else {
          changes.append(Change(name: name, version: newValue))
          if changes.count > Shown.mostChanges { mergeChanges() }
        }
      }
    }

    private mutating func mergeChanges() {
      for change in changes { base[change.name] = change.version }
      changes = []
    }

    /// The names of what the client is known to have, with the versions.
    package var versions: [Name: Int64] {
      var merged = self
      merged.mergeChanges()
      return merged.base
    }

    /// How many names the client is known to have.
    package var count: Int {
      changes.reduce(base.count) { count, change in
        count + (change.version == nil ? 0 : 1) - (base[change.name] == nil ? 0 : 1)
      }
    }

    /// Whether the client has more than `rows` names.
    func exceeds(_ rows: Int) -> Bool { base.count + changes.count > rows && count > rows }

    /// The client also has these.
    mutating func add(_ rows: [Name: Int64]) {
      mergeChanges()
      for (name, version) in rows {
        digest &+= Shown.digest(name, version) &- Shown.digest(name, base[name])
        base[name] = version
      }
    }

    /// Compares counts and digests: thousands who follow a chat are compared with one another at each
    /// answer, and each may have thousands of messages.
    package static func == (a: Shown, b: Shown) -> Bool {
      a.isWhole == b.isWhole && a.digest == b.digest && a.count == b.count
    }

    /// The client gets that version of `name`; nil: it has `name` no more. Returns what it had before.
    package mutating func change(_ name: Name, to version: Int64?) -> Verdict.Knowledge {
      let before = knowledge(of: name)
      self[name] = version
      return before
    }

    /// What the client has of `name`.
    package func knowledge(of name: Name) -> Verdict.Knowledge {
      self[name].map { .present(version: $0) } ?? (isWhole ? .absent : .unknown)
    }
  }

  private struct Moment: Sendable {
    let sequence: Int64
    var shown: Shown
  }

  /// The answer before the last, and the last. They are no array, which would lie elsewhere in memory.
  private var (earlier, last): (Moment?, Moment?) = (nil, nil)

  /// Nothing is remembered yet.
  package init() {}

  /// What was shown at `sequence`, as far as that is remembered.
  package func shown(at sequence: Int64) -> Shown {
    if let last, last.sequence == sequence { return last.shown }
    if let earlier, earlier.sequence == sequence { return earlier.shown }
    return .nothing
  }

  /// What the client knew of `name` at `sequence`.
  package func knowledge(of name: Name, at sequence: Int64) -> Verdict.Knowledge {
    shown(at: sequence).knowledge(of: name)
  }

  /// Notes an answer up to `sequence`. With it the client has exactly `versions`.
  package mutating func answered(at sequence: Int64, showing versions: [Name: Int64]) {
    answered(at: sequence, Shown(all: versions))
  }

  /// Notes an answer up to `sequence`. With it the client has `shown`.
  package mutating func answered(at sequence: Int64, _ shown: Shown) {
    if last?.sequence != sequence { earlier = last }
    last = Moment(sequence: sequence, shown: shown)
  }

  /// The same where several clients may have one cursor and not the same. Then what any of them has at that
  /// cursor is not known any more.
  package mutating func oneAnswered(at sequence: Int64, _ shown: Shown) {
    let known = last?.sequence == sequence ? last : earlier?.sequence == sequence ? earlier : nil
    answered(at: sequence, known.map { $0.shown == shown } ?? true ? shown : .nothing)
  }

  /// A load call answered these: they count as shown at every cursor from then on (B17).
  package mutating func loaded(_ rows: [Name: Int64]) {
    earlier?.shown.add(rows)
    last?.shown.add(rows)
  }

  /// The largest number of names that is remembered for one cursor.
  package var count: Int { max(earlier?.shown.count ?? 0, last?.shown.count ?? 0) }
}
