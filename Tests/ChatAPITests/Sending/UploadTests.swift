import ChatCache
import ChatModel
import Glibc
import MicroHTTP
import Platform
import TestSupport
import Testing

@testable import ChatAPI

/// Messages with files, over HTTP (B36, B37, B45).
@Suite(.timeLimit(.minutes(2))) struct UploadTests {
  private static let path = "/v1/channels/general/messages"
  private static let type = ["Content-Type": "multipart/form-data; boundary=b"]

  /// One part of a form.
  private static func part(_ name: String, _ value: String, file: String? = nil, type: String? = nil)
    -> String
  {
    "--b\r\nContent-Disposition: form-data; name=\"\(name)\"" + (file.map { "; filename=\"\($0)\"" } ?? "")
      + (type.map { "\r\nContent-Type: \($0)" } ?? "") + "\r\n\r\n\(value)\r\n"
  }

  private static func form(_ parts: String...) -> String { parts.joined() + "--b--\r\n" }

  private static func file(_ bytes: String = "hello", name: String = "a.txt", type: String = "text/plain")
    -> String
  { part("file", bytes, file: name, type: type) }

  private static func send(
    _ world: CollectionWorld, _ form: String, as user: String = "alice", to path: String = UploadTests.path,
    _ more: [String: String] = [:]
  ) -> Answer {
    world.ask(path, as: user, method: "POST", body: form, extra: type.merging(more) { $1 })
  }

  private static func files(_ world: CollectionWorld) -> Int { world.cache.spool.contents.files }

  private static func names(in path: String) -> [String] {
    guard let folder = opendir(path) else { return [] }
    defer { closedir(folder) }
    var names: [String] = []
    while let entry = readdir(folder) {
      let name = withUnsafeBytes(of: &entry.pointee.d_name) {
        String(cString: $0.baseAddress!.assumingMemoryBound(to: CChar.self))
      }
      if !name.hasPrefix(".") { names.append(name) }
    }
    return names
  }

  /// Whether the spool is empty: without a file, and without promised room.
  static func isEmpty(_ world: CollectionWorld) -> Bool {
    for _ in 0..<500 {
      if world.cache.spool.contents == (0, 0), names(in: world.directory + "/spool").isEmpty { return true }
      usleep(10_000)  // the request's end is seen on another thread
    }
    return false
  }

  @Test("B36 B45: a file and its message are durable with the 202; params stand before or after it")
  func accepted() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    let params = Self.part("params", #"{"message":"look","request_id":"r-1","custom_type":"x"}"#)
    let answer = Self.send(world, Self.form(params, Self.file()))
    #expect(answer.status == 202 && answer.text("sending_status") == "pending", "\(answer.body)")
    #expect(answer.text("type") == "file" && answer.text("file", "name") == "a.txt")
    #expect(answer.text("file", "url").isEmpty && answer.text("file", "mime") == "text/plain")
    #expect(answer.text("params", "file_name") == "a.txt" && answer.text("custom_type") == "x")
    let other = Self.send(
      world, Self.form(Self.file("world!"), Self.part("params", #"{"request_id":"r-2"}"#)))
    #expect(other.status == 202 && other.text("request_id") == "r-2")
    #expect(Self.send(world, Self.form(Self.file())).status == 202)
    let rows = try world.rows()
    #expect(rows.map(\.kind) == [.file, .file, .file] && rows.allSatisfy { $0.upload == .needed })
    #expect(Self.files(world) == 3)
    let upload = try world.cache.read { try $0.upload(of: rows[1].id) }
    #expect(upload?.size == 6 && upload?.name == "a.txt" && upload?.url == nil)
  }

  @Test("B37: the same request again is answered with its state; other bytes or fields are another request")
  func repeated() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    let params = Self.part("params", #"{"request_id":"r-1"}"#)
    #expect(Self.send(world, Self.form(params, Self.file())).status == 202)
    let again = Self.send(world, Self.form(Self.file(), params))
    #expect(again.status == 202 && again["Idempotency-Replayed"] == "true")
    let others = [
      Self.form(params, Self.file("hellp")), Self.form(params, Self.file(name: "b.txt")),
      Self.form(params, Self.file(type: "image/png")),
      Self.form(Self.part("params", #"{"request_id":"r-1","data":"d"}"#), Self.file()),
    ]
    for form in others {
      #expect(Self.send(world, form).text("code") == "idempotency_mismatch")
    }
    let text = world.send("r-1")
    #expect(text.text("code") == "idempotency_mismatch")
    #expect(try world.rows().count == 1 && Self.files(world) == 1)
  }

  @Test("B45: bad forms change nothing and leave no bytes")
  func bad() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    let params = Self.part("params", "{}")
    let large = Self.part("params", #"{"data":""# + String(repeating: "x", count: 262_144) + #""}"#)
    let cases: [(String, String, String)] = [
      ("no file", Self.form(params), "file"), ("two files", Self.form(Self.file(), Self.file()), "file"),
      ("an unknown part", Self.form(Self.file(), Self.part("extra", "1")), "extra"),
      ("params twice", Self.form(params, params, Self.file()), "params"),
      ("params that are no JSON", Self.form(Self.part("params", "{"), Self.file()), "params"),
      ("params that are no object", Self.form(Self.part("params", "[]"), Self.file()), "params"),
      ("params that are too long", Self.form(large, Self.file()), "params"),
      ("an empty file", Self.form(Self.file("")), "file"),
      ("another type", Self.form(Self.part("params", #"{"type":"user"}"#), Self.file()), "type"),
      (
        "a url as well", Self.form(Self.part("params", #"{"file_url":"http://x/y"}"#), Self.file()),
        "file_url"
      ),
      ("a size as well", Self.form(Self.part("params", #"{"file_size":"5"}"#), Self.file()), "file_size"),
    ]
    for (name, form, field) in cases {
      let answer = Self.send(world, form)
      #expect(answer.status == 400 && answer.text("code") == "invalid_request", "\(name): \(answer.body)")
      #expect(answer.body.contains(#""field":"\#(field)""#), "\(name): \(answer.body)")
    }
    let cut = Self.file() + Self.part("params", "{}")
    for form in [
      cut, "--b\r\nContent-Dis", Self.part("file", "x", file: String(repeating: "n", count: 10_000)),
    ] {
      #expect(Self.send(world, form).text("code") == "malformed_multipart")
    }
    let noBoundary = world.ask(
      Self.path, method: "POST", body: Self.form(Self.file()), extra: ["Content-Type": "multipart/form-data"])
    #expect(noBoundary.text("code") == "malformed_multipart")
    #expect(try world.rows().isEmpty && Self.isEmpty(world))
  }

  @Test("B45: names never become a path or a header line, a type that is none is octet-stream")
  func labels() throws {
    #expect(FileLabel.name("../../etc/passwd") == "passwd" && FileLabel.name("C:\\x\\y.txt") == "y.txt")
    for name in ["", "/", "..", ".", "a/.."] { #expect(FileLabel.name(name) == "file", "\(name)") }
    #expect(FileLabel.name("a\r\nSet-Cookie: x\u{0}y\u{202E}.png") == "aSet-Cookie: xy.png")
    #expect(FileLabel.name("\u{1F468}\u{200D}\u{1F469}.png") == "\u{1F468}\u{200D}\u{1F469}.png")
    #expect(FileLabel.name(String(repeating: "n", count: 10_000)).count == 255)
    #expect(FileLabel.type("IMAGE/PNG; charset=x") == "image/png")
    for type in [
      "", "image", "image/", "/png", "a/b/c", "image/p\r\nng", "te xt/\u{e9}",
      String(repeating: "a", count: 200) + "/b",
    ] {
      #expect(FileLabel.type(type) == "application/octet-stream", "\(type)")
    }
    #expect(
      FileLabel.disposition("ü\"\\;.svg", type: "image/svg+xml")
        == "attachment; filename=\"___;.svg\"; filename*=UTF-8''%C3%BC%22%5C%3B.svg")
    #expect(FileLabel.disposition("a.png", type: "image/png").hasPrefix("inline;"))
    #expect(FileLabel.disposition(String(repeating: "\u{1F600}", count: 255), type: "a/b").utf8.count < 600)
  }

  @Test("B45 B67: who may not send is refused by the head alone, also where 100-continue is expected")
  func judged() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    try world.join("carol", "other")
    let heads: [(String, String, Int)] = [
      ("Perch-User: alice\r\n", "general", 100), ("", "general", 401),
      ("Perch-User: carol\r\n", "general", 404),
      ("Perch-User: alice\r\nIdempotency-Key: a b\r\n", "general", 400),
    ]
    for (user, channel, status) in heads {
      for expects in [true, false] {
        let socket = Loopback.connect(port: world.server.port)
        defer { close(socket) }
        let head =
          "POST /v1/channels/\(channel)/messages HTTP/1.1\r\nHost: x\r\n\(user)Content-Length: 20000000\r\n"
          + "Content-Type: multipart/form-data; boundary=b\r\n" + (expects ? "Expect: 100-continue\r\n" : "")
          + "\r\n"
        _ = Glibc.send(socket, head, head.utf8.count, Int32(MSG_NOSIGNAL))
        if status == 100, !expects { continue }
        var room = [UInt8](repeating: 0, count: 4096)
        let count = recv(socket, &room, room.count, 0)
        let text = String(decoding: room.prefix(max(0, count)), as: UTF8.self)
        #expect(text.hasPrefix("HTTP/1.1 \(status) "), "\(user) \(expects): \(text)")
        #expect(world.cache.spool.contents == (0, 0))
      }
    }
  }

  @Test(
    "B1 B45: a channel that nobody knows here is asked for before the form is read", arguments: [true, false])
  func judgedLater(isThere: Bool) throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    world.syncRequests.tell { script in
      script.onFind = { _, _ in .success(isThere) }
      script.isHolding = true
    }
    let asking = world.held(
      "/v1/channels/late/messages",
      headers: ["Perch-User": "alice", "Content-Type": "multipart/form-data; boundary=b"], method: "POST",
      body: Self.form(Self.file()))
    #expect(world.syncRequests.wait { if case .find(ChannelURL("late"), _, _) = $0 { true } else { false } })
    #expect(world.cache.spool.contents == (0, 0))
    if isThere { try world.join("alice", "late") }
    world.syncRequests.release()
    let answer = asking.answer()
    #expect(answer.status == (isThere ? 202 : 404), "\(answer.body)")
    #expect(isThere ? Self.files(world) == 1 : Self.isEmpty(world))
  }

  @Test("B45: beyond 25 MiB is a 413, announced or not, and a full spool a 507 that names the request")
  func bounds() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    let limit = 26_214_400
    let whole = Self.send(world, Self.form(Self.file(String(repeating: "x", count: limit))))
    #expect(whole.status == 202)
    let large = Self.send(world, Self.form(Self.file(String(repeating: "x", count: limit + 1))))
    #expect(large.status == 413 && large.text("code") == "content_too_large")
    #expect(Self.files(world) == 1)
    let announced = Self.send(world, "", ["Content-Length": "\(limit + 1_000_000)"])
    #expect(announced.status == 413)
  }

  @Test("B45: where the spool is full a form is refused by its head, and nothing is kept")
  func full() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    #expect(Self.send(world, Self.form(Self.file()), ["Idempotency-Key": "k-0"]).status == 202)
    var holding: [IncomingFile] = []
    // `try?`: it fails when no room of that size is left, which ends the loop.
    for size in [1 << 20, 1 << 10, 1] {
      while let file = try? world.cache.spool.begin(announced: size) { holding.append(file) }
    }
    let again = Self.send(world, Self.form(Self.file()), ["Idempotency-Key": "k-0"])
    #expect(again.status == 202 && again["Idempotency-Replayed"] == "true", "\(again.body)")
    let other = Self.send(world, Self.form(Self.file("other bytes")), ["Idempotency-Key": "k-0"])
    #expect(other.status == 422 && other.text("code") == "idempotency_mismatch", "\(other.body)")
    let unnamed = Self.send(world, Self.form(Self.file()))
    #expect(unnamed.status == 507 && !unnamed.body.contains(#""request_id""#), "nobody knows such a name")
    let answer = Self.send(world, Self.form(Self.file()), ["Idempotency-Key": "k-1"])
    #expect(answer.status == 507 && answer.text("code") == "upload_not_stored", "\(answer.body)")
    #expect(answer.text("request_id") == "k-1" && answer["Retry-After"] != nil)
    #expect(try world.rows().map(\.requestID.text) == ["k-0"])
    holding = []
    #expect(Self.send(world, Self.form(Self.file()), ["Idempotency-Key": "k-1"]).status == 202)
  }

  @Test("B44: a failed file message is sent again with its bytes, or with others; without bytes it is a 409")
  func resent() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    let params = Self.part("params", #"{"request_id":"r-1"}"#)
    #expect(Self.send(world, Self.form(params, Self.file())).status == 202)
    let again = Self.path + "/request_id:r-1/resend"
    #expect(world.ask(again, method: "POST").text("code") == "not_resendable")
    try world.refuseUpload("r-1")
    #expect(world.ask(again, method: "POST").status == 202)
    try world.noteProgress(90, of: "r-1")
    try world.refuseUpload("r-1")
    let other = Self.send(
      world, Self.form(Self.file("other bytes", name: "b.png", type: "image/png")), to: again)
    #expect(other.status == 202 && other.text("file", "name") == "b.png", "\(other.body)")
    let row = try #require(try world.rows().first)
    let upload = try #require(try world.cache.read { try $0.upload(of: row.id) })
    #expect(row.upload == .needed && upload.size == 11 && upload.mime == "image/png")
    #expect(upload.progress == 0, "the other bytes begin anew")
    #expect(world.ask(Self.path + "/request_id:r-1/file").body == "other bytes")
    try world.refuseUpload("r-1")
    world.cache.spool.remove(upload.file)
    let missing = world.ask(again, method: "POST")
    #expect(missing.status == 409 && missing.text("code") == "file_missing")
    #expect(world.ask("/v1/outbox/r-1/resend", method: "POST").text("code") == "file_missing")
    #expect(try world.rows().first?.state == .failed)
    #expect(Self.send(world, Self.form(Self.file("third")), to: again).status == 202)
    #expect(world.ask(Self.path + "/request_id:r-1/file").body == "third")
  }

  @Test("B44: a message without a file is not sent again with one; an unknown type names all that is taken")
  func resentWithAFile() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    #expect(world.post(Self.path, #"{"message":"hi","request_id":"r-1"}"#).status == 202)
    try world.refuse("r-1")
    let answer = Self.send(world, Self.form(Self.file()), to: Self.path + "/request_id:r-1/resend")
    #expect(answer.status == 400 && answer.body.contains(#""field":"file""#), "\(answer.body)")
    #expect(try world.rows().first?.state == .failed && Self.isEmpty(world))
    let text = world.ask(Self.path, method: "POST", body: "hi", extra: ["Content-Type": "text/plain"])
    #expect(text.status == 415 && text["Accept"] == "application/json, multipart/form-data", "\(text.body)")
  }

  @Test("B45: the sender reads the bytes back, whole or in part; a browser runs nothing in them")
  func readBack() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    let html = Self.file("<script>alert(1)</script>", name: "x.html", type: "text/html")
    #expect(Self.send(world, Self.form(Self.part("params", #"{"request_id":"r-1"}"#), html)).status == 202)
    let file = Self.path + "/request_id:r-1/file"
    let whole = world.ask(file)
    #expect(whole.status == 200 && whole.body == "<script>alert(1)</script>")
    #expect(
      whole["Content-Type"] == "application/octet-stream" && whole["X-Content-Type-Options"] == "nosniff")
    #expect(whole["Content-Security-Policy"] == "sandbox; default-src 'none'")
    #expect(whole["Content-Disposition"]?.hasPrefix("attachment; filename=\"x.html\"") == true)
    let tag = try #require(whole["ETag"])
    let part = world.ask(file, extra: ["Range": "bytes=1-6", "If-Range": tag])
    #expect(part.status == 206 && part.body == "script" && part["Content-Range"] == "bytes 1-6/25")
    #expect(world.ask(file, extra: ["Range": "bytes=1-6", "If-Range": "\"old\""]).status == 200)
    #expect(world.ask(file, extra: ["Range": "bytes=25-"]).status == 416)
    #expect(
      Self.send(world, Self.form(Self.part("params", #"{"request_id":"r-2"}"#), Self.file())).status == 202)
    let text = world.ask(Self.path + "/request_id:r-2/file")
    #expect(text["Content-Type"] == "text/plain; charset=utf-8")
    #expect(text["Content-Disposition"]?.hasPrefix("inline;") == true)
  }

  @Test("B37: a repeated file whose request is forgotten while it comes is asked for again, not lost")
  func forgottenMeanwhile() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    let url = ChannelURL("general")
    for keeps in [false, true] {
      let file = world.cache.spool.beginRepeated()
      try [UInt8]("hello".utf8).withUnsafeBytes { try file.write($0) }
      try file.end()
      let outcome = Watched<Result<Int, any Error>?>(nil)
      FileWrite(world.cache, file).store { writer in
        try writer.clear(url)
        return 1
      } _: { _ in
        keeps
      } _: { result in
        outcome.update { $0 = result }
      }
      let deadline = Clock.system.monotonicNanoseconds() + 10_000_000_000
      let result = try #require(outcome.wait(until: deadline) { $0 })
      guard keeps else {
        #expect(throws: Never.self) { try result.get() }
        continue
      }
      #expect { try result.get() } throws: { ($0 as? Problem)?.code == "upload_not_stored" }
    }
    #expect(Self.isEmpty(world))
  }

  @Test("B1: another's file is not there, by whatever name")
  func foreign() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    let sent = Self.send(world, Self.form(Self.part("params", #"{"request_id":"r-1"}"#), Self.file("secret")))
    #expect(sent.status == 202)
    try world.join("carol", "other")
    for (user, channel) in [
      ("bob", "general"), ("carol", "general"), ("carol", "other"), ("nobody", "general"),
    ] {
      for ref in ["request_id:r-1", "r-1", "1", "0"] {
        let answer = world.ask("/v1/channels/\(channel)/messages/\(ref)/file", as: user)
        #expect(answer.status >= 400 && !answer.body.contains("secret"), "\(user) \(ref): \(answer.body)")
      }
      let again = Self.send(
        world, Self.form(Self.file("x")), as: user,
        to: "/v1/channels/\(channel)/messages/request_id:r-1/resend")
      #expect(again.status == 404 || again.status == 503, "\(user): \(again.body)")
    }
    #expect(world.ask(Self.path + "/request_id:r-1/file").body == "secret")
  }

  @Test("B45: a sent file is a redirect to http or https alone; a message without one is a 404")
  func redirected() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    for (id, url, status) in [
      (11, "https://files.example/x", 302), (12, "http://files.example/ü x", 404),
      (17, "http://files.example/x%20y", 302), (13, "javascript:alert(1)", 404),
      (14, "data:text/html,x", 404), (15, "", 404), (16, "//evil.example", 404),
    ] as [(Int64, String, Int)] {
      try world.putFile(id, url: url)
      let answer = world.ask(Self.path + "/\(id)/file")
      #expect(answer.status == status, "\(url): \(answer.body)")
      #expect(answer["Location"] == (status == 302 ? url : nil))
    }
    #expect(world.ask(Self.path + "/1/file").text("code") == "file_not_found")
    try world.putFile(18, url: "https://files.example/ü.png")
    #expect(world.ask(Self.path + "/18/file")["Location"] == "https://files.example/%C3%BC.png")
  }

  @Test(
    "B46 B44: a pending file message is edited where it waits; taken back, its bytes go when it is removed")
  func changed() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    let params = Self.part("params", #"{"request_id":"r-1","message":"one"}"#)
    #expect(Self.send(world, Self.form(params, Self.file())).status == 202)
    let message = Self.path + "/request_id:r-1"
    let edited = world.ask(message, method: "PATCH", body: #"{"message":"two"}"#)
    #expect(edited.status == 202 && edited.text("message") == "two" && edited.text("file", "name") == "a.txt")
    #expect(world.ask(message, method: "DELETE").status == 202)
    #expect(world.ask(message + "/file").body == "hello", "it may be sent again")
    #expect(world.ask(message, method: "DELETE").status == 204)
    #expect(Self.isEmpty(world))
  }
}

extension CollectionWorld {
  /// Ends the upload of a file message as refused.
  func refuseUpload(_ request: String) throws {
    let laneKey = try laneKey(of: "alice")
    try cache.write { writer in
      try writer.changeLane(laneKey) { lane in
        guard let row = RequestID(request).flatMap({ lane.row($0) }),
          lane.dispatch(row.id, .upload, now: writer.now)
        else { return [] }
        return lane.finish(row.id, .upload, .rejection(code: "400111"), now: writer.now, random: 3)
      }
    }
  }

  /// Notes that `percent` of a message's file are uploaded.
  func noteProgress(_ percent: Int64, of request: String) throws {
    let url = ChannelURL("general")
    let alice = UserID("alice")
    let row = try #require(try rows().first { $0.requestID.text == request })
    let isTold = try cache.write { writer in
      try writer.noteProgress(percent, of: row.id, in: OutboxLaneName(user: alice, channel: url))
    }
    #expect(isTold)
  }

  /// Stores a file message of bob's from upstream.
  func putFile(_ id: Int64, url: String) throws {
    var record = CollectionWorld.message(id, at: id * 10)
    record.kind = .file
    record.body += Array(#","type":"file","file":{"url":"\#(url)","name":"x","mime":"","size":1}"#.utf8)
    let stored = record
    try cache.write { _ = try $0.store(stored, in: ChannelURL("general"), .messageSent) }
  }
}
