import SQLite

/// Decides how many free pages of the database file the next slice gives back to the file system (B55). A
/// value: page counts go in, the size of a slice comes out.
///
/// To give back a free page, SQLite moves a used page from the file's end into it, which costs a write. So
/// some pages stay free for new rows, and slices begin only when clearly more than those are free.
struct VacuumPlan: Sendable, Equatable {
  /// Slices begin when there are more than `begins` free pages per 1000 used ones, and go on down to `ends`.
  private static let (begins, ends): (Int64, Int64) = (40, 10)
  /// This many free pages always stay.
  private static let leastPages: Int64 = 16
  private static let bounds = 8...1024

  private var pages = 32
  private var isUnderWay = false

  /// The number of pages that the next slice gives back; 0: none.
  mutating func next(_ count: PageCount) -> Int {
    let used = count.all - count.free
    let most = max(used * (isUnderWay ? VacuumPlan.ends : VacuumPlan.begins) / 1000, VacuumPlan.leastPages)
    isUnderWay = count.free > most
    guard isUnderWay else { return 0 }
    let kept = max(used * VacuumPlan.ends / 1000, VacuumPlan.leastPages)
    return Int(min(count.free - kept, Int64(pages)))
  }

  /// Adapts the size of slices to the time that the last one held the writer.
  mutating func took(_ nanoseconds: UInt64) {
    if nanoseconds > SliceSize.wantedNanoseconds {
      pages = max(VacuumPlan.bounds.lowerBound, pages / 2)
    } else if nanoseconds < SliceSize.wantedNanoseconds / 2 {
      pages = min(VacuumPlan.bounds.upperBound, pages + pages / 4)
    }
  }
}

extension CacheWriter {
  /// Gives `pages` free pages back, and returns the counts after that. The file gets shorter when a
  /// checkpoint copies the WAL into it.
  func giveBack(pages: Int) throws -> PageCount {
    try db.execute("PRAGMA incremental_vacuum(\(pages))")
    return try db.reading.pageCount()
  }
}
