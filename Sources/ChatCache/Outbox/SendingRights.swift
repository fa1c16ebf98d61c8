import ChatModel
import JSON
import SQLite

/// Why a request to send or change a message is not accepted. Nothing was stored.
package enum SendingDenial: Error, Hashable, Sendable {
  /// The user does not see the channel (B1).
  case channelNotFound
  /// The user is invited and has not joined.
  case notJoined
  /// The user is a member and may not do this (B67).
  case notAllowed(Reason)
  /// The message does not exist.
  case messageNotFound
  /// The message is not sent yet, so nothing can refer to it.
  case unsent
  /// The text has more characters than the channel allows.
  case tooLong(limit: Int)
  /// The user has reached the limit of unsent rows.
  case full(limit: Int)

  /// Why a member may not do something.
  package enum Reason: String, Sendable {
    case muted, frozen, broadcast
    /// Only the sender may edit a message.
    case notSender = "not_sender"
    /// Only the sender and operators may delete a message.
    case notOperator = "not_operator"
    /// Admin messages need the scope `admin`.
    case adminOnly = "admin_only"
  }
}

/// The channel's settings that decide who may send and how long a text may be.
struct SendingRules {
  /// The greatest length of a text in characters, if the channel names none.
  static let usualLength = 5000

  var isBroadcast = false
  var maximumLength = usualLength
}

extension SendingRules {
  /// Whether a member may post or change messages now.
  func check(_ view: ChannelView, isAdmin: Bool) throws(SendingDenial) {
    if isAdmin || view.isOperator { return }
    if view.isMuted { throw .notAllowed(.muted) }
    if view.isFrozen { throw .notAllowed(.frozen) }
    if isBroadcast { throw .notAllowed(.broadcast) }
  }
}

extension CacheReader {
  /// Checks that the user may do what the request asks, by the channel's state in this snapshot (B67). Called
  /// when a request is accepted, and again before it is sent.
  func checkRights(
    of request: SendingRights, _ view: ChannelView, _ user: UserID, _ known: SendingRules? = nil
  ) throws {
    guard view.isJoined else { throw SendingDenial.notJoined }
    let rules = try known ?? sendingRules(of: view.channel)
    switch request.kind {
    case .message, .file:
      try rules.check(view, isAdmin: request.isAdmin)
      if request.textLength > rules.maximumLength {
        throw SendingDenial.tooLong(limit: rules.maximumLength)
      }
    case .edit:
      if let target = try target(of: request, view), !request.isAdmin, UserID(target.sender) != user {
        throw SendingDenial.notAllowed(target.sender.isEmpty ? .adminOnly : .notSender)
      }
      try rules.check(view, isAdmin: request.isAdmin)
      if request.textLength > rules.maximumLength {
        throw SendingDenial.tooLong(limit: rules.maximumLength)
      }
    case .delete:
      if let target = try target(of: request, view),
        !request.isAdmin, UserID(target.sender) != user, !view.isOperator
      {
        throw SendingDenial.notAllowed(.notOperator)
      }
    case .reaction: _ = try target(of: request, view)
    case .read: break
    }
  }

  /// The message that a change is about. Nil: it left the cache after the change was accepted, and was not
  /// deleted, so the upstream decides.
  private func target(
    of request: SendingRights, _ view: ChannelView
  ) throws -> (sender: String, createdAt: Int64)? {
    let found = try request.target.flatMap { id in
      try db.first(
        """
        SELECT sender, created_at
        FROM message INDEXED BY message_by_id
        WHERE channel = ?1 AND message_id = ?2
        """
      ) {
        $0.bind(1, view.channel.rawValue)
        $0.bind(2, id)
      } _: {
        (sender: $0.string(0), createdAt: $0.int64(1))
      }
    }
    if found == nil, request.isAccepted, let id = request.target, try !isDeleted(id, in: view.channel) {
      return nil
    }
    guard let found, found.createdAt >= view.floorAt else { throw SendingDenial.messageNotFound }
    return found
  }

  func sendingRules(of channel: ChannelKey) throws -> SendingRules {
    var rules = SendingRules()
    let body = try db.first("SELECT body FROM channel WHERE id = ?1") {
      $0.bind(1, channel.rawValue)
    } _: {
      [UInt8(ascii: "{")] + Array($0.bytes(0)) + [UInt8(ascii: "}")]
    }
    guard let body else { return rules }
    try body.withUnsafeBytes { bytes in
      try JSONParser.parse(bytes) { channel in
        rules.isBroadcast = channel["is_broadcast"]?.bool ?? false
        if let length = channel["max_message_length"]?.int64, length > 0, length < 1 << 20 {
          rules.maximumLength = Int(length)
        }
      }
    }
    return rules
  }
}

/// The parts of a request that decide which rights it needs.
package struct SendingRights: Sendable {
  /// The change that the request asks for.
  package var kind: OutboxRow.Kind
  /// The confirmed message that the request changes.
  package var target: Int64?
  /// The length of the text in characters.
  package var textLength: Int
  /// Whether the caller has the scope `admin`, as an operator of the service.
  package var isAdmin: Bool

  /// Whether the request was accepted before, and is about to be sent.
  package var isAccepted: Bool

  /// The rights that a request needs.
  package init(
    kind: OutboxRow.Kind, target: Int64? = nil, textLength: Int = 0, isAdmin: Bool = false,
    isAccepted: Bool = false
  ) {
    self.isAccepted = isAccepted
    self.kind = kind
    self.target = target
    self.textLength = textLength
    self.isAdmin = isAdmin
  }
}
