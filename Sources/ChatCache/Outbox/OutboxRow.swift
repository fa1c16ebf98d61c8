import ChatModel

/// One unsent message or change: its row in the table `outbox`, without its content.
package struct OutboxRow: Hashable, Sendable {
  /// The change to make upstream. The raw values are stored.
  package enum Kind: String, Sendable, CaseIterable {
    case message, file, edit, delete, reaction, read

    /// Whether it is sent in the order of the lane. The others never hold anything up (B42).
    package var isOrdered: Bool { self != .reaction && self != .read }
    /// Whether it is a message. A failed message keeps its row and can be resent; a refused change is dropped
    /// (B46).
    package var isMessage: Bool { self == .message || self == .file }
  }

  /// The state of a row. The raw values are stored. A row that succeeded is deleted.
  package enum State: String, Sendable, CaseIterable {
    /// To be sent when its turn and its next try have come.
    case waiting
    /// Behind a failed message that was sent with `block_on_failure` (B42).
    case held
    /// A request is under way.
    case inFlight = "in_flight"
    /// The request may have reached the upstream. A message is looked for before it is sent again (B39).
    case uncertain
    case failed
    case canceled

    /// Whether the service still acts on the row by itself.
    package var isPending: Bool { self != .failed && self != .canceled }
  }

  /// The state of a file message's upload (B45).
  package enum Upload: String, Sendable {
    /// There is no file, or the file goes with its message.
    case none
    case needed
    case running
    /// The file's url is stored, so the file is never uploaded again.
    case done
  }

  /// The row's id, in the order of acceptance.
  package let id: Int64
  /// The client's id of the request.
  package let requestID: RequestID
  /// The change that the row asks for.
  package let kind: Kind
  /// The row's state.
  package var state = State.waiting
  /// Its rank in the lane, the column `place`: rows are sent in the order of their ranks.
  package var rank: Int64
  /// The confirmed message that a change is about, or that a canceled message became and Perch must delete.
  package var target: Int64?
  /// The row of the unsent message that a change is about, if that was under way at the time (B46).
  package var follows: Int64?
  /// Distinguishes changes of one target that must keep their order, such as a reaction's key.
  package let aspect: String
  /// Whether its failure holds the rows behind it.
  package let blocksOnFailure: Bool
  /// Whether the request had the scope `admin`.
  package var isAdmin = false
  /// Whether the user canceled the message while it was in flight or uncertain.
  package var isCancelWanted = false
  /// The state of its upload.
  package var upload: Upload
  /// When it was accepted, ms.
  package var acceptedAt: Int64
  /// When it fails by itself, ms.
  package var expiresAt: Int64
  /// The number of tries since it was accepted or resent. The wait before the next try grows with it.
  package var attempts = 0
  /// The earliest moment of the next try, ms.
  package var nextTryAt: Int64
  /// When it was last sent, ms.
  package var dispatchedAt: Int64?
  /// A look lists the messages after this position: the newest one known at the first send, or the position
  /// up to which earlier looks have read.
  package var anchor: Position?
  /// Whether a try may have reached the upstream, and no look has decided it yet.
  package var mayHaveArrived = false
  /// The number of complete looks in a row that did not find it while it was uncertain.
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

  /// The status that clients see (B38). A message that was taken back is shown as canceled at once.
  package var status: Status {
    if isCancelWanted || state == .canceled { return .canceled }
    return state == .failed ? .failed : .pending
  }

  /// Whether the upstream may have it although no answer came.
  package var isUnanswered: Bool { state == .inFlight || state == .uncertain }

  /// The status of a row for clients.
  package enum Status: String, Sendable, CaseIterable { case pending, failed, canceled }
}
