import ChatCache
import ChatModel
import TestSupport
import Testing

@testable import ChatAPI

/// The meaning of request names, and the effect of a repeated request (B37).
@Suite(.timeLimit(.minutes(5))) struct NameTests {
  private static let path = "/v1/channels/general/messages"

  private func ask(_ world: CollectionWorld, _ method: String, _ ref: String, key: String? = nil) -> Answer {
    world.ask(
      Self.path + "/" + ref, method: method, extra: key.map { ["Idempotency-Key": $0] } ?? [:])
  }

  @Test("B37: the name of a reaction or an edit stands for no message: who takes it back deletes none")
  func changes() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    #expect(ask(world, "PUT", "3/reactions/heart", key: "liked").status == 202)
    let edited = world.ask(
      Self.path + "/3", method: "PATCH", body: #"{"message":"better","request_id":"edited"}"#)
    #expect(edited.status == 202)
    let rows = try world.rows().count
    for name in ["liked", "edited"] {
      for method in ["GET", "DELETE"] {
        let answer = ask(world, method, "request_id:" + name)
        #expect(answer.text("code") == "message_not_found", "\(method) \(name): \(answer.body)")
      }
    }
    #expect(try world.rows().count == rows)
  }

  @Test("B37: a repeated deletion of an unsent message is answered, and deletes no further")
  func taken() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    #expect(world.post(Self.path, #"{"message":"hi","request_id":"m"}"#).status == 202)
    let first = ask(world, "DELETE", "request_id:m", key: "gone")
    #expect(first.status == 202 && first.text("sending_status") == "canceled")
    #expect(first["Idempotency-Replayed"] == nil)
    for _ in 0..<2 {
      let again = ask(world, "DELETE", "request_id:m", key: "gone")
      #expect(again.status == 202 && again.text("sending_status") == "canceled")
      #expect(again["Idempotency-Replayed"] == "true")
    }
    #expect(try world.rows().count == 1, "it can still be sent")
    let other = world.post(Self.path, #"{"message":"other","request_id":"gone"}"#)
    #expect(other.text("code") == "idempotency_mismatch")
    #expect(ask(world, "DELETE", "request_id:m", key: "removed").status == 204)
    let removed = ask(world, "DELETE", "request_id:m", key: "removed")
    #expect(removed.status == 204 && removed["Idempotency-Replayed"] == "true")
    #expect(ask(world, "DELETE", "request_id:m", key: "new").text("code") == "message_not_found")
  }

  @Test("B49: an unsent message that an edit takes out of a view's filter is told as gone")
  func filtered() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    let view = world.post("/v1/message-collections", #"{"channel_url":"general","custom_types":["x"]}"#)
    let feed = "/v1/message-collections/\(view.text("id"))/events?wait=0&since="
    #expect(world.post(Self.path, #"{"message":"hi","custom_type":"x","request_id":"m"}"#).status == 202)
    let added = world.ask(feed + view.text("cursor"))
    #expect(added.body.contains("messages.added"))
    let edited = world.ask(Self.path + "/request_id:m", method: "PATCH", body: #"{"custom_type":"y"}"#)
    #expect(edited.status == 202)
    let gone = world.ask(feed + added.text("cursor"))
    #expect(gone.body.contains("messages.deleted") && gone.body.contains(#""request_id":"m""#))
    #expect(gone.body.contains(#""sending_status":"pending""#))
  }
}
