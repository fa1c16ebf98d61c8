/// What a client is told of one thing that changed (B9, B18).
package enum Verdict: Hashable, Sendable {
  case added, updated, deleted
  /// Nothing.
  case nothing

  /// What a client knew of the thing at its cursor.
  package enum Knowledge: Hashable, Sendable {
    /// It was not in the view.
    case absent
    /// It was in the view, in that version.
    case present(version: Int64)
    /// Nobody remembers what the client knew.
    case unknown
  }

  /// Of a thing that is in the view now in version `now`, or is not (nil).
  ///
  /// Exact where it is remembered what the client knew. Where not, conservative: clients treat `added` as
  /// upsert and `deleted` as "if present", and `updated` is never said of what a client may not know.
  package init(since then: Knowledge, now: Int64?) {
    switch (then, now) {
    case (.absent, nil): self = .nothing
    case (.absent, _?): self = .added
    case (.present, nil): self = .deleted
    case (.present(let version), let now?): self = version == now ? .nothing : .updated
    case (.unknown, nil): self = .deleted
    case (.unknown, _?): self = .added
    }
  }
}
