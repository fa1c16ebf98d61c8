import ChatCache
import ChatModel
import Testing

@testable import ChatAPI

/// The document's rows about sending. The exercises do the upstream's part themselves.
extension FromTheSDKTests {
  private static let path = "/v1/channels/general/messages"

  static let sending: [(String, Exercise)] = [
    (
      "send a message, a reply, a file by its url",
      { world in
        let file = #"{"type":"file","file_url":"https://example.org/a.png","file_name":"a.png"}"#
        for body in [#"{"message":"hi"}"#, #"{"message":"re","parent_message_id":"7"}"#, file] {
          let answer = world.post(path, body)
          #expect(answer.status == 202 && answer.text("sending_status") == "pending", "\(body)")
        }
        #expect(world.sendFile("r").status == 202)
        let rows = try world.rows()
        #expect(rows.count == 4)
      }
    ),
    (
      "progress of an upload",
      { world in
        let view = world.post("/v1/message-collections", #"{"channel_url":"general"}"#)
        let cursor = view.text("cursor")
        #expect(world.sendFile("r").status == 202)
        try world.cache.write { writer in
          for percent in [7, 9, 40] as [Int64] {
            _ = try writer.noteProgress(
              percent, of: 1, in: OutboxLaneName(user: UserID("alice"), channel: ChannelURL("general")))
          }
        }
        let polls = [
          "/v1/message-collections/\(view.text("id"))/events?since=\(cursor)",
          "/v1/events?since=\(cursor)&user_feed=true",
        ]
        for (poll, told) in zip(polls, [1, 2]) {
          let answer = world.ask(poll)
          #expect(answer.events.count { $0 == "upload.progress" } == told, "\(answer.body)")
          #expect(answer.body.contains(#""progress":{"request_id":"r","percent":40,"size":5}"#))
          #expect(!answer.body.contains(#""percent":9"#))
        }
        let bob = world.ask("/v1/events?since=\(cursor)&user_feed=true&wait=0", as: "bob")
        #expect(!bob.body.contains("upload.progress"))
      }
    ),
    (
      "the bytes of a file that is not sent yet",
      { world in
        #expect(world.sendFile("r").status == 202)
        #expect(world.ask(path + "/request_id:r/file").body == "bytes")
      }
    ),
    (
      "the pending message at once, the sent one later",
      { world in
        #expect(world.send("r").text("sending_status") == "pending")
        try world.put(900, from: "alice", answering: "r")
        let sent = world.ask(path + "/request_id:r")
        #expect(sent.text("message_id") == "900" && sent.text("request_id") == "r")
        #expect(try world.rows().isEmpty)
      }
    ),
    (
      "pending and failed messages are kept",
      { world in
        for name in ["a", "b"] { #expect(world.send(name).status == 202) }
        try world.refuse("a")
        let listed = world.ask("/v1/outbox").body
        #expect(listed.contains(#""request_id":"a""#) && listed.contains(#""request_id":"b""#))
        #expect(world.ask("/v1/outbox?status=failed").body.contains(#""request_id":"a""#))
      }
    ),
    (
      "auto resend",
      { world in
        #expect(world.send("r").status == 202)
        let laneKey = try world.laneKey()
        let later = try world.cache.write { writer in
          try writer.changeLane(laneKey) { lane in
            guard let row = lane.rows.first, lane.dispatch(row.id, .send, now: 1) else { return [] }
            return lane.finish(
              row.id, .send, .linkFault(code: "upstream_unreachable"), now: writer.now, random: 1)
          }
          return try writer.reader.lane(laneKey).nextTryAt
        }
        #expect(later != nil && world.ask(path + "/request_id:r").text("sending_status") == "pending")
      }
    ),
    (
      "resend a failed message",
      { world in
        #expect(world.send("r").status == 202)
        try world.refuse("r")
        #expect(world.post(path + "/request_id:r/resend", "").status == 202)
        #expect(try world.rows().map(\.state) == [.waiting])
      }
    ),
    (
      "remove a failed message, cancel a pending one",
      { world in
        for name in ["a", "b"] { #expect(world.send(name).status == 202) }
        try world.refuse("a")
        #expect(world.ask(path + "/request_id:a", method: "DELETE").status == 204)
        #expect(world.ask(path + "/request_id:b", method: "DELETE").status == 202)
        #expect(try world.rows().map(\.state) == [.canceled])
      }
    ),
    (
      "edit, delete",
      { world in
        try world.put(900, from: "alice")
        try world.put(901, from: "alice")
        #expect(world.ask(path + "/900", method: "PATCH", body: #"{"message":"new"}"#).status == 202)
        #expect(world.ask(path + "/901", method: "DELETE").status == 202)
        #expect(world.ask(path + "/900").body.contains(#""pending_edit":"#))
        #expect(world.ask(path + "/901").body.contains(#""pending_delete":"#))
      }
    ),
    (
      "add and remove a reaction",
      { world in
        for method in ["PUT", "DELETE"] {
          #expect(world.ask(path + "/7/reactions/smile", method: method).status == 202)
        }
        #expect(world.ask(path + "/7").body.contains(#""pending_reactions":"#))
      }
    ),
    (
      "mark as read",
      { world in
        let answer = world.post("/v1/channels/general/read", "")
        #expect(answer.status == 200 && answer.text("channel_url") == "general")
        let rows = try world.rows()
        #expect(rows.map(\.kind) == [.read])
      }
    ),
    (
      "resend policy",
      { world in
        for name in ["a", "b"] {
          #expect(world.send(name).status == 202)
          try world.refuse(name)
        }
        #expect(world.post(path + "/resend", "").body.contains("2"))
        #expect(try world.rows().map(\.state) == [.waiting, .waiting])
      }
    ),
  ]
}

extension CollectionWorld {
  /// Sends a file of five bytes.
  fileprivate func sendFile(_ name: String) -> Answer {
    let form =
      "--b\r\nContent-Disposition: form-data; name=\"params\"\r\n\r\n{\"request_id\":\"\(name)\"}\r\n"
      + "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nbytes\r\n--b--\r\n"
    return ask(
      "/v1/channels/general/messages", method: "POST", body: form,
      extra: ["Content-Type": "multipart/form-data; boundary=b"])
  }
}
