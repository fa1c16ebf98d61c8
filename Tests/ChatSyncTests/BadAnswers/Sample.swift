import ChatCache
import ChatModel

@testable import ChatSync

/// A good answer of each kind of request, with every field the upstream is known to send.
enum Sample: String, CaseIterable {
  case user, channels, channelChanges, channel, member, messages, message, messageChanges, webhook, refusal

  static let person = #"{"user_id":"bob","nickname":"Bob","profile_url":"p","metadata":{"k":"v"}}"#

  static func message(_ id: Int, text: String = "hi") -> String {
    """
    {"message_id":\(id),"type":"FILE","custom_type":"x","channel_url":"general","channel_type":"group",
    "user":\(person),"message":"\(text)","data":"","mention_type":"users","mentioned_users":[\(person)],
    "is_removed":false,"silent":false,"req_id":"r\(id)","created_at":\(1_700_000_000_000 + id),
    "updated_at":1700000000500,"translations":{"fr":"salut"},
    "file":{"url":"u","name":"n","type":"image/png","size":9},
    "thumbnails":[{"url":"t","width":100,"height":100,"real_width":80,"real_height":80}],
    "sorted_metaarray":[{"key":"a","value":["b"]}],
    "reactions":[{"key":"k","user_ids":["alice"],"updated_at":1700000000600}],
    "thread_info":{"reply_count":2,"most_replies":[\(person)],"last_replied_at":1700000000700,
    "updated_at":1700000000800},"parent_message_id":1,
    "parent_message_info":{"message_id":1,"type":"MESG","message":"p","user":\(person),"ts":1700000000001,
    "file":{"url":"u","name":"n","type":"t","size":3}},"is_reply_to_channel":true,
    "message_survival_seconds":-1,"message_retention_hour":-1,
    "og_tag":{"og:title":"t","og:image":{"url":"i","width":400,"height":300}}}
    """
  }

  static func channel(_ url: String) -> String {
    """
    {"channel_url":"\(url)","name":"General","cover_url":"c","data":"","custom_type":"x","created_at":1600000000,
    "is_distinct":true,"is_public":false,"is_super":false,"freeze":false,"is_broadcast":false,"member_count":2,
    "joined_member_count":2,"unread_message_count":3,"unread_mention_count":1,"last_message":\(message(77)),
    "read_receipt":{"alice":1700000000000,"bob":1700000000001},"members":[
    {"user_id":"alice","nickname":"A","profile_url":"","metadata":{},"state":"joined","role":"operator",
    "is_muted":false,"is_active":true,"last_seen_at":1700000000000},
    {"user_id":"bob","nickname":"B","profile_url":"","metadata":{},"state":"invited","role":"",
    "is_muted":false,"is_active":true,"last_seen_at":0}],
    "metadata":{"k":"v"},"member_state":"joined","my_role":"operator","hidden_state":"unhidden",
    "is_hidden":false,"is_muted":false,"user_last_read":1700000000000,"joined_ts":1600000000,
    "invited_at":1600000000,"inviter":\(person),"ts_message_offset":1500000000000,"max_length_message":5000}
    """
  }

  /// The name of the channel in a list that no test changes.
  static let untouched = "untouched"
  /// The id of the message in a list that no test changes.
  static let untouchedID = 900

  /// The answer's text.
  var text: String {
    switch self {
    case .user:
      #"{"user_id":"alice","nickname":"A","profile_url":"","metadata":{},"is_active":true,"is_online":true,"#
        + #""last_seen_at":1700000000000,"created_at":1600000000}"#
    case .channels:
      #"{"channels":[\#(Sample.channel("general")),\#(Sample.channel(Sample.untouched))],"next":"","#
        + #""ts":1700000000900}"#
    case .channelChanges:
      #"{"updated":[\#(Sample.channel("general")),\#(Sample.channel(Sample.untouched))],"deleted":["gone"],"#
        + #""has_more":false,"next":"T","ts":5}"#
    case .channel: Sample.channel("general")
    case .member: #"{"is_member":true,"state":"joined"}"#
    case .messages: #"{"messages":[\#(Sample.message(500)),\#(Sample.message(Sample.untouchedID))]}"#
    case .message: Sample.message(501)
    case .messageChanges:
      #"{"updated":[\#(Sample.message(502)),\#(Sample.message(Sample.untouchedID))],"#
        + #""deleted":[{"message_id":3,"deleted_at":1700000000000},4],"has_more":false,"next":"T"}"#
    case .webhook:
      #"{"category":"group_channel:message_update","app_id":"A","sender":\#(Sample.person),"silent":false,"#
        + #""channel":{"channel_url":"general","name":"General"},"members":[\#(Sample.person)],"#
        + #""payload":{"message_id":500,"message":"hi","created_at":1700000000000},"#
        + #""read_updates":[{"user_id":"bob","read_ts":1700000000000}]}"#
    case .refusal: #"{"error":true,"code":400201,"message":"no such thing"}"#
    }
  }
}
