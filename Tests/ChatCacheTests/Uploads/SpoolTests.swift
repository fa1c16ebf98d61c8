import ChatModel
import Glibc
import Platform
import TestFolders
import Testing

@testable import ChatCache

/// The folder of unsent files, on a real disk (B45).
@Suite(.timeLimit(.minutes(5))) struct SpoolTests {
  fileprivate final class World {
    let directory = TestFolder.make("spool")
    let cache: Cache
    var spool: Spool { cache.spool }

    init(bytes: Int = 1 << 30) throws {
      var configuration = Cache.Configuration(directory: directory)
      configuration.spoolBytes = bytes
      cache = try Cache(configuration)
    }

    var names: [String] { get throws { try spool.list().map(\.name.text).sorted() } }

    /// Writes text to a file of the spool, and syncs it.
    func keep(_ text: String) throws -> SpooledFile {
      let file = try spool.begin(announced: text.utf8.count)
      try Array(text.utf8).withUnsafeBytes { try file.write($0) }
      return try keep(file)
    }

    /// Syncs a file whose last byte was written.
    func keep(_ file: IncomingFile) throws -> SpooledFile {
      try file.end()
      let ended = Watched<SpoolError??>(nil)
      spool.keep(file) { error in ended.update { $0 = .some(error) } }
      let error = ended.wait { $0 } ?? nil
      if let error { throw error }
      return file.spooled
    }

    /// A file message of alice's with that file.
    func accept(_ file: SpooledFile, _ name: String) throws {
      let user = UserID("alice")
      try cache.write { try $0.acknowledge(user) }
      let content = OutboxContent(params: Array(#"{"type":"file"}"#.utf8), body: [])
      var request = UnsentRequest(
        requestID: RequestID(name)!, kind: .file, content: content, contentHash: [1])
      request.upload = .needed
      request.file = SentFile(file, name: "a.txt", mime: "text/plain")
      let asked = request
      try cache.accept { writer in
        let key = try #require(try writer.reader.userKey(of: user))
        _ = try writer.accept(asked, in: OutboxLaneKey(user: key, channel: ChannelURL("general")))
      }
      spool.settled(file.name)
    }
  }

  @Test("B45 B65: a file that is kept has its bytes, its hash and the mode 0600, in a folder of 0700")
  func kept() throws {
    let world = try World()
    defer { world.cache.close() }
    let file = try world.keep("abc")
    #expect(file.size == 3)
    let hash = file.hash.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    #expect(hash == "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319")
    let path = try #require(world.spool.path(of: file.name))
    var info = stat()
    #expect(stat(path, &info) == 0 && info.st_mode & 0o777 == 0o600 && info.st_size == 3)
    #expect(stat(world.directory + "/spool", &info) == 0 && info.st_mode & 0o777 == 0o700)
    #expect(world.spool.contents == (3, 1))
  }

  @Test(
    "B37: the hash is the same, whatever pieces the bytes come in, and whether they are stored",
    arguments: [3_500, 70_000, 3_000_000], [true, false])
  func hashed(piece: Int, isStored: Bool) throws {
    let world = try World()
    defer { world.cache.close() }
    let size = 3_000_000
    let file = isStored ? try world.spool.begin(announced: size) : world.spool.beginRepeated()
    // Not all pieces are alike, so that their order counts.
    let words = (0..<UInt64(size / 8)).map { $0 &* 0x9E37_79B9_7F4A_7C15 }
    try words.withUnsafeBytes { bytes in
      for start in stride(from: 0, to: size, by: piece) {
        try file.write(UnsafeRawBufferPointer(rebasing: bytes[start..<min(start + piece, size)]))
      }
    }
    let hash = FileHash()
    words.withUnsafeBytes { hash.update($0) }
    #expect(try world.keep(file).hash == hash.finish())
  }

  @Test("B45: a file that is let go of before it is kept leaves neither bytes nor a promise")
  func abandoned() throws {
    let world = try World()
    defer { world.cache.close() }
    do {
      let file = try world.spool.begin(announced: 100)
      try [UInt8](repeating: 7, count: 90).withUnsafeBytes { try file.write($0) }
      #expect(world.spool.contents.bytes == 100)
    }
    #expect(try world.names.isEmpty && world.spool.contents == (0, 0))
  }

  @Test("B45: what is coming in counts, whether its size was announced or not")
  func full() throws {
    let world = try World(bytes: 1000)
    defer { world.cache.close() }
    var first: IncomingFile? = try world.spool.begin(announced: 600)
    #expect(throws: SpoolError.full) { try world.spool.begin(announced: 500) }
    let second = try world.spool.begin(announced: 0)
    #expect(throws: SpoolError.full) {
      try [UInt8](repeating: 1, count: 500).withUnsafeBytes { try second.write($0) }
    }
    #expect(first?.size == 0)
    first = nil
    #expect(world.spool.hasRoom(for: 1000))
  }

  @Test("B45: the janitor removes files of no row, and no other; the bytes go after the message is gone")
  func janitor() throws {
    let world = try World()
    defer { world.cache.close() }
    let (used, unused) = (try world.keep("used"), try world.keep("unused"))
    try world.accept(used, "r1")
    let coming = try world.spool.begin(announced: 4)
    try world.cache.tidySpool()
    // The file that waits for its commit is open, and stays.
    #expect(try world.names == [used.name.text, unused.name.text, coming.name.text].sorted())
    world.spool.settled(unused.name)
    try world.cache.tidySpool()
    #expect(try world.names == [used.name.text, coming.name.text].sorted())
    try world.cache.accept { writer in
      let key = try #require(try writer.reader.userKey(of: UserID("alice")))
      _ = try writer.takeBack(
        RequestID("r1")!, in: OutboxLaneKey(user: key, channel: ChannelURL("general")))
      _ = try writer.takeBack(
        RequestID("r1")!, in: OutboxLaneKey(user: key, channel: ChannelURL("general")))
    }
    #expect(World.until { world.spool.path(of: used.name) == nil })
  }

  /// The outcome of giving alice's message the file, and whether the message has it now.
  private func replace(
    _ world: World, _ file: SpooledFile, isMissing: Bool, mayHaveArrived: Bool
  ) throws -> (ReplacedFile, hasIt: Bool) {
    let name = RequestID("r1")!
    let other = SentFile(file, name: "b.txt", mime: "text/plain")
    return try world.cache.accept { writer in
      let key = try #require(try writer.reader.userKey(of: UserID("alice")))
      let lane = OutboxLaneKey(user: key, channel: ChannelURL("general"))
      try writer.db.run("UPDATE outbox SET may_have_arrived = ?1") { $0.bind(1, mayHaveArrived) }
      let outcome = try writer.replaceFile(of: name, in: lane, by: other, isMissing: isMissing)
      return (outcome, try writer.reader.upload(of: name, in: lane)?.file == file.name)
    }
  }

  @Test("B39 B44: other bytes replace a file, and not one with which the message may have arrived")
  func replaced() throws {
    let world = try World()
    defer { world.cache.close() }
    try world.accept(try world.keep("first"), "r1")
    #expect(
      try replace(world, try world.keep("second"), isMissing: false, mayHaveArrived: true) == (.kept, false))
    #expect(
      try replace(world, try world.keep("third"), isMissing: true, mayHaveArrived: true) == (.isOther, false))
    #expect(
      try replace(world, try world.keep("first"), isMissing: true, mayHaveArrived: true) == (.replaced, true))
    #expect(
      try replace(world, try world.keep("new"), isMissing: false, mayHaveArrived: false) == (.replaced, true))
  }

  @Test("B4 B45: files go with their user, and with the whole cache")
  func forgotten() throws {
    for clears in [false, true] {
      let world = try World()
      defer { world.cache.close() }
      let file = try world.keep("mine")
      try world.accept(file, "r1")
      try world.cache.accept { writer in
        if clears { try writer.clearAll(withUnsent: true) } else { try writer.remove(UserID("alice")) }
      }
      #expect(World.until { world.spool.path(of: file.name) == nil }, "\(clears)")
      #expect(try world.cache.read { try $0.spooledFiles() }.isEmpty)
    }
  }

  @Test("B36: after a start files of rows are there and count, others are gone")
  func restarted() throws {
    let world = try World()
    let (used, unused) = (try world.keep("used"), try world.keep("unused!"))
    try world.accept(used, "r1")
    world.cache.close()
    let again = try Cache(Cache.Configuration(directory: world.directory))
    defer { again.close() }
    #expect(World.until { again.spool.contents == (4, 1) })
    #expect(again.spool.path(of: used.name) != nil && again.spool.path(of: unused.name) == nil)
  }
}

extension SpoolTests.World {
  fileprivate static func until(_ condition: () -> Bool) -> Bool {
    for _ in 0..<500 {
      if condition() { return true }
      usleep(10_000)  // the awaited change happens on another thread
    }
    return condition()
  }
}
