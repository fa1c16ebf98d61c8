/// What a client is told of one message or channel that changed (B9, B18).
package enum Verdict: Hashable, Sendable {
  case added, updated, deleted
  /// Nothing.
  case nothing

  /// What a client knew of the message or channel at its cursor.
  package enum Knowledge: Hashable, Sendable {
    /// It was not in the view.
    case absent
    /// It was in the view, in that version.
    case present(version: Int64)
    /// What the client knew is not remembered.
    case unknown
  }

  /// The verdict if the view shows version `now`; nil: the view does not show it.
  ///
  /// It is exact if the client's knowledge is remembered. Otherwise it is `added` or `deleted`, because
  /// clients treat `added` as an upsert and ignore a `deleted` of what they do not have.
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
