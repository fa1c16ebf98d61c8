import ChatModel
import Glibc
import Platform
import SQLite

// The self-check (B64) checks every invariant of the file. It runs only on demand, so that the time of a
// start does not depend on the cache's size.
//
// The order: SQLite's own check, or, of a large file that a service writes, a check in parts (`IndexCheck`);
// rows without a channel or user, events, unsent rows; then one channel after the other, each in a snapshot
// of its own, and a large one in several, so that nothing is held up; then the counts. One write resets an
// inconsistent channel, and checks it again first, since it may have changed. The messages of a large one are
// deleted in slices before. Unsent messages are reported and never changed; their counts are corrected.
// Nothing is written into a file that is damaged itself.

extension Cache {
  /// Checks everything, repairs what can be fetched or derived again, and returns the findings. It reads the
  /// whole file: call it from a thread of its own.
  package func check() throws -> CheckReport { try check(pagesAtOnce: CacheReader.pagesCheckedAtOnce) }

  /// `pagesAtOnce`: a file with more pages is checked in parts. `messagesAtOnce`: so is a channel with more
  /// messages.
  func check(pagesAtOnce: Int, messagesAtOnce: Int = MessagesCheck.mostAtOnce) throws -> CheckReport {
    try SelfCheck(
      clock: clock, pagesAtOnce: pagesAtOnce, messagesAtOnce: messagesAtOnce, read: { try self.readAnew($0) },
      write: { try self.blocking.write($0) }
    ).run()
  }

  /// Checks the directory's cache without a change or a lock; a service may be using it (B65).
  package static func inspect(directory: String, clock: Clock = .system) throws -> CheckReport {
    do {
      let connection = try Cache.readOnly(directory)
      let log = CommitLog(
        epoch: 0, run: 0, last: 0, age: FileAge(startedAt: 0, atStart: 0, clock: clock))
      return try SelfCheck(
        clock: clock, pagesAtOnce: .max, messagesAtOnce: MessagesCheck.mostAtOnce,
        read: { body in try connection.read { try body(CacheReader(db: $0, log: log, opened: log.head)) } },
        write: nil
      ).run()
    } catch let error as SQLiteError where error.kind == .corrupt {
      var report = CheckReport(startedAt: clock.wallMilliseconds())
      report.add([Finding(.file, error.message)])
      return report
    } catch let error as SQLiteError {
      throw CacheError(error)
    }
  }
}

private struct SelfCheck {
  let clock: Clock
  /// A file with more pages is checked in parts.
  let pagesAtOnce: Int
  /// A channel with more messages is checked in parts.
  let messagesAtOnce: Int
  let read: ((CacheReader) throws -> Void) throws -> Void
  /// Nil: nothing is repaired.
  let write: ((@escaping @Sendable (CacheWriter) throws -> Void) throws -> Void)?
  private let longestSnapshot = Guarded<UInt64>(0)

  func run() throws -> CheckReport {
    var report = CheckReport(startedAt: clock.wallMilliseconds())
    let start = clock.monotonicNanoseconds()
    let file = try fileReport()
    let heal = file.isDamaged ? nil : write
    if !file.indexes.isEmpty, let heal {
      let indexes = file.indexes
      try heal { try $0.rebuild(indexes) }
    }
    try lookAtRows(&report, heal)
    // A fault that SQLite does not report any more is repaired.
    let left = heal == nil || file.findings.isEmpty ? file : try fileReport()
    let complaints = Set(left.findings.map(\.detail))
    report.add(file.findings.map { complaints.contains($0.detail) ? $0 : $0.healed })
    report.milliseconds = Int64((clock.monotonicNanoseconds() - start) / 1_000_000)
    report.longestSnapshot = Int64(longestSnapshot.withLock { $0 } / 1_000_000)
    return report
  }

  private func lookAtRows(_ report: inout CheckReport, _ heal: Write?) throws {
    for table in OwnedTable.all { report.add(try lookForOrphans(in: table, heal)) }
    report.add(
      try look(heal) {
        try $0.unreadableEvents()
      } heal: {
        try $0.forgetUnreadableEvents()
      })
    report.add(
      try look(nil) {
        try $0.unsentFaults()
      } heal: { _ in
      })
    report.add(
      try look(heal) {
        try $0.wrongUnsentCounts()
      } heal: {
        try $0.recountUnsent()
      })
    for channel in try value({ try $0.channelKeys() }) ?? [] {
      report.channels += 1
      report.add(try look(channel, heal))
    }
    // Last, because the repairs before it change the counts.
    report.add(try lookAtCounts(heal))
    report.add(
      try look(heal) {
        try $0.wrongSegmentCounts()
      } heal: {
        try $0.recountSegments()
      })
  }

  /// The report about the file, also if damage ends its check.
  private func fileReport() throws -> FileReport {
    do {
      let pages = try value { try $0.db.pageCount().all } ?? 0
      if pages <= pagesAtOnce { return try value { try $0.fileReport() } ?? FileReport() }
      var report = FileReport()
      for table in try value({ try $0.checkedTables() }) ?? [] {
        if let found = try value({ try $0.report(of: table) }) { report.add(found) }
      }
      for channel in try value({ try $0.channelKeys() }) ?? [] {
        report.add(try entriesReport(of: channel))
      }
      return report
    } catch {
      guard let message = SelfCheck.damage(error) else { throw error }
      var report = FileReport()
      report.add("*** \(message)")
      return report
    }
  }

  /// The report of the indexes of one channel's messages.
  private func entriesReport(of channel: ChannelKey) throws -> FileReport {
    var entries = EntriesCheck(channel)
    while try value({ try entries.lookAtSome($0, atMost: messagesAtOnce) }) == true {}
    return entries.report
  }

  private typealias Write = (@escaping @Sendable (CacheWriter) throws -> Void) throws -> Void

  private func lookForOrphans(in table: OwnedTable, _ write: Write?) throws -> [Finding] {
    try orDamage {
      var (rows, left): (Int64, Int64) = (0, 0)
      var next: Int64? = .min
      while let reached = next {
        guard let found = try value({ try $0.missingOwners(of: table, after: reached) }) else { break }
        for owner in found.missing {
          rows += try value { try $0.orphans(of: owner, in: table) } ?? 0
          try write?({ try $0.dropOrphans(of: owner, in: table) })
          left += try value { try $0.orphans(of: owner, in: table) } ?? 0
        }
        next = found.reached
      }
      guard rows > 0 else { return [] }
      let finding = Finding(.orphans, "\(rows) rows of \(table.name) belong to no \(table.owner)")
      return [left == 0 ? finding.healed : finding]
    }
  }

  private func lookAtCounts(_ write: Write?) throws -> [Finding] {
    try orDamage {
      var (wrong, left) = (0, 0)
      var next: Int64? = -1
      while let reached = next {
        guard let found = try value({ try $0.wrongCounts(after: reached) }) else { break }
        wrong += found.users.count
        for user in found.users { try write?({ try $0.countAgain(user) }) }
        if !found.users.isEmpty { left += try value { try $0.wrongCounts(after: reached).users.count } ?? 0 }
        next = found.reached
      }
      guard wrong > 0 else { return [] }
      let finding = Finding(.counts, "the counts of \(wrong) users in cached_count are wrong")
      return [left == 0 ? finding.healed : finding]
    }
  }

  private func look(
    _ write: Write?, _ faults: (CacheReader) throws -> [Finding],
    heal: @escaping @Sendable (CacheWriter) throws -> Void
  ) throws -> [Finding] {
    try orDamage {
      let found = try value(faults) ?? []
      guard !found.isEmpty, let write else { return found }
      try write(heal)
      let left = Set(try value(faults) ?? [])
      return found.map { left.contains($0) ? $0 : $0.healed }
    }
  }

  private func look(_ channel: ChannelKey, _ write: Write?) throws -> [Finding] {
    try orDamage {
      var found = try faults(of: channel)
      guard !found.isEmpty, let write else { return found }
      let isLarge = try value { try $0.storedMessages(of: channel, exceed: $0.log.mostCleared) } ?? false
      if isLarge {
        // It may have changed.
        found = try faults(of: channel)
        if found.isEmpty { return [] }
        try empty(channel, write)
      }
      let (healed, known) = (Guarded<[Finding]>([]), isLarge ? found : nil)
      try write { writer in
        let faults = try writer.heal(channel, known: known)
        healed.withLock { $0 = faults }
      }
      return healed.withLock { $0 }
    }
  }

  private func faults(of channel: ChannelKey) throws -> [Finding] {
    let isLarge = try value { try $0.storedMessages(of: channel, exceed: messagesAtOnce) } ?? false
    return try isLarge ? faultsOfParts(of: channel) : value { try $0.faults(of: channel) } ?? []
  }

  /// Clears the channel and deletes its messages slice by slice, so that the write that resets it is short.
  private func empty(_ channel: ChannelKey, _ write: Write) throws {
    try write { try $0.clearFaulty(channel) }
    let left = Guarded<ClearedReach?>(ClearedReach())
    while let reached = left.withLock({ $0 }) {
      try write { writer in
        let next = try writer.removeSlice(ofCleared: channel, after: reached)
        left.withLock { $0 = next }
      }
    }
  }

  /// The faults of a large channel, whose messages are read in several snapshots. If the channel changed
  /// meanwhile, the numbers of its messages are not compared.
  private func faultsOfParts(of channel: ChannelKey) throws -> [Finding] {
    let found = try value { try $0.faults(of: channel, hasMessages: false) } ?? []
    let before = try value { try $0.counted(messagesOf: channel) } ?? nil
    guard let url = try value({ try $0.url(of: channel) }) ?? nil else { return found }
    var messages = MessagesCheck(channel)
    while try value({ try messages.lookAtSome($0, atMost: messagesAtOnce) }) == true {}
    let after = try value { try $0.counted(messagesOf: channel) } ?? nil
    return found + messages.found(in: url, counted: before == after ? after : nil)
  }

  /// The findings of a check; if it cannot read the file, SQLite's message about the damage.
  private func orDamage(_ check: () throws -> [Finding]) throws -> [Finding] {
    do { return try check() } catch {
      guard let message = SelfCheck.damage(error) else { throw error }
      return [Finding(.file, message)]
    }
  }

  private func value<Result>(_ body: (CacheReader) throws -> Result) throws -> Result? {
    var result: Result?
    let began = clock.monotonicNanoseconds()
    defer { longestSnapshot.withLock { $0 = max($0, clock.monotonicNanoseconds() - began) } }
    try read { result = try body($0) }
    return result
  }

  /// SQLite's message about a damaged file; nil: another error.
  private static func damage(_ error: any Error) -> String? {
    switch error {
    case let error as SQLiteError where error.kind == .corrupt: error.message
    case CacheError.corrupt(let error): error.message
    default: nil
    }
  }
}
