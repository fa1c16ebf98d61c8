import ChatCache
import ChatModel
import JSON
import Platform

/// Reads the body of a webhook whose signature was checked, as notes: what to ask the upstream about, and the
/// source of the events that the answer makes. A webhook makes no message row (B34), because it may come
/// twice, late or in any order.
///
/// Only these fields are used: `category`, the channel's url and `freeze`, the message's id, and the ids of
/// users who are named.
package enum Webhook {
  /// Something to ask the upstream about.
  package typealias Note = ChatCache.WebhookNote

  /// A signed body that is no webhook: no JSON object, or an object without `field`.
  package struct Fault: Error, Equatable {
    /// The missing field; nil: the body is no JSON object.
    package let field: String?
  }

  /// The body's notes; none for a category that Perch does not use, which is answered like others.
  package static func notes(_ body: UnsafeRawBufferPointer) throws(Fault) -> [WebhookNote] {
    do {
      return try JSONParser.parse(body) { try notes($0) }
    } catch let fault as Fault {
      throw fault
    } catch {
      throw Fault(field: nil)
    }
  }

  private static func notes(_ root: JSONValue) throws(Fault) -> [WebhookNote] {
    guard root.kind == .object else { throw Fault(field: nil) }
    guard let category = root["category"]?.string else { throw Fault(field: "category") }
    guard category.hasPrefix("group_channel:"), let channel = root.object("channel"),
      let url = channel["channel_url"]?.string, !url.isEmpty
    else { return [] }
    return note(String(category.dropFirst("group_channel:".count)), root, ChannelURL(url)).map { [$0] }
      ?? []
  }

  private static func note(_ category: String, _ root: JSONValue, _ url: ChannelURL) -> WebhookNote? {
    func make(_ kind: WebhookNote.Kind, _ source: ChangeSource) -> WebhookNote {
      let id = messageID(root)
      // A message without an id cannot be fetched alone. A check of the channel finds it.
      let isNameless = kind == .message && id == 0
      return WebhookNote(
        kind: isNameless ? .newest : kind, channel: url, messageID: kind == .channel ? 0 : id, source: source,
        users: source == .memberLeft ? leavers(root) : users(root))
    }
    switch category {
    case "message_send": return make(.newest, .messageReceived)
    case "message_update": return make(.message, .messageUpdated)
    case "message_delete": return make(.message, .messageDeleted)
    case "reaction_add", "reaction_delete": return make(.message, .reactionUpdated)
    case "message_read": return make(.channel, .read)
    case "create": return make(.channel, .channelChanged)
    case "changed": return make(.channel, .channelChanged)
    case "remove": return make(.channel, .channelDeleted)
    case "invite": return make(.channel, .memberInvited)
    case "join": return make(.channel, .memberJoined)
    case "leave", "decline_invite": return make(.channel, .memberLeft)
    case "freeze_unfreeze":
      let isFrozen = root["freeze"]?.tolerantBool ?? root["channel"]?["freeze"]?.tolerantBool ?? true
      return make(.channel, isFrozen ? .channelFrozen : .channelUnfrozen)
    default: return nil
    }
  }

  private static func messageID(_ root: JSONValue) -> Int64 {
    root["payload"]?["message_id"]?.messageID ?? root["message_id"]?.messageID
      ?? root["reaction_update"]?["msg_id"]?.messageID ?? root["msg_id"]?.messageID ?? 0
  }

  private static func users(_ root: JSONValue) -> [UserID] {
    ids(
      lists: [root["invitees"], root["users"], root["members"], root["read_updates"]],
      [root["invitee"], root["user"]])
  }

  /// The users who left. `members`, if it is there, has those who stayed.
  private static func leavers(_ root: JSONValue) -> [UserID] {
    ids(lists: [root["users"]], [root["invitee"], root["user"]])
  }

  private static func ids(lists: [JSONValue?], _ users: [JSONValue?]) -> [UserID] {
    var found: Set<ExactText> = []
    for list in lists {
      for user in list?.items ?? .none { found.insert(ExactText(user.text("user_id"))) }
    }
    for user in users { found.insert(ExactText(user?.text("user_id") ?? "")) }
    found.remove("")
    return found.sorted().map { UserID($0.text) }
  }
}
