import SQLite

/// Which of the file's free pages are given back to the file system, as a value: pages counted go in, the
/// next slice comes out (B55).
///
/// Giving back a page moves a used one from the file's end into it, so it costs a write. A little is left
/// free for what comes next, and nothing is done before that much is free.
struct VacuumPlan: Sendable, Equatable {
  /// It begins where more than so many of a thousand used pages are free, and goes on down to fewer.
  private static let (begins, ends): (Int64, Int64) = (40, 10)
  /// Fewer free pages than these are left alone.
  private static let leastPages: Int64 = 16
  private static let bounds = 8...1024

  private var pages = 32
  private var isUnderWay = false

  /// How many pages the next slice gives back; 0: nothing is to be done.
  mutating func next(_ count: PageCount) -> Int {
    let used = count.all - count.free
    let most = max(used * (isUnderWay ? VacuumPlan.ends : VacuumPlan.begins) / 1000, VacuumPlan.leastPages)
    isUnderWay = count.free > most
    guard isUnderWay else { return 0 }
    let kept = max(used * VacuumPlan.ends / 1000, VacuumPlan.leastPages)
    return Int(min(count.free - kept, Int64(pages)))
  }

  /// A slice held the writer for so long.
  mutating func took(_ nanoseconds: UInt64) {
    if nanoseconds > SliceSize.wantedNanoseconds {
      pages = max(VacuumPlan.bounds.lowerBound, pages / 2)
    } else if nanoseconds < SliceSize.wantedNanoseconds / 2 {
      pages = min(VacuumPlan.bounds.upperBound, pages + pages / 4)
    }
  }
}

extension CacheWriter {
  /// Gives so many free pages back. The file is cut when its log is in it. Answers the pages there are then.
  func giveBack(pages: Int) throws -> PageCount {
    try db.execute("PRAGMA incremental_vacuum(\(pages))")
    return try db.reading.pageCount()
  }
}
