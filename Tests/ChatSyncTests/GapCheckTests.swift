import ChatCache
import ChatModel
import Testing

@testable import ChatSync

struct GapCheckTests {
  /// A channel's positions, listed as the upstream lists them.
  private struct Line {
    var rows: [Position]

    func list(_ window: MessageWindow) -> [Position] {
      switch window.anchor {
      case .newest: Array(rows.suffix(window.older))
      case .message(let anchor):
        rows.filter { $0 < anchor }.suffix(window.older)
          + rows.filter { window.includesAnchor && $0 == anchor }
          + rows.filter { $0 > anchor }.prefix(window.newer)
      case .time(let time):
        Array(rows.filter { $0.createdAt >= time }.prefix(window.newer))
      }
    }
  }

  private func run(_ line: Line, covered: Position?, counts: Bool = true, told: Set<Int64> = []) -> (
    GapCheck.Verdict, Set<Position>, Int
  ) {
    var check = GapCheck(covered: covered, counts: counts, told: told)
    var pages: [[Position]] = []
    while true {
      switch check.step() {
      case .list(let window):
        let rows = line.list(window)
        pages.append(rows)
        check.received(window, rows)
      case .finish(let verdict): return (verdict, Set(check.keep.flatMap { pages[$0] }), pages.count)
      }
    }
  }

  private func line(_ missing: Int, perMillisecond: Int = 1) -> (Line, Position) {
    let rows = (0..<(50 + missing)).map {
      Position(createdAt: 1000 + Int64($0 / perMillisecond), messageID: Int64($0) + 1)
    }
    return (Line(rows: rows), rows[49])
  }

  @Test("B28: 299 and 300 missing are filled, 301 is huge", arguments: [1, 7, 1000])
  func edges(perMillisecond: Int) {
    for missing in [0, 1, 99, 100, 101, 200, 201, 299, 300] {
      let (line, covered) = line(missing, perMillisecond: perMillisecond)
      let (verdict, kept, _) = run(line, covered: covered)
      #expect(verdict == .joined, "\(missing)")
      #expect(kept.filter { $0 > covered }.count == missing, "\(missing)")
    }
    for missing in [301, 302, 399, 400, 401, 5000] {
      let (line, covered) = line(missing, perMillisecond: perMillisecond)
      let (verdict, kept, requests) = run(line, covered: covered)
      guard case .huge(let counted) = verdict else {
        Issue.record("\(missing) is not huge")
        continue
      }
      #expect(counted > 300 && Double(counted) <= Double(missing) * 1.1, "\(counted) of \(missing)")
      if missing == 5000 && perMillisecond < 1000 { #expect(counted > 4_500, "\(counted) is a fair guess") }
      #expect(kept.filter { $0 > covered }.count < missing, "the gap is real at \(missing)")
      #expect(kept.isSuperset(of: line.rows.suffix(100)), "the newest page is loaded")
      #expect(requests <= 5)
    }
  }

  @Test("B34: however many messages webhooks told of, the same messages are stored", arguments: [1, 7, 1000])
  func told(perMillisecond: Int) {
    for missing in [0, 1, 2, 9, 10, 11, 30, 99, 100, 101, 300, 301, 5000] {
      for counts in [true, false] {
        let (line, covered) = line(missing, perMillisecond: perMillisecond)
        func fresh(_ kept: Set<Position>) -> Set<Position> { kept.filter { $0 > covered } }
        let (verdict, kept, requests) = run(line, covered: covered, counts: counts)
        for told in [1, 2, 10, 11, 100] {
          let ids = Set(line.rows.suffix(told).map(\.messageID))
          let short = run(line, covered: covered, counts: counts, told: ids)
          #expect(short.0 == verdict && fresh(short.1) == fresh(kept), "\(missing), told of \(told)")
          #expect(short.2 <= requests + 1)
        }
      }
    }
  }

  @Test("B34: a few new messages take one short page, and a whole one if it lacks one of them, or a parent")
  func short() {
    let (line, covered) = line(3)
    let new = Set(line.rows.suffix(3).map(\.messageID))
    for (told, lacksParents, sizes) in [
      (new, false, [20]), (new, true, [20, 100]), (new.union([1]), false, [20, 100]), ([], false, [100]),
    ] {
      var check = GapCheck(covered: covered, counts: true, told: told)
      var asked: [Int] = []
      while case .list(let window) = check.step() {
        asked.append(window.older)
        check.received(window, line.list(window), lacksParents: lacksParents)
      }
      #expect(asked == sizes)
      #expect(check.keep == [sizes.count - 1])
    }
    var first = GapCheck(covered: nil, counts: true, told: new)
    let step = first.step()
    #expect(step == .list(MessageWindow(.newest, older: 100, newer: 0)), "nothing is covered yet")
  }

  @Test("B28: what is missing in a channel that had no messages is estimated from its first message on")
  func sinceTheBeginning() {
    for missing in [300, 301, 5000] {
      let rows = (0..<missing).map {
        Position(createdAt: 1_700_000_000_000 + Int64($0), messageID: Int64($0) + 1)
      }
      let (verdict, _, _) = run(Line(rows: rows), covered: .start)
      guard case .huge(let counted) = verdict else {
        #expect(verdict == .joined && missing == 300)
        continue
      }
      #expect(missing > 300 && abs(Double(counted) / Double(missing) - 1) < 0.1, "\(counted) of \(missing)")
    }
  }

  @Test("B28: opening a channel of 100 000 messages for the first time is no huge gap and one request")
  func firstTime() {
    let (line, _) = line(99_950)
    let (verdict, kept, requests) = run(line, covered: nil)
    #expect(verdict == .joined && kept.count == 100 && requests == 1)
  }

  @Test("B28: where nobody looks at the newest end, nothing is counted")
  func notOpen() {
    let (line, covered) = line(1000)
    let (verdict, kept, requests) = run(line, covered: covered, counts: false)
    #expect(verdict == .apart && kept.count == 100 && requests == 1)
  }

  @Test("An anchor that was deleted upstream is replaced by its time")
  func anchorGone() {
    var (line, covered) = line(250, perMillisecond: 3)
    line.rows.removeAll { $0 == covered }
    var check = GapCheck(covered: covered, counts: true)
    var isFirstForward = true
    var stored: Set<Position> = []
    var pages: [[Position]] = []
    loop: while true {
      switch check.step() {
      case .list(let window):
        if case .message(covered) = window.anchor {
          #expect(isFirstForward)
          isFirstForward = false
          let isReplaced = check.anchorIsGone()
          #expect(isReplaced)
          continue
        }
        pages.append(line.list(window))
        check.received(window, pages.last!)
      case .finish(let verdict):
        #expect(verdict == .joined)
        stored = Set(check.keep.flatMap { pages[$0] })
        break loop
      }
    }
    #expect(stored.isSuperset(of: line.rows.filter { $0 > covered }))
  }
}
