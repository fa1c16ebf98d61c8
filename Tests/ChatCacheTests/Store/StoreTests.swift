import ChatModel
import Glibc
import Platform
import SQLite
import TestFolders
import TestSupport
import Testing

@testable import ChatCache

@Suite struct StoreTests {
  private static func directory() -> String { TestFolder.make("store") + "/data" }

  private static func open(_ directory: String, upstream: String? = nil) throws -> Cache {
    try Cache(Cache.Configuration(directory: directory, upstream: upstream))
  }

  @Test("B65: a second opener of a directory is refused with the owner's pid")
  func oneOwner() throws {
    let directory = Self.directory()
    let cache = try Self.open(directory)
    do {
      _ = try Self.open(directory)
      Issue.record("the second opener was let in")
    } catch CacheError.lockedBy(let pid, _) {
      #expect(pid == getpid())
    }
    cache.close()
  }

  @Test("B65: a directory stays with its upstream, and both are named when it does not")
  func boundToOneUpstream() throws {
    let directory = Self.directory()
    try Self.open(directory, upstream: "https://one/app").close()
    do {
      _ = try Self.open(directory, upstream: "https://two/app")
      Issue.record("another upstream was let in")
    } catch let error as CacheError {
      let text = "\(error)"
      #expect(text.contains("https://one/app") && text.contains("https://two/app"))
    }
    try Self.open(directory, upstream: "https://one/app").close()
  }

  @Test("B65: the directory is 0700 and every file in it 0600")
  func privateFiles() throws {
    let directory = Self.directory()
    let cache = try Self.open(directory)
    defer { cache.close() }
    try cache.write { _ = try $0.append(Change(.connection, .channelRefresh)) }
    var status = stat()
    #expect(stat(directory, &status) == 0 && status.st_mode & 0o777 == 0o700)
    for name in ["perch.lock", "perch.db", "perch.db-wal", "perch.db-shm"] {
      #expect(stat("\(directory)/\(name)", &status) == 0 && status.st_mode & 0o777 == 0o600, "\(name)")
    }
  }

  @Test("B63: a newer schema is refused, and the file is left alone")
  func newerSchema() throws {
    let directory = Self.directory()
    try Self.open(directory).close()
    try Connection(path: directory + "/perch.db").execute("PRAGMA user_version = 999")
    do {
      _ = try Self.open(directory)
      Issue.record("a newer schema was opened")
    } catch CacheError.newerSchema(let found, let known) {
      #expect(found == 999 && known == Migration.newest)
    }
  }

  @Test("B49: the epoch stays over a restart, the run rises, and the log goes on")
  func restart() throws {
    let directory = Self.directory()
    let first = try Self.open(directory)
    let sequence = try first.write { try $0.append(Change(.connection, .channelRefresh)) }
    let before = first.cursor
    first.close()
    let second = try Self.open(directory)
    defer { second.close() }
    #expect(second.cursor.epoch == before.epoch)
    #expect(second.cursor.run == before.run + 1)
    #expect(second.cursor.sequence == sequence)
    let next = try second.write { try $0.append(Change(.connection, .channelRefresh)) }
    #expect(next == sequence + 1)
  }

  @Test("B52: only sequences that the log has reached, in this epoch and its runs, are covered")
  func cursors() throws {
    let directory = Self.directory()
    let first = try Self.open(directory)
    for _ in 0..<3 { try first.write { _ = try $0.append(Change(.connection, .channelRefresh)) } }
    let last = first.cursor
    first.close()
    let cache = try Self.open(directory)
    defer { cache.close() }
    try cache.write { _ = try $0.append(Change(.connection, .channelRefresh)) }
    func covers(epoch: UInt64? = nil, run: Int64, _ sequence: Int64) throws -> Bool {
      try cache.read {
        try $0.covers(EventCursor(epoch: epoch ?? last.epoch, run: run, sequence: sequence))
      }
    }
    #expect(try covers(run: last.run, 0))
    #expect(try covers(run: last.run, last.sequence))
    #expect(try !covers(run: last.run, last.sequence + 1), "beyond its run's last")
    #expect(try covers(run: last.run + 1, last.sequence + 1))
    #expect(try !covers(run: last.run + 1, last.sequence + 2), "beyond the log")
    #expect(try !covers(run: last.run + 2, last.sequence), "an unknown run")
    #expect(try !covers(epoch: last.epoch &+ 1, run: last.run, 0), "another epoch")
  }

  @Test("B60: a bad item fails alone; its neighbours and their events are stored")
  func badItem() throws {
    struct Wrong: Error {}
    let cache = try Self.open(Self.directory())
    defer { cache.close() }
    let channel = ChannelKey(7)
    let results = Watched<[Bool]>([])
    for index in 0..<20 {
      cache.accept { writer -> Int64 in
        let sequence = try writer.append(Change(.channel, .channelRefresh, channel: channel))
        if index % 5 == 3 { throw Wrong() }
        return sequence
      } finish: { result in
        let isStored = if case .success = result { true } else { false }
        results.update { $0.append(isStored) }
      }
    }
    let all = results.wait(until: Clock.system.monotonicNanoseconds() + 10_000_000_000) {
      $0.count == 20 ? $0 : nil
    }
    #expect(all?.filter { $0 }.count == 16)
    #expect(try cache.read { try $0.commonChanges(in: channel, after: 0, limit: 100).count } == 16)
  }

  @Test("Writers that wait together share one commit, and each sees what it wrote")
  func groupCommit() throws {
    let cache = try Self.open(Self.directory())
    defer { cache.close() }
    let commits = Guarded(0)
    cache.onCommit { _ in commits.withLock { $0 += 1 } }
    let threads = (0..<16).map { number in
      Thread("writer-\(number)") {
        for _ in 0..<25 {
          let sequence = try? cache.accept {
            try $0.append(Change(.channel, .channelRefresh, channel: .init(1)))
          }
          // A write that failed shows as a missing event below.
          guard let sequence else { return }
          precondition(cache.cursor.sequence >= sequence, "answered before it was published")
        }
      }
    }
    for thread in threads { thread.join() }
    #expect(try cache.read { try $0.commonChanges(in: .init(1), after: 0, limit: 1000).count } == 400)
    #expect(commits.withLock { $0 } < 400, "every write had a commit of its own")
  }

  @Test("Writers who come while a batch runs join it, and one that fails half-way undoes nothing of theirs")
  func joined() throws {
    struct Wrong: Error {}
    let cache = try Self.open(Self.directory())
    defer { cache.close() }
    let (commits, failures) = (Guarded(0), Guarded(0))
    cache.onCommit { _ in commits.withLock { $0 += 1 } }
    let threads = (0..<16).map { number in
      Thread("writer-\(number)") {
        for round in 0..<25 {
          let isBad = (number + round).isMultiple(of: 10)
          do {
            _ = try cache.accept {
              let sequence = try $0.append(Change(.channel, .channelRefresh, channel: .init(1)))
              if isBad { throw Wrong() }
              return sequence
            }
          } catch { failures.withLock { $0 += 1 } }
        }
      }
    }
    for thread in threads { thread.join() }
    let bad = (0..<16).map { number in (0..<25).count { (number + $0).isMultiple(of: 10) } }.reduce(0, +)
    #expect(failures.withLock { $0 } == bad)
    #expect(try cache.read { try $0.commonChanges(in: .init(1), after: 0, limit: 1000).count } == 400 - bad)
    #expect(commits.withLock { $0 } < (400 - bad) / 4, "the writers did not share their commits")
  }

  @Test("Other work gets its turn although some client's write always waits")
  func share() throws {
    let cache = try Self.open(Self.directory())
    defer { cache.close() }
    let (isOver, commits) = (Guarded(false), Watched(0))
    cache.onCommit { _ in commits.update { $0 += 1 } }
    // Each write queues the next one while it runs.
    @Sendable func write() {
      cache.accept { writer in
        if !isOver.withLock({ $0 }) { write() }
        try writer.append(Change(.channel, .channelRefresh, channel: .init(1)))
      } finish: { _ in
      }
    }
    for _ in 0..<4 { write() }
    let deadline = Clock.system.monotonicNanoseconds() + 10_000_000_000
    #expect(commits.wait(until: deadline) { $0 >= 5 ? true : nil } == true)
    let isStored = Watched(false)
    cache.write {
      try $0.append(Change(.channel, .channelRefresh, channel: .init(2)))
    } finish: { _ in
      isStored.update { $0 = true }
    }
    #expect(isStored.wait(until: deadline) { $0 ? true : nil } == true)
    isOver.withLock { $0 = true }
  }

  @Test("A commit names whom it concerns, once it is durable")
  func observers() throws {
    let cache = try Self.open(Self.directory())
    defer { cache.close() }
    let seen = Watched<[Commit]>([])
    cache.onCommit { commit in seen.update { $0.append(commit) } }
    try cache.write { writer in
      var change = Change(.messages, .messageReceived, channel: .init(3))
      change.stretch = Position(createdAt: 5, messageID: 1)...Position(createdAt: 9, messageID: 2)
      try writer.append(change)
      try writer.append(Change(.membership, .read, user: .init(4)))
      try writer.append(Change(.membership, .read, channel: .init(7), user: .init(5)))
      var answered = Change(.collectionAnswered, .apiResult, channel: .init(8))
      answered.collection = "view"
      try writer.append(answered)
    }
    let commit = seen.wait(until: Clock.system.monotonicNanoseconds() + 5_000_000_000) { $0.first }
    #expect(commit?.channels == [ChannelKey(3)] && commit?.isForAll == false)
    #expect(commit?.users == [UserKey(4), UserKey(5)] && commit?.collections == ["view"])
    #expect(commit?.members == [Member(channel: ChannelKey(7), user: UserKey(5))])
    let change = try cache.read { try $0.commonChanges(in: .init(3), after: 0, limit: 10) }.first?.change
    #expect(change?.stretch?.upperBound == Position(createdAt: 9, messageID: 2))
  }

  @Test("A write after the end is refused, not lost in silence")
  func stopped() throws {
    let cache = try Self.open(Self.directory())
    cache.close()
    #expect(throws: CacheError.self) { try cache.write { _ = try $0.append(Change(.connection, .read)) } }
  }
}
