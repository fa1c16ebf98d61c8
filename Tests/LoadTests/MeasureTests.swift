import Testing

@testable import Load

/// Percentiles, the plot and the report.
struct MeasureTests {
  @Test("percentiles are those of the sorted samples", arguments: [1, 2, 3, 10, 99, 100, 1_000])
  func percentiles(count: Int) throws {
    var random = SystemRandomNumberGenerator()
    let times = (0..<count).map { _ in UInt64.random(in: 0...5_000_000, using: &random) * 1000 }
    var samples = Samples()
    for time in times { samples.add(nanoseconds: time) }
    let sorted = times.sorted()
    for percent in [1.0, 50, 95, 99, 100] {
      // The smallest time that so many percent of the samples do not exceed.
      let naive = try #require(
        sorted.first { time in
          Double(sorted.count { $0 <= time }) >= percent / 100 * Double(count) - 0.000_001
        })
      #expect(samples.percentiles([percent])?[0] == Double(naive) / 1_000_000, "\(percent) of \(count)")
    }
    #expect(Samples().percentiles([50]) == nil)
  }

  @Test("how many samples took at most so long")
  func within() {
    var samples = Samples()
    #expect(samples.percent(within: 20) == nil)
    for milliseconds in [1, 20, 21, 400] as [UInt64] { samples.add(nanoseconds: milliseconds * 1_000_000) }
    #expect(samples.percent(within: 20) == 50 && samples.percent(within: 400) == 100)
  }

  @Test("a message counts once, until the last of its polls; messages of the warm-up do not count")
  func untilLast() {
    var sent = Sent(run: "run")
    func add(due: UInt64, isFromServer: Bool = false) -> Int {
      sent.add(Sent.Message(due: due * 1_000_000, isFromServer: isFromServer, channel: 0, sender: 0))
    }
    let (early, own, other) = (add(due: 9), add(due: 10), add(due: 11, isFromServer: true))
    _ = add(due: 12)  // No poll told it.
    for (number, now) in [(early, 500), (own, 40), (own, 90), (own, 60), (other, 15)] as [(Int, UInt64)] {
      sent.tell(number, at: now * 1_000_000)
    }
    let (through, fromServer) = (
      sent.untilLast(dueFrom: 10_000_000, isFromServer: false),
      sent.untilLast(dueFrom: 10_000_000, isFromServer: true)
    )
    #expect(through.count == 1 && through.percentiles([100]) == [80])
    #expect(fromServer.count == 1 && fromServer.percentiles([100]) == [4])
  }

  @Test(
    "the report has a row of the channel beside the others if something is sent into it, accepted or not")
  func beside() {
    var report = LoadReport()
    report.untilLast.sent.add(nanoseconds: 80_000_000)
    report.seconds = [Second(), Second()]
    func row(_ name: String) -> [Substring]? {
      report.text.split(separator: "\n").first { $0.hasPrefix(name) }?.split(separator: " ").suffix(5)
    }
    #expect(row("to the last poll") == ["1", "80.0", "80.0", "80.0", "80.0"])
    #expect(!report.text.contains("beside"))
    report.hasBeside = true
    #expect(row("accepted beside") == ["0", "–", "–", "–", "–"])
    report.seconds[0].beside.add(nanoseconds: 5_000_000)
    report.seconds[1].beside.add(nanoseconds: 25_000_000)
    #expect(row("accepted beside") == ["2", "5.0", "25.0", "25.0", "25.0"])
    #expect(report.text.contains("sends beside that were accepted within 20 ms: 50.0 %\n"))
  }

  @Test("a plot has a bar for each share of the values, and none is wider than asked for")
  func plot() {
    #expect(Plot.line([0, 7, 3.5], width: 60) == "▁█▅")
    #expect(Plot.line([0, 0], width: 60) == "▁▁" && Plot.line([], width: 60).isEmpty)
    let line = Plot.line((0..<100).map { $0 == 99 ? 70 : 0 }, width: 10)
    #expect(line == "▁▁▁▁▁▁▁▁▁█", "the largest of a share counts")
  }

  @Test("metrics that lack a value are none")
  func machine() {
    let text = """
      # HELP perch_process_own_memory_bytes Resident memory without pages of files.
      perch_process_own_memory_bytes 1000000
      perch_process_cpu_milliseconds_total 20
      perch_cache_used_bytes 3000000
      perch_write_seconds_bucket{le="0.02"} 3
      perch_write_seconds_count 4
      """
    #expect(Machine(metrics: text)?.cacheBytes == 3_000_000)
    #expect(Machine(metrics: text)?.writes.within20 == 3)
    #expect(Machine(metrics: "perch_process_own_memory_bytes 1") == nil)
    for nonsense in ["nan", "inf", "-inf", "1e300", "-1", "x"] {
      let broken = text.replacing("1000000", with: nonsense)
      #expect(Machine(metrics: broken) == nil, "\(nonsense)")
    }
  }

  @Test("a report names errors and what did not come, and is clean without them")
  func report() {
    var report = LoadReport()
    report.title = "two users"
    var second = Second()
    second.accepted.add(nanoseconds: 1_500_000)
    func machine(_ writes: Int, within20: Int) -> Machine? {
      Machine(
        metrics: """
          perch_process_own_memory_bytes 5000000
          perch_process_cpu_milliseconds_total 100
          perch_cache_used_bytes 0
          perch_write_seconds_bucket{le="0.02"} \(within20)
          perch_write_seconds_count \(writes)
          """)
    }
    second.machine = machine(10, within20: 9)
    var next = second
    next.machine = machine(30, within20: 28)
    report.seconds = [second, next]
    #expect(report.isClean && report.text.contains("errors: none; deliveries that did not come: 0"))
    let row = report.text.split(separator: "\n").first { $0.hasPrefix("accepted ") }
    #expect(row?.split(separator: " ") == ["accepted", "2", "1.5", "1.5", "1.5", "1.5"])
    #expect(
      report.text.contains("memory: 5.0 MB at first, 5.0 MB at the end; processor: 0.0 % of one"))
    #expect(report.text.contains("writes that were durable within 20 ms: 95.0 %\n"))
    var slow = second
    slow.accepted.add(nanoseconds: 900_000_000)
    report.seconds = [slow, second, second]
    report.warmUp = 1
    let warm = report.text.split(separator: "\n").first { $0.hasPrefix("accepted ") }
    #expect(warm?.split(separator: " ") == ["accepted", "2", "1.5", "1.5", "1.5", "1.5"])
    report.errors = ["send 503": 2]
    #expect(!report.isClean && report.text.contains("errors: 2 × send 503"))
    report.errors = [:]
    report.missing = ["message 7 of channel c, user u"]
    let last = "not come: 1, that came twice: 0\nnot told: message 7 of channel c, user u\n"
    #expect(!report.isClean && report.text.hasSuffix(last))
    report.missing = []
    report.doubled = 1
    #expect(!report.isClean && report.text.contains("that came twice: 1"))
  }
}
