import ChatModel
import Platform
import TestSupport
import Testing

@testable import ChatCache
@testable import ChatSync
@testable import Origin

/// Files of unsent messages reach the chat server once, byte for byte and in order, over real sockets (B45).
@Suite(.timeLimit(.minutes(5)), .serialized)
struct UploadTests {
  private static var policy: OutboxPolicy {
    var policy = OutboxPolicy()
    policy.backoffMaximum = 200
    policy.uncertainGrace = 400
    policy.deduplicates = true
    return policy
  }

  private static func bytes(_ count: Int, _ seed: UInt64) -> [UInt8] {
    var random = Seeded(seed)
    return (0..<count).map { _ in UInt8(truncatingIfNeeded: random.next()) }
  }

  private static func world(firstByte: Int = 2_000) async throws -> SendingWorld {
    try await SendingWorld(policy: policy, firstByte: firstByte)
  }

  @Test("B45: a file is uploaded by itself, its url is what is sent, its bytes go; progress ends at 100")
  func uploaded() async throws {
    let world = try await Self.world()
    let bytes = Self.bytes(3_000_000, 1)
    try await world.sendFile("c0", "r1", bytes)
    #expect(await world.isDrained())
    #expect(try world.arrivedFiles("c0") == [bytes] && world.there.uploads == 1)
    #expect(try world.stored("c0").map(\.request) == ["r1"])
    let steps = try world.progress().map { Int($0.split(separator: " ")[1]) ?? -1 }
    #expect(steps.last == 100 && steps == steps.sorted() && steps.count <= 21, "\(steps)")
    #expect(zip(steps, steps.dropFirst()).allSatisfy { $1 - $0 >= 5 || $1 == 100 })
    #expect(await World.wait { world.here.spooled.isEmpty && world.here.cache.spool.contents == (0, 0) })
    await world.end()
  }

  @Test("B40 B45: files and texts accepted offline survive a restart, and go in their order")
  func offline() async throws {
    let world = try await Self.world()
    world.there.isCutOff = true
    var wanted: [[UInt8]] = []
    for number in 0..<6 {
      wanted.append(Self.bytes(20_000 + number, UInt64(number)))
      try await world.sendFile("c0", "f\(number)", wanted[number])
      try await world.send("c0", "t\(number)", "text \(number)")
    }
    try await world.here.restart()
    #expect(world.here.spooled.count == 6)
    world.there.isCutOff = false
    world.here.syncRequests.urge()
    #expect(await world.isDrained())
    #expect(try world.arrivedFiles("c0") == wanted && world.there.uploads == 6)
    #expect(try world.arrived("c0").map(\.text) == (0..<6).flatMap { ["", "text \($0)"] })
    await world.end()
  }

  @Test("B45: a refused upload fails its message with the server's code, and is not tried again")
  func refused() async throws {
    let world = try await Self.world()
    try world.fault([
      "kind": .string("deny"), "path": .string("/v3/storage/file"), "status": .integer(400),
      "code": .integer(400_111),
    ])
    try await world.sendFile("c0", "r1", [1, 2, 3])
    #expect(await world.isDrained())
    #expect(try world.rows() == ["r1 failed 400111"])
    #expect(try world.shown("r1", in: "c0").contains(#""error":{"code":"400111","message":"Denied."}"#))
    #expect(world.here.spooled.count == 1, "it can be sent again")
    try await world.send("c0", "r2", "after it")
    #expect(await world.arrives(["after it"], in: "c0"))
    await world.end()
  }

  @Test(
    "B32 B45: an upload refused as not offered is tried again; from the third time on files go with messages",
    arguments: [2, 3])
  func notOffered(times: Int) async throws {
    let world = try await Self.world()
    try world.fault([
      "kind": .string("deny"), "path": .string("/v3/storage/file"), "status": .integer(400),
      "code": .integer(400_108), "count": .integer(Int64(times)),
    ])
    let bytes = Self.bytes(20_000, 3)
    try await world.sendFile("c0", "r1", bytes)
    #expect(await world.isDrained())
    #expect(try world.arrivedFiles("c0") == [bytes])
    #expect(await world.here.worker.plan.lacks(.uploads) == (times == 3))
    await world.end()
  }

  @Test("B45: a file whose bytes are gone fails with file_missing, and what follows it goes")
  func missing() async throws {
    let world = try await Self.world()
    world.there.isCutOff = true
    try await world.sendFile("c0", "r1", [1, 2, 3])
    try await world.send("c0", "r2", "after it")
    for name in world.here.spooled { world.here.cache.spool.remove(try #require(SpoolName(name))) }
    world.there.isCutOff = false
    world.here.syncRequests.urge()
    #expect(await world.arrives(["after it"], in: "c0"))
    #expect(await world.isDrained())
    #expect(try world.rows() == ["r1 failed file_missing"])
    await world.end()
  }

  @Test("B45: an upload that is cut is tried again, and progress never goes back")
  func cut() async throws {
    let world = try await Self.world()
    try world.fault([
      "kind": .string("cut_upload"), "path": .string("/v3/storage/file"), "bytes": .integer(400_000),
      "count": .integer(3),
    ])
    let bytes = Self.bytes(900_000, 2)
    try await world.sendFile("c0", "r1", bytes)
    #expect(await world.isDrained())
    #expect(try world.arrivedFiles("c0") == [bytes] && world.there.uploads == 1)
    let steps = try world.progress().map { Int($0.split(separator: " ")[1]) ?? -1 }
    #expect(steps.last == 100 && steps == steps.sorted(), "\(steps)")
    await world.end()
  }

  @Test(
    "B45 B32: where no upload is offered the file goes with its message, once",
    arguments: ["lose_reply", "cut_upload", "status"])
  func withMessage(_ kind: String) async throws {
    let world = try await Self.world(firstByte: 400)
    world.offers = ["uploads": .bool(false), "dedup": .string("off")]
    try world.fault([
      "kind": .string(kind), "path": .string("/v3/group_channels/c0/messages"), "method": .string("POST"),
      "count": .integer(1),
      "bytes": .integer(1000), "status": .integer(500),
    ])
    let bytes = Self.bytes(50_000, 3)
    try await world.sendFile("c0", "r1", bytes)
    try await world.send("c0", "r2", "after it")
    let isDrained = await world.isDrained()
    let left = try world.rows()
    #expect(isDrained, "\(left)")
    #expect(try world.arrivedFiles("c0") == [bytes])
    #expect(try world.arrived("c0").map(\.text) == ["", "after it"])
    await world.end()
  }

  @Test("B44 B45: a message that is taken back while its file is uploaded ends the upload")
  func canceled() async throws {
    let world = try await Self.world()
    try world.fault(["kind": .string("dark"), "path": .string("/v3/storage/file")])
    try await world.sendFile("c0", "r1", Self.bytes(100_000, 4))
    #expect(await World.wait { (try? world.uploading()) == 1 })
    try world.takeBack("r1", in: "c0")
    #expect(await World.wait(seconds: 3) { (try? world.uploading()) == 0 })
    try world.noFaults()
    try await world.send("c0", "r2", "after it")
    #expect(await world.arrives(["after it"], in: "c0"))
    #expect(try world.arrivedFiles("c0").isEmpty && world.there.uploads == 0)
    await world.end()
  }

  @Test("B44 B45: a message whose file is uploaded can be taken back; sent again, it is not uploaded again")
  func canceledAfterUpload() async throws {
    let world = try await Self.world()
    try world.fault([
      "kind": .string("status"), "path": .string("/v3/group_channels/*/messages"), "method": .string("POST"),
    ])
    let bytes = Self.bytes(100_000, 6)
    try await world.sendFile("c0", "r1", bytes)
    #expect(await World.wait { (try? world.progress().last) == "r1 100" })
    try world.takeBack("r1", in: "c0")
    #expect(await World.wait { (try? world.isCanceled("r1")) == true })
    try world.noFaults()
    try await world.send("c0", "r2", "after it")
    #expect(await world.arrives(["after it"], in: "c0"))
    #expect(await World.wait { (try? world.rows()) == ["r1 canceled "] })
    #expect(try world.arrivedFiles("c0").isEmpty && world.here.spooled.count == 1)
    try await world.sendAgain("r1", in: "c0")
    #expect(await world.isDrained())
    #expect(try world.arrivedFiles("c0") == [bytes] && world.there.uploads == 1)
    await world.end()
  }

  @Test(
    "B44 B45: taken back after its file arrived unnoticed, a message is deleted there, and its bytes go with it",
    arguments: [true, false])
  func canceledAfterArrival(offersUploads: Bool) async throws {
    let world = try await Self.world(firstByte: 2_000)
    world.offers = ["uploads": .bool(offersUploads)]
    let messages = "/v3/group_channels/c0/messages"
    try world.set([
      .object(["kind": .string("drop_webhook")]),
      .object(["kind": .string("lose_reply"), "path": .string(messages), "method": .string("POST")]),
    ])
    let bytes = Self.bytes(100_000, 7)
    try await world.sendFile("c0", "r1", bytes)
    #expect(await World.wait { (try? world.arrivedFiles("c0")) == [bytes] })
    try world.takeBack("r1", in: "c0")
    try world.set([.object(["kind": .string("drop_webhook")])])
    #expect(await World.wait(seconds: 20) { (try? world.arrivedFiles("c0").isEmpty) == true })
    #expect(await World.wait { (try? world.rows()) == ["r1 canceled "] })
    #expect(world.here.spooled.count == 1, "it can be sent again")
    try world.takeBack("r1", in: "c0")
    #expect(await World.wait { world.here.spooled.isEmpty })
    #expect(try world.rows().isEmpty && world.arrivedFiles("c0").isEmpty)
    await world.end()
  }

  @Test("B45: uploads have half of the slots, and a text of another channel does not wait for them")
  func beside() async throws {
    let world = try await Self.world(firstByte: 5_000)
    try world.fault(["kind": .string("dark"), "path": .string("/v3/storage/file")])
    for number in 0..<4 { try await world.sendFile("c0", "f\(number)", Self.bytes(50_000, 5)) }
    #expect(await World.wait { (try? world.uploading()) == 1 })
    let began = ContinuousClock.now
    try await world.send("c1", "t", "quick")
    #expect(await world.arrives(["quick"], in: "c1"))
    #expect(ContinuousClock.now - began < .seconds(2))
    await world.end()
  }

  @Test(
    "B36 B39 B45: over random faults and restarts each file arrives once, whole and in order",
    arguments: [true, false])
  func storms(offersUploads: Bool) async throws {
    for seed in 1...4 as ClosedRange<UInt64> {
      let world = try await Self.world(firstByte: 300)
      world.offers = ["uploads": .bool(offersUploads)]
      var random = Seeded(seed)
      var (texts, files) = ([String: [String]](), [String: [[UInt8]]]())
      for step in 0..<16 {
        try world.anyFault(&random)
        let channel = ["c0", "c1"].randomElement(using: &random) ?? "c0"
        if random.next() % 2 == 0 {
          let bytes = Self.bytes(1 + Int(random.next() % 200_000), random.next())
          try await world.sendFile(channel, "r\(step)", bytes)
          files[channel, default: []].append(bytes)
          texts[channel, default: []].append("")
        } else {
          try await world.send(channel, "r\(step)", "s\(step)")
          texts[channel, default: []].append("s\(step)")
        }
        if random.next() % 6 == 0 { try await world.here.restart() }
        if random.next() % 3 == 0 { try await Task.sleep(for: .milliseconds(60)) }
      }
      try world.calm()
      let isDrained = await world.isDrained()
      let left = try world.rows()
      #expect(isDrained, "seed \(seed): \(left)")
      for (channel, wanted) in texts {
        #expect(try world.arrived(channel).map(\.text) == wanted, "seed \(seed), \(channel)")
        #expect(try world.arrivedFiles(channel) == files[channel] ?? [], "seed \(seed), \(channel)")
      }
      try world.here.cache.tidySpool()
      #expect(world.here.spooled.isEmpty, "seed \(seed)")
      await world.end()
    }
  }
}

extension SendingWorld {
  /// The number of files being uploaded.
  func uploading() throws -> Int64 { try here.cache.read { try $0.unsentOfAllUsers().uploading } }

  /// An unsent message as alice sees it.
  func shown(_ request: String, in url: String) throws -> String {
    try here.cache.read { reader in
      let user = try #require(try reader.userKey(of: UserID("alice")))
      let laneKey = OutboxLaneKey(user: user, channel: ChannelURL(url))
      return String(decoding: try reader.unsentMessage(request, in: laneKey)?.object ?? [], as: UTF8.self)
    }
  }

  func takeBack(_ request: String, in url: String) throws {
    let (name, channel) = (try #require(RequestID(request)), ChannelURL(url))
    try here.cache.accept { writer in
      let user = try #require(try writer.reader.userKey(of: UserID("alice")))
      _ = try writer.takeBack(name, in: OutboxLaneKey(user: user, channel: channel))
    }
    here.syncRequests.accepted(of: UserID("alice"), in: channel)
  }

  /// Sets a random fault for half of the requests that send or upload.
  func anyFault(_ random: inout Seeded) throws {
    let kinds = ["lose_reply", "dark", "refuse", "html", "cut_body", "status", "delay", "cut_upload"]
    let paths = ["/v3/group_channels/*/messages*", "/v3/storage/file"]
    try fault([
      "kind": .string(kinds.randomElement(using: &random) ?? "dark"),
      "path": .string(paths.randomElement(using: &random) ?? "*"), "status": .integer(500),
      "milliseconds": .integer(20), "probability": .double(0.5), "bytes": .integer(20_000),
    ])
  }
}
