import ChatModel
import Testing

@testable import ChatSync

@Suite struct OutgoingBodyTests {
  private func message(_ params: String) -> OutgoingMessage {
    OutgoingMessage(
      requestID: RequestID("r:1")!, user: UserID("al\"ice"), channel: ChannelURL("a/b"),
      params: Array(params.utf8))
  }

  private func sent(_ params: String) throws -> String {
    String(decoding: try OutgoingBody.send(message(params)), as: UTF8.self)
  }

  private func refusal(_ body: () throws -> Void) -> Int? {
    do { try body() } catch UpstreamError.rejection(let code, _) { return code } catch { return -1 }
    return nil
  }

  @Test("A text message with every field, in the upstream's names")
  func everything() throws {
    let params = #"""
      {"type":"user","message":"a \"b\" \\ \n \u0000 é 😀 \ud83d\ude00","data":"{\"k\":1}","custom_type":"t",
      "mention_type":"users","mentioned_user_ids":["bob","c\"d"],"is_silent":true,"is_reply_to_channel":false,
      "metaarray":[{"key":"k","value":["v","\t"],"more":1},{"key":"none"}],
      "parent_message_id":"9223372036854775807","unknown":7,"user_id":"mallory","file_url":"no"}
      """#
    #expect(
      try sent(params)
        == #"{"message_type":"MESG","user_id":"al\"ice","message":"a \"b\" \\ \n \u0000 é 😀 😀","#
        + #""data":"{\"k\":1}","custom_type":"t","mention_type":"users","mentioned_user_ids":["bob","c\"d"],"#
        + #""sorted_metaarray":[{"key":"k","value":["v","\t"]},{"key":"none","value":[]}],"#
        + #""parent_message_id":9223372036854775807,"is_silent":true,"is_reply_to_channel":false,"#
        + #""dedup_id":"r:1","mark_as_read":true}"#)
  }

  @Test("A file by its url; an admin message has no user and marks nothing as read")
  func kinds() throws {
    #expect(
      try sent(
        #"{"type":"file","file_url":"http://x/a","file_name":"a","file_mime":"image/png","file_size":9}"#)
        == #"{"message_type":"FILE","user_id":"al\"ice","url":"http://x/a","file_name":"a","#
        + #""file_type":"image/png","file_size":9,"dedup_id":"r:1","mark_as_read":true}"#)
    #expect(
      try sent(#"{"type":"admin","message":"m","data":null}"#)
        == #"{"message_type":"ADMM","message":"m","dedup_id":"r:1"}"#)
  }

  @Test("An edit says what changes and what kind of message it is")
  func edits() throws {
    func edited(_ kind: MessageQuery.Kind, _ params: String) throws -> String {
      let edit = OutgoingEdit(user: UserID("bob"), kind: kind, params: Array(params.utf8))
      return String(decoding: try OutgoingBody.edit(edit), as: UTF8.self)
    }
    #expect(
      try edited(.user, #"{"message":"n","parent_message_id":"5","is_silent":true}"#)
        == #"{"message_type":"MESG","user_id":"bob","message":"n"}"#)
    #expect(
      try edited(.file, #"{"data":"d","metaarray":[]}"#)
        == #"{"message_type":"FILE","user_id":"bob","data":"d","sorted_metaarray":[]}"#)
    #expect(try edited(.admin, #"{"message":"n"}"#) == #"{"message_type":"ADMM","message":"n"}"#)
  }

  @Test(
    "B40: what cannot be written as it was meant is refused before anything is sent",
    arguments: [
      (400403, "nonsense"), (400403, ""), (400403, #"{"type":"user","message":"\ud800"}"#), (400103, "[]"),
      (400111, "{}"), (400111, #"{"type":"MESG"}"#), (400111, #"{"type":7}"#),
      (400100, #"{"type":"user","message":7}"#), (400100, #"{"type":"user","data":{}}"#),
      (400102, #"{"type":"user","mentioned_user_ids":"bob"}"#),
      (400100, #"{"type":"user","mentioned_user_ids":[1]}"#),
      (400102, #"{"type":"user","metaarray":{}}"#), (400111, #"{"type":"user","metaarray":[7]}"#),
      (400111, #"{"type":"user","metaarray":[{"value":[]}]}"#),
      (400102, #"{"type":"user","metaarray":[{"key":"k","value":"v"}]}"#),
      (400100, #"{"type":"user","metaarray":[{"key":"k","value":[1]}]}"#),
      (400111, #"{"type":"user","parent_message_id":5}"#),
      (400111, #"{"type":"user","parent_message_id":""}"#),
      (400111, #"{"type":"user","parent_message_id":"-5"}"#),
      (400111, #"{"type":"user","parent_message_id":"9223372036854775808"}"#),
      (400104, #"{"type":"user","is_silent":"true"}"#), (400105, #"{"type":"file"}"#),
      (400101, #"{"type":"file","file_url":"u","file_size":1e300}"#),
      (400101, #"{"type":"file","file_url":"u","file_size":-1}"#),
      (400101, #"{"type":"file","file_url":"u","file_size":18446744073709551615}"#),
    ])
  func refused(_ code: Int, _ params: String) {
    #expect(refusal { _ = try sent(params) } == code, "\(params)")
  }

  @Test("The parameters are bounded")
  func bounded() {
    func params(_ count: Int) -> String {
      let head = #"{"type":"user","message":""#
      return head + String(repeating: "x", count: count - head.utf8.count - 2) + #""}"#
    }
    #expect(refusal { _ = try sent(params(OutgoingBody.bytes)) } == nil)
    #expect(refusal { _ = try sent(params(OutgoingBody.bytes + 1)) } == 400110)
  }
}
