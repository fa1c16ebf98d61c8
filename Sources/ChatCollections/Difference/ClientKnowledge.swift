/// What a client's view showed at the last two cursors that it was answered with (B9): the name and version
/// of each message or channel. Older cursors, and those of before a start, are not remembered.
package struct ClientKnowledge<Name: Hashable & Sendable>: Sendable {
  /// What a client has at one cursor.
  package struct Shown: Sendable, Equatable {
    /// The names of what the client is known to have, with the versions.
    package var versions: [Name: Int64]
    /// Whether these are all. They are not after an answer that was cut and followed a forgotten cursor: then
    /// the client may have others, too.
    package var isWhole: Bool

    /// Nothing is remembered.
    package static var nothing: Shown { Shown(versions: [:], isWhole: false) }

    /// The client has the whole view, in these versions.
    package init(all versions: [Name: Int64]) { self.init(versions: versions, isWhole: true) }

    private init(versions: [Name: Int64], isWhole: Bool) {
      self.versions = versions
      self.isWhole = isWhole
    }

    /// The client gets that version of `name`; nil: it has `name` no more. Returns what it had before.
    package mutating func change(_ name: Name, to version: Int64?) -> Verdict.Knowledge {
      let before =
        if let version {
          versions.updateValue(version, forKey: name)
        } else {
          versions.removeValue(forKey: name)
        }
      return before.map { .present(version: $0) } ?? (isWhole ? .absent : .unknown)
    }

    /// What the client has of `name`.
    package func knowledge(of name: Name) -> Verdict.Knowledge {
      versions[name].map { .present(version: $0) } ?? (isWhole ? .absent : .unknown)
    }
  }

  private struct Moment: Sendable {
    let sequence: Int64
    var shown: Shown
  }

  /// The number of cursors that are remembered.
  package static var depth: Int { 2 }

  private var moments: [Moment] = []

  /// Nothing is remembered yet.
  package init() {}

  /// What was shown at `sequence`, as far as that is remembered.
  package func shown(at sequence: Int64) -> Shown {
    moments.last { $0.sequence == sequence }?.shown ?? .nothing
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
    moments.removeAll { $0.sequence == sequence }
    moments.append(Moment(sequence: sequence, shown: shown))
    if moments.count > Self.depth { moments.removeFirst(moments.count - Self.depth) }
  }

  /// A load call answered these: they count as shown at every cursor from then on (B17).
  package mutating func loaded(_ rows: [Name: Int64]) {
    for index in moments.indices { moments[index].shown.versions.merge(rows) { $1 } }
  }

  /// The largest number of names that is remembered for one cursor.
  package var count: Int { moments.map(\.shown.versions.count).max() ?? 0 }
}
