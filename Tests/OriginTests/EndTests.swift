import Glibc
import Platform
import SQLite
import Testing

@testable import Origin

/// The stand-in as a process: its data after its end, and its log.
@Suite struct EndTests {
  /// The clients' requests, and their answers.
  private struct Done {
    /// Message id to the text that it must have.
    var texts: [Int64: String] = [:]
    /// The texts of the sends that were begun, by dedup_id, also of those in flight.
    var begun: [String: String] = [:]
    var deleted: Set<Int64> = []
    var count = 0
  }

  /// Sends, edits and deletes until the server is gone.
  private static func work(_ worker: Int, port: UInt16, _ done: Watched<Done>) {
    let line = Line(port: port)
    let path = "/v3/group_channels/general/messages"
    func call(_ method: String, _ path: String, _ body: String = "") -> Value? {
      line.exchange(method, path, body).map { Value(stored: String(decoding: $0.1, as: UTF8.self)) }
    }
    for turn in 0..<100_000 {
      let (key, text) = ("w\(worker)-\(turn)", "text \(worker) \(turn)")
      done.update { $0.begun[key] = text }
      let body = #"{"message_type":"MESG","user_id":"alice","message":"\#(text)","dedup_id":"\#(key)"}"#
      guard let id = call("POST", path, body)?["message_id"]?.integer else { return }
      done.update {
        $0.texts[id] = text
        $0.count += 1
      }
      if turn % 5 == 1 {
        // Until the answer comes, either text is right.
        done.update { $0.texts[id] = nil }
        let edit = #"{"message_type":"MESG","message":"edited \#(text)"}"#
        guard call("PUT", "\(path)/\(id)", edit) != nil else { return }
        done.update { $0.texts[id] = "edited \(text)" }
      }
      if turn % 7 == 2 {
        done.update { $0.texts[id] = nil }
        guard call("DELETE", "\(path)/\(id)") != nil else { return }
        _ = done.update { $0.deleted.insert(id) }
      }
    }
  }

  @Test("kill -9 under load loses nothing that was answered, and a send repeated after it is one message")
  func killed() throws {
    let scratch = try Scratch()
    let child = try ChildOrigin(["--data", scratch.path, "--seed", "small"], logIn: Scratch())
    let done = Watched(Done())
    let port = child.port
    let workers = (0..<4).map { worker in
      Thread("worker") { EndTests.work(worker, port: port, done) }
    }
    let deadline = Clock.system.monotonicNanoseconds() + 60_000_000_000
    _ = done.wait(until: deadline) { $0.count >= 600 ? true : nil }
    child.end(SIGKILL)
    for worker in workers { worker.join() }
    let seen = done.read { $0 }
    #expect(seen.count >= 600)
    #expect(try integrity(of: scratch.path + "/origin.db") == "ok")

    let wire = try Wire(in: scratch, isFresh: false)
    let path = "/v3/group_channels/general/messages"
    let line = Line(port: wire.origin.port)
    func call(_ method: String, _ path: String, _ body: String = "") throws -> Value {
      Value(stored: String(decoding: try #require(line.exchange(method, path, body)).1, as: UTF8.self))
    }
    var lost: [Int64] = []
    for (id, text) in seen.texts where try call("GET", "\(path)/\(id)")["message"] != .string(text) {
      lost.append(id)
    }
    for id in seen.deleted where try call("GET", "\(path)/\(id)")["code"] != .integer(400201) {
      lost.append(id)
    }
    #expect(lost.isEmpty)
    // Sends in flight are repeated, as by a client that got no answer.
    for (key, text) in seen.begun {
      let body = #"{"message_type":"MESG","user_id":"alice","message":"\#(text)","dedup_id":"\#(key)"}"#
      _ = try call("POST", path, body)
    }
    let total = try call("GET", path + "/total_count")["total"]?.integer ?? 0
    let deleted = try deletions(in: seen, scratch.path)
    #expect(total == Int64(400 + seen.begun.count - deleted))
  }

  /// The number of deleted messages: those with an answer, and those whose answer was cut off.
  private func deletions(in seen: Done, _ path: String) throws -> Int {
    let connection = try Connection(path: path + "/origin.db", mode: .readOnly)
    let count = try connection.read { db in
      try db.first("SELECT count(*) FROM message_change WHERE is_deleted = 1") { $0.int(0) } ?? 0
    }
    #expect(count >= seen.deleted.count && count <= seen.deleted.count + 4)
    return count
  }

  private func integrity(of path: String) throws -> String {
    let connection = try Connection(path: path)
    return try connection.read { db in try db.first("PRAGMA integrity_check") { $0.string(0) } ?? "" }
  }

  @Test("in memory nothing is left behind: uploads stay in memory, two servers share nothing")
  func memory() throws {
    let before = leftovers()
    let first = try Wire()
    let second = try Wire()
    let sent = try #require(first.upload("/v3/storage/file", [("file", "a.txt", "text/plain", "first")]))
    let url = try #require(Value(stored: sent.body)["url"]?.string)
    let path = String(url.dropFirst("http://localhost".count))
    #expect(first.exchange("GET", path)?.body == "first")
    #expect(second.exchange("GET", path)?.status == 404)
    first.origin.stop()
    // Other servers also have uploads there for a while.
    let deadline = ContinuousClock.now + .seconds(10)
    while !leftovers().isSubset(of: before), ContinuousClock.now < deadline { sched_yield() }
    #expect(leftovers().isSubset(of: before))
  }

  private func leftovers() -> Set<String> {
    Set(Scratch.names("/tmp").filter { $0.hasPrefix("upload-") || $0.hasPrefix("perch-origin") })
  }

  @Test("uploads and everything else are there after kill -9 and a new start")
  func uploads() throws {
    let scratch = try Scratch()
    let child = try ChildOrigin(["--data", scratch.path, "--seed", "small"], logIn: Scratch())
    let line = Line(port: child.port)
    let body =
      "--cut\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nkept\r\n--cut--\r\n"
    let answer = line.exchange(
      "POST", "/v3/storage/file", body, type: "multipart/form-data; boundary=cut")
    let sent = Value(stored: String(decoding: try #require(answer).1, as: UTF8.self))
    let url = try #require(sent["url"]?.string)
    child.end(SIGKILL)
    let wire = try Wire(in: scratch, isFresh: false)
    let path = try #require(url.split(separator: "/files/").last)
    #expect(wire.exchange("GET", "/files/\(path)")?.body == "kept")
    #expect(scratch.names.allSatisfy { $0.hasPrefix("origin.db") || $0 == "lock" })
    #expect(throws: OriginError.self) { try Wire(in: scratch, isFresh: false) }
  }

  @Test("each fault applied is one line of log, with its kind and its path")
  func log() throws {
    let receiver = try WebhookReceiver()
    let child = try ChildOrigin(["--seed", "small", "--webhook", receiver.url], logIn: Scratch())
    let line = Line(port: child.port)
    for kind in Fault.Kind.allCases {
      let fault = #"{"faults":[{"kind":"\#(kind.rawValue)","milliseconds":1,"count":1}]}"#
      #expect(line.exchange("PUT", "/_faults", fault)?.0 == 200)
      let other = Line(port: child.port)
      _ = other.exchange("GET", "/v3/group_channels/general/messages/changelogs?token=1", seconds: 1)
      if kind == .cutUpload {
        // The fault is only for forms, and cuts the form's connection.
        let head = "Content-Disposition: form-data; name=\"file\"; filename=\"a\""
        let form = "--cut\r\n\(head)\r\n\r\nx\r\n--cut--\r\n"
        _ = other.exchange(
          "POST", "/v3/group_channels/general/messages", form, seconds: 1,
          type: "multipart/form-data; boundary=cut")
        continue
      }
      let body = #"{"message_type":"MESG","user_id":"alice","message":"x"}"#
      _ = other.exchange("POST", "/v3/group_channels/general/messages", body, seconds: 1)
    }
    child.end(SIGTERM)
    let faults = child.log.split(separator: "\n").map { Value(stored: String($0)) }
      .filter { $0["event"] == .string("fault") }
    #expect(faults.compactMap { $0["kind"]?.string } == Fault.Kind.allCases.map(\.rawValue))
    #expect(
      faults.allSatisfy { $0["path"]?.string?.hasPrefix("/v3/group_channels/general/messages") == true })
  }
}
