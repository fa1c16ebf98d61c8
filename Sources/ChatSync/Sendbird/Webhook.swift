import ChatCache
import ChatModel
import JSON
import Platform

/// Reads a webhook's body, whose signature was checked, as notes: what to ask the upstream about, and the
/// event source the answer will carry. No message row comes of a webhook itself (B34): it may come twice,
/// late or shuffled.
///
/// Trusted are `category`, `channel.channel_url`, `payload.message_id`, and the users a membership change
/// names.
package enum Webhook {
  /// One thing to ask about.
  package typealias Note = ChatCache.WebhookNote

  /// A signed body that is no webhook: no JSON object, or one that lacks that field.
  package struct Fault: Error, Equatable {
    /// Nil where the whole body is at fault.
    package let field: String?
  }

  /// The body's notes: none for categories of no interest, which are answered like others.
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
      // Without an id there is nothing to fetch by: the newest end and the changelog find it.
      let isNameless = kind == .message && id == 0
      return WebhookNote(
        kind: isNameless ? .newest : kind, channel: url, messageID: kind == .channel ? 0 : id, source: source,
        users: users(root))
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
    var found: Set<ExactText> = []
    for list in [root["invitees"], root["users"], root["members"], root["read_updates"]] {
      for user in list?.items ?? .none { found.insert(ExactText(user.text("user_id"))) }
    }
    found.remove("")
    return found.sorted().map { UserID($0.text) }
  }
}
