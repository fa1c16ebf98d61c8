import ChatModel

/// What decides over one unsent message or change: the table's row without its content.
package struct OutboxRow: Hashable, Sendable {
  /// The change to make upstream. The names are stored.
  package enum Kind: String, Sendable, CaseIterable {
    case message, file, edit, delete, reaction, read

    /// Whether it is sent in the order of the lane. The others never hold anything up (B42).
    package var isOrdered: Bool { self != .reaction && self != .read }
    /// Whether it is a message, which stays as a row when it fails, to be resent. A refused change is dropped
    /// (B46).
    package var isMessage: Bool { self == .message || self == .file }
  }

  /// Where it stands. The names are stored. A row that succeeded is gone.
  package enum State: String, Sendable, CaseIterable {
    /// To be sent when its turn and its next try have come.
    case waiting
    /// Behind a failed message that asked to hold what follows it (B42).
    case held
    /// A request is under way.
    case inFlight = "in_flight"
    /// The message may have reached the upstream. A listing decides; it is not repeated or failed before
    /// (B39).
    case uncertain
    case failed
    case canceled

    /// Whether something is still going to happen by itself.
    package var isPending: Bool { self != .failed && self != .canceled }
  }

  /// How far the bytes of a file message are (B45).
  package enum Upload: String, Sendable {
    /// There is nothing to upload by itself.
    case none
    case needed
    case running
    /// Its url is stored: never uploaded again.
    case done
  }

  /// The order of acceptance.
  package let id: Int64
  /// The client's id of the request.
  package let requestID: RequestID
  /// The change that the row asks for.
  package let kind: Kind
  /// Where it stands.
  package var state = State.waiting
  /// Its rank in the lane, the column `place`: rows are sent in the order of their ranks.
  package var rank: Int64
  /// The confirmed message it is about. Of a canceled message: the one that has to be deleted upstream.
  package var target: Int64?
  /// The row of the unsent message it is about: that one was under way when this was asked (B46).
  package var follows: Int64?
  /// Distinguishes changes of one target that must keep their order, such as a reaction's key.
  package let aspect: String
  /// Whether its failure holds what follows it.
  package let blocksOnFailure: Bool
  /// Whether it was asked with the scope `admin`.
  package var isAdmin = false
  /// Whether the user took it back while it could no longer be stopped.
  package var isCancelWanted = false
  /// How far its bytes are.
  package var upload: Upload
  /// When it was accepted, ms.
  package var acceptedAt: Int64
  /// When it fails by itself, ms.
  package var expiresAt: Int64
  /// How many times it was sent off since it was accepted or resent.
  package var attempts = 0
  /// Before this moment nothing is tried, ms.
  package var nextTryAt: Int64
  /// When it was last sent off, ms.
  package var dispatchedAt: Int64?
  /// The newest position known in the channel when it was first sent off: the message it became lies after
  /// it.
  package var anchor: Position?
  /// Whether some try may have reached the upstream, as far as nobody found out.
  package var mayHaveArrived = false
  /// How many listings in a row did not show it while it was uncertain.
  package var absences = 0
  /// Why the row failed, or why it waits. An uncertain row fails with this code if no listing shows it.
  package var errorCode: String?

  /// A row as it is accepted at `now`.
  package init(
    id: Int64, requestID: RequestID, kind: Kind, target: Int64? = nil, follows: Int64? = nil,
    aspect: String = "", blocksOnFailure: Bool = false, upload: Upload = .none, now: Int64,
    lifetime: Int64 = Limits.pendingMilliseconds
  ) {
    self.id = id
    self.requestID = requestID
    self.kind = kind
    self.target = target
    self.follows = follows
    self.aspect = aspect
    self.blocksOnFailure = blocksOnFailure
    self.upload = upload
    rank = id
    acceptedAt = now
    expiresAt = now + lifetime
    nextTryAt = now
  }

  /// The status clients see (B38): a message that was taken back is canceled at once.
  package var status: Status {
    if isCancelWanted || state == .canceled { return .canceled }
    return state == .failed ? .failed : .pending
  }

  /// Whether it may be at the upstream without an answer: then a message like it may be the answer (B38).
  package var isUnanswered: Bool { state == .inFlight || state == .uncertain }

  /// What clients see of a row.
  package enum Status: String, Sendable, CaseIterable { case pending, failed, canceled }
}
