import ChatCache
import Glibc
import Platform

/// Does the writes of a schedule, some at a time, and prints each on stdout once it is answered.
struct Writer {
  let directory: String
  let schedule: Schedule

  /// The time is always the same, so that two caches of one schedule are equal.
  static let clock = Clock(
    wallMilliseconds: { 1_000_000 }, monotonicNanoseconds: Clock.system.monotonicNanoseconds)

  static func configuration(_ directory: String) -> Cache.Configuration {
    Cache.Configuration(directory: directory, clock: clock)
  }

  /// Goes on without end. Returns an exit code after a failure.
  func run() -> Int32 {
    do {
      let cache = try Cache(Writer.configuration(directory))
      var number = try Schedule.count(cache)
      while true {
        // Writes that wait together share a commit; those of one kind keep their order.
        let isIntent = schedule.isIntent(number + 1)
        var last = number + 1
        while last - number < 6, schedule.isIntent(last + 1) == isIntent { last += 1 }
        try commit(number + 1...last, isIntent: isIntent, cache)
        number = last
      }
    } catch {
      Log.line(.error, "writer_failed", ["reason": .text("\(error)")])
      return 3
    }
  }

  private func commit(_ numbers: ClosedRange<Int>, isIntent: Bool, _ cache: Cache) throws {
    let done = Watched<[Result<Void, any Error>]>([])
    for number in numbers {
      let schedule = schedule
      let body: @Sendable (CacheWriter) throws -> Void = { try schedule.write(number, $0) }
      let finish: @Sendable (Result<Void, any Error>) -> Void = { result in
        if case .success = result { Writer.say(number) }
        done.update { $0.append(result) }
      }
      if isIntent { cache.accept(body, finish: finish) } else { cache.write(body, finish: finish) }
    }
    for result in done.wait({ $0.count == numbers.count ? $0 : nil }) ?? [] { try result.get() }
  }

  private static func say(_ number: Int) {
    let line = "\(number)\n"
    _ = line.utf8.withContiguousStorageIfAvailable { write(STDOUT_FILENO, $0.baseAddress, $0.count) }
  }
}
