import ChatModel
import Testing

@testable import ChatAPI

/// Lists in a query: an empty value is a 400 that names the parameter, unless it means something (B12).
@Suite struct ListParameterTests {
  @Test("an empty value of a list is a 400 that names it")
  func empty() throws {
    let world = try CollectionWorld()
    defer { world.stop() }
    try world.join("alice", "general", name: "General")
    for name in ["channel_urls", "user_ids_include", "user_ids_exact", "search_fields"] {
      let search = name == "search_fields" ? "&search=x" : ""
      for value in ["", ",", "a,", ",a"] {
        let answer = world.ask("/v1/channels?\(name)=\(value)\(search)")
        #expect(answer.status == 400 && answer.body.contains("\"field\":\"\(name)\""), "\(answer)")
      }
      guard name != "search_fields" else { continue }
      let opened = world.post("/v1/channel-collections", #"{"query":{"\#(name)":["a",""]}}"#)
      #expect(opened.status == 400 && opened.body.contains(name), "\(opened)")
    }
    for value in ["", "a,"] {
      let page = world.ask("/v1/channels/general/messages?sender_user_ids=\(value)")
      #expect(page.status == 400 && page.body.contains(#""field":"sender_user_ids""#))
    }
    #expect(world.ask("/v1/channels/general/messages?custom_types=").status == 200)
    #expect(world.ask("/v1/channels?custom_types=,a").status == 200)
    #expect(world.ask("/v1/channels?metadata_key=k&metadata_values=").status == 200)
    #expect(world.ask("/v1/events?since=now&collections=").status == 200)
  }
}
