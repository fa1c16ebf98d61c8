import JSON
import Testing

@testable import Load

/// Answers to polls that the load program reads once.
struct ToldTests {
  private func sent(_ count: Int) -> Sent {
    var sent = Sent(run: "run")
    for _ in 0..<count { _ = sent.add(Sent.Message(due: 0, isFromServer: false, channel: 0, sender: 0)) }
    return sent
  }

  private func answer(_ number: Int, _ type: String = "messages.added") -> [UInt8] {
    let messages = #"[{"message":"run \#(number)"},{"message":"somebody else's"}]"#
    return Array(#"{"events":[{"type":"\#(type)","messages":\#(messages)}],"cursor":"c\#(number)"}"#.utf8)
  }

  @Test("each answer is told as it is, whichever were told before")
  func told() throws {
    var recently = RecentlyTold()
    let parser = JSONParser()
    let sent = sent(100)
    for number in [10, 11, 10, 11, 12] + Array(20..<60) + [10, 59, 58, 10] {
      for type in ["messages.added", "messages.updated"] {
        let told = try #require(answer(number, type).withUnsafeBytes { recently.read($0, parser, sent) })
        #expect(told.cursor == "c\(number)")
        #expect(told.messages.map(\.number) == [number])
        #expect(told.messages.map(\.isAdded) == [type == "messages.added"])
      }
    }
    #expect(Array("no JSON".utf8).withUnsafeBytes { recently.read($0, parser, sent) } == nil)
    #expect(Array("{}".utf8).withUnsafeBytes { recently.read($0, parser, sent) }?.cursor == nil)
  }
}
