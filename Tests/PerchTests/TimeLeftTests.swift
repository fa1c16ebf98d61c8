import ChatCache
import ChatModel
import Testing

@testable import perch

@Suite struct TimeLeftTests {
  /// Notes `gain` more every `step` ms from `first` on. Returns the time and the count of the last note.
  private func noted(
    _ left: inout TimeLeft, from first: Int64, done: Int, by gain: Int, every step: Int64, times: Int,
    of total: Int?
  ) -> (at: Int64, done: Int) {
    for number in 0..<times {
      left.note(done: done + number * gain, of: total, at: first + Int64(number) * step)
    }
    return (first + Int64(times - 1) * step, done + (times - 1) * gain)
  }

  @Test("while nothing is known, nothing is said of the time left")
  func unknown() {
    var left = TimeLeft()
    #expect(left.estimate(at: 0) == .unknown)
    left.note(done: 300, of: nil, at: 0)
    left.note(done: 900, of: nil, at: 5_000)
    #expect(left.estimate(at: 5_000) == .unknown, "nobody knows how many there are")
    left.note(done: 0, of: 1_000, at: 6_000)
    #expect(left.estimate(at: 6_000) == .unknown, "nobody knows how fast it goes")
    left.note(done: 0, of: 1_000, at: 7_000)
    #expect(left.estimate(at: 7_000) == .unknown, "nothing was gained")
  }

  @Test("at a steady rate the time left is what the rest takes at that rate")
  func steady() {
    var left = TimeLeft()
    let now = noted(&left, from: 1_000, done: 0, by: 5, every: 250, times: 21, of: 1_000)
    #expect(now.done == 100 && now.at == 6_000)
    #expect(left.estimate(at: now.at) == .seconds(45), "900 at 20 a second")
    left.note(done: 999, of: 1_000, at: 49_950)
    #expect(left.estimate(at: 50_000) == .seconds(1), "what is left is never called nothing")
  }

  @Test("a rate that changes is followed: after the window only the new one counts")
  func changing() {
    var left = TimeLeft()
    let fast = noted(&left, from: 0, done: 0, by: 25, every: 250, times: 41, of: 10_000)
    #expect(left.estimate(at: fast.at) == .seconds(90), "9 000 at 100 a second")
    let slow = noted(
      &left, from: fast.at + 500, done: fast.done + 5, by: 5, every: 500, times: 21, of: 10_000)
    #expect(left.estimate(at: slow.at) == .seconds(890), "8 895 at 10 a second")
  }

  @Test("what stands still through the whole window is unknown again, and goes on from there")
  func stalled() {
    var left = TimeLeft()
    var now = noted(&left, from: 0, done: 0, by: 10, every: 250, times: 9, of: 1_000)
    #expect(left.estimate(at: now.at) == .seconds(23), "920 at 40 a second")
    now = noted(&left, from: now.at + 500, done: now.done, by: 0, every: 500, times: 30, of: 1_000)
    #expect(left.estimate(at: now.at) == .unknown)
    left.note(done: now.done + 20, of: 1_000, at: now.at + 500)
    guard case .seconds = left.estimate(at: now.at + 500) else {
      Issue.record("it goes on again")
      return
    }
  }

  @Test("where all is done nothing is left, also where more is done than there was to do")
  func done() {
    var left = TimeLeft()
    left.note(done: 5, of: 5, at: 0)
    #expect(left.estimate(at: 0) == .nothing)
    left.note(done: 7, of: 5, at: 500)
    #expect(left.estimate(at: 500) == .nothing)
    left.note(done: 0, of: 0, at: 900)
    #expect(left.estimate(at: 900) == .nothing, "a user without channels")
  }

  @Test("what is counted anew begins anew, and more to do is more time")
  func anew() {
    var left = TimeLeft()
    let listed = noted(&left, from: 0, done: 0, by: 100, every: 250, times: 9, of: 800)
    #expect(left.estimate(at: listed.at) == .nothing)
    left.note(done: 10, of: 800, at: 2_500)
    #expect(left.estimate(at: 2_500) == .unknown, "other things are counted now")
    left.note(done: 20, of: 800, at: 3_500)
    #expect(left.estimate(at: 3_500) == .seconds(78))
    left.note(done: 20, of: 1_600, at: 3_500)
    #expect(left.estimate(at: 3_500) == .seconds(158))
  }

  @Test("it is never negative, never without end, and keeps few marks, whatever comes")
  func bounds() {
    var left = TimeLeft()
    var random = SystemRandomNumberGenerator()
    var now: Int64 = 0
    for _ in 0..<20_000 {
      now += Int64.random(in: -300...900, using: &random)
      let total = Bool.random(using: &random) ? Int.random(in: 0...1_000, using: &random) : nil
      left.note(done: Int.random(in: 0...1_200, using: &random), of: total, at: now)
      if case .seconds(let seconds) = left.estimate(at: now) {
        #expect(seconds >= 1 && seconds <= TimeLeft.longest)
      }
    }
    var slow = TimeLeft()
    slow.note(done: 0, of: .max, at: 0)
    slow.note(done: 1, of: .max, at: 9_000)
    #expect(slow.estimate(at: 9_000) == .seconds(TimeLeft.longest))
    for moment in 0..<100_000 { slow.note(done: moment, of: .max, at: Int64(moment)) }
    #expect(slow.markCount <= 42)
  }

  @Test("the line of progress tells channels, messages, requests and the time left")
  func line() {
    var connection = UserConnection(UserID("alice"), .connecting)
    var line = SyncProgress.Line(connection, messages: 0, requests: 1)
    #expect(line.text(.unknown) == "connecting: 0 channels, 0 messages, 1 requests, time left unknown")
    connection.state = .online
    connection.progress = UserConnection.Progress(.messages, channelsDone: 40, channelsTotal: 1_000)
    line = SyncProgress.Line(connection, messages: 4_000, requests: 130)
    #expect(
      line.text(.seconds(12)) == "online: 40/1000 channels, 4000 messages, 130 requests, about 12 s left")
    #expect(line.text(.seconds(121)).hasSuffix("about 3 min left"))
    #expect(line.summary == "40/1000 channels, 4000 messages, 130 requests")
  }
}
