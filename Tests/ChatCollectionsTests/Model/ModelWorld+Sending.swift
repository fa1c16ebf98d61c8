import ChatModel
import JSON
import TestSupport

@testable import ChatCache
@testable import ChatCollections

// Clients' sends and changes, and their outcomes.
extension ModelWorld {
  private static let policy: OutboxPolicy = {
    var policy = OutboxPolicy()
    policy.deduplicates = true
    return policy
  }()

  /// A client sends a message or requests a change. A request that the user may not make is refused and
  /// changes nothing.
  func ask(_ index: Int, _ random: inout SeededRandom) throws {
    let user = UserID(["alice", "alice", "bob"].pick(&random))
    let url = upstreams[index].url
    guard let request = try request(user, index, &random) else { return }
    do {
      _ = try accept { try $0.accept(request, of: user, in: url, Self.policy) }
    } catch is SendingDenial { return }
  }

  private func request(
    _ user: UserID, _ index: Int, _ random: inout SeededRandom
  ) throws -> UnsentRequest? {
    requests += 1
    let kinds: [OutboxRow.Kind] = [.message, .message, .message, .edit, .edit, .delete, .reaction, .read]
    let kind = kinds.pick(&random)
    let text = "mine \(requests)"
    let params =
      switch kind {
      case .reaction: #"{"add":\#(random.chance(70))}"#
      case .message, .file, .edit: #"{"message":"\#(text)"}"#
      case .delete, .read: "{}"
      }
    let content = OutboxContent(params: Array(params.utf8), body: [])
    guard let name = RequestID("r\(requests)") else { return nil }
    var request = UnsentRequest(requestID: name, kind: kind, content: content, contentHash: content.params)
    request.sender = kind == .message ? user : nil
    request.blocksOnFailure = random.chance(20)
    request.aspect = kind == .reaction ? "smile" : ""
    guard [.edit, .delete, .reaction].contains(kind) else { return request }
    // The target is an unsent message, or one upstream.
    let laneKey = try laneKey(of: user, index)
    let unsent = try laneKey.map { laneKey in try cache.read { try $0.lane(laneKey) } }?.rows
    if kind != .reaction, random.chance(30),
      let row = unsent?.filter({ $0.kind.isMessage }).randomElement(using: &random)
    {
      request.unsentTarget = row.requestID
      return request
    }
    let own = upstreams[index].inOrder.filter { kind == .reaction || $0.sender == user.text }
    guard let target = own.suffix(12).randomElement(using: &random) else { return nil }
    request.target = target.id
    return request
  }

  private func laneKey(of user: UserID, _ index: Int) throws -> OutboxLaneKey? {
    try cache.read { try $0.userKey(of: user) }
      .map { OutboxLaneKey(user: $0, channel: upstreams[index].url) }
  }

  /// The worker takes a lane's next step, or its user resends or removes a message.
  func send(_ index: Int, _ random: inout SeededRandom) throws {
    let user = UserID(["alice", "alice", "bob"].pick(&random))
    let lane = OutboxLaneName(user: user, channel: upstreams[index].url)
    if random.chance(25) { return try intervene(user, index, &random) }
    // Together less than the ten minutes for which a view reports a channel that its user lost (B69).
    let later = [0, 0, 100, 1_000, 2_000, 35_000].pick(&random)
    wall.withLock { $0 += Int64(later) }
    let ended = underWay.removeValue(forKey: lane).map { answer(to: $0, of: user, index, &random) }
    let isLinkBack = random.chance(20)
    let progress = try accept {
      try $0.advance(lane, after: ended, isLinkBack: isLinkBack, Self.policy, random: 500)
    }
    underWay[lane] = progress.begun
  }

  private func intervene(_ user: UserID, _ index: Int, _ random: inout SeededRandom) throws {
    guard let laneKey = try laneKey(of: user, index),
      let row = try cache.read({ try $0.lane(laneKey) }).rows.randomElement(using: &random)
    else { return }
    let isResent = random.chance(50)
    try accept { writer in
      let moment = try writer.outboxMoment()
      try writer.changeLane(laneKey, from: try writer.reader.laneStep(laneKey, row: row.id)) {
        isResent ? $0.resend(row.id, now: moment).notices : $0.remove(row.id, now: moment).notices
      }
    }
  }

  /// Does a request upstream, and returns the outcome that comes back.
  private func answer(
    to job: OutboxJob, of user: UserID, _ index: Int, _ random: inout SeededRandom
  ) -> EndedOutboxJob {
    if case .look(let position) = job.job {
      let found = upstreams[index].inOrder.map(\.record).filter { $0.position > position }
      return random.chance(10)
        ? EndedOutboxJob(job, .uncertain) : EndedOutboxJob(job, .absent, messages: found)
    }
    switch Int.random(in: 0..<10, using: &random) {
    case 0: return EndedOutboxJob(job, .rejection(code: "900060"))
    case 1: return EndedOutboxJob(job, .linkFault(code: "unreachable"))
    case 2: return EndedOutboxJob(job, .uncertain)
    case 3:
      _ = perform(job, of: user, index, isNamed: random.chance(50))
      return EndedOutboxJob(job, .uncertain)
    default: return perform(job, of: user, index, isNamed: random.chance(50))
    }
  }

  /// Does a request upstream.
  private func perform(
    _ job: OutboxJob, of user: UserID, _ index: Int, isNamed: Bool
  ) -> EndedOutboxJob {
    let missing = EndedOutboxJob(job, .rejection(code: "400201"))
    if case .deleteSent(let message) = job.job {
      upstreams[index].delete(message)
      return EndedOutboxJob(job, .success(message: message))
    }
    let target = job.target ?? 0
    switch job.kind {
    case .message, .file:
      let known = upstreams[index].inOrder.first {
        $0.sender == user.text && $0.asked == job.requestID.text
      }
      let sent =
        known
        ?? upstreams[index].send(
          Self.text(job), from: user.text, request: job.requestID.text, isNamed: isNamed)
      return EndedOutboxJob(job, .success(message: sent.id), messages: [sent.record])
    case .edit:
      let text = Self.text(job)
      guard let edited = upstreams[index].change(target, { $0.text = text }) else { return missing }
      return EndedOutboxJob(job, .success(message: target), messages: [edited.record])
    case .delete:
      guard upstreams[index].messages[target] != nil else { return missing }
      upstreams[index].delete(target)
      return EndedOutboxJob(job, .success(message: target))
    case .reaction:
      let isAdded = job.addsReaction
      guard let shown = upstreams[index].change(target, { $0.hasReaction = isAdded }) else { return missing }
      return EndedOutboxJob(job, .success(message: target), messages: [shown.record])
    case .read: return EndedOutboxJob(job, .success(message: nil))
    }
  }

  private static func text(_ job: OutboxJob) -> String {
    job.params.withUnsafeBytes { JSONParser().read($0) { $0["message"]?.string } ?? nil } ?? ""
  }
}
