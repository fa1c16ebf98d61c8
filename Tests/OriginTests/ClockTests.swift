import Platform
import TestFolders
import Testing

@testable import Origin

/// A stand-in whose clock is not the machine's.
@Suite struct ClockTests {
  @Test(
    "--clock-offset moves every time that the server stamps",
    arguments: [("-10m", -600_000), ("+10m", 600_000), ("0", 0)])
  func offset(text: String, milliseconds: Int64) throws {
    let scratch = try Scratch()
    let origin = try ChildOrigin(["--seed", "none", "--clock-offset", text], logIn: scratch)
    defer { origin.end(9) }
    let line = Line(port: origin.port)
    func call(_ method: String, _ path: String, _ body: String = "") throws -> Value {
      Value(stored: String(decoding: try #require(line.exchange(method, path, body)).1, as: UTF8.self))
    }
    func check(_ stamped: Int64?, _ comment: Comment) throws {
      let away = try #require(stamped, comment) - Clock.system.wallMilliseconds() - milliseconds
      #expect(abs(away) < 120_000, comment)
    }
    let user = try call("POST", "/v3/users", #"{"user_id":"alice","nickname":"","profile_url":""}"#)
    try check(user["created_at"]?.integer.map { $0 * 1000 }, "the user")
    let channel = try call("POST", "/v3/group_channels", #"{"channel_url":"c","user_ids":["alice"]}"#)
    try check(channel["created_at"]?.integer.map { $0 * 1000 }, "the channel")
    let sent = try call(
      "POST", "/v3/group_channels/c/messages", #"{"message_type":"MESG","user_id":"alice","message":"m"}"#)
    try check(sent["created_at"]?.integer, "the message")
    let id = try #require(sent["message_id"]?.integer)
    let edited = try call(
      "PUT", "/v3/group_channels/c/messages/\(id)", #"{"message_type":"MESG","message":"n"}"#)
    try check(edited["updated_at"]?.integer, "the edit")
    let changes = try call("GET", "/v3/group_channels/c/messages/changelogs?change_ts=0")
    try check(changes["next"]?.string.flatMap { Int64($0) }.map { $0 / 1000 }, "the changelog")
    let list = try call("GET", "/v3/users/alice/my_group_channels")
    try check(list["ts"]?.integer, "the list")
    try check(list["channels"]?.items.first?["user_last_read"]?.integer, "the read position")
    let reset = try call(
      "PUT", "/v3/group_channels/c/reset_user_history", #"{"user_id":"alice"}"#)
    try check(reset["ts_message_offset"]?.integer, "the floor")
  }
}
