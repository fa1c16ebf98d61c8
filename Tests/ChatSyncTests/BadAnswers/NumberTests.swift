import ChatCache
import ChatModel
import TestSupport
import Testing

@testable import ChatSync

/// The upstream's numbers, replaced by both ends of Int64, by numbers just beyond, and by other values.
@Suite(.timeLimit(.minutes(5)))
struct NumberTests {
  @Test(
    "B35: any number of any answer may be anything: it is clamped or refused, and the rest goes on",
    arguments: Sample.allCases)
  func everyNumber(of kind: Sample) async throws {
    let world = try await Attacked()
    defer { world.cache.close() }
    let good = try Tree(kind.text)
    #expect(!good.numbers.isEmpty || kind == .member)
    for path in good.numbers {
      for (index, end) in Tree.ends.enumerated() {
        let note = "\(good.name(of: path)) = \(end)"
        let bad = good.replacing(path) { _ in .leaf(end) }.text
        try await expectOthers(try await world.take(kind, bad), path, note)
        if index % 7 == 0 { try await world.arrive(Int64(10_000 + index)) }
      }
      _ = try world.read()
      #expect(try world.strangeNumbers() == [], "\(good.name(of: path))")
    }
    let report = try world.cache.check()
    #expect(report.isSound, "\(report.findings)")
  }

  /// The items beside the changed one are stored as usual.
  private func expectOthers(_ taken: Attacked.Taken, _ path: [Int], _ note: String) async throws {
    switch taken {
    case .channels(let channels, let unreadable):
      #expect(channels.contains { $0.url.text == Sample.untouched } || path.starts(with: [0, 1]), "\(note)")
      #expect(channels.count + unreadable >= 2, "\(note): nothing is lost without being counted")
    case .messages(let messages, let unreadable):
      let isThere = messages.contains { $0.messageID == Sample.untouchedID }
      #expect(isThere || path.starts(with: [0, 1]), "\(note)")
      #expect(messages.count + unreadable >= 2, "\(note): nothing is lost without being counted")
    case .other, .refused: break
    }
  }

  @Test("B68, B35: an unread count at the end of Int64 and one more message: both are counted, up to a bound")
  func unread() async throws {
    let world = try await Attacked()
    defer { world.cache.close() }
    let channel = Sample.channel("general").replacing("\"unread_message_count\":3", "9223372036854775807")
    _ = try await world.take(.channels, "{\"channels\":[\(channel)],\"next\":\"\",\"ts\":1}")
    try await world.arrive(9_001)
    _ = try await world.take(.channels, "{\"channels\":[\(channel)],\"next\":\"\",\"ts\":1}")
    #expect(
      try world.read().messages == Limits.counts.upperBound + 3, "one channel's bound, and the other's 3")
  }

  @Test("B23: a floor that is too large hides everything, one that is no number keeps the channel away")
  func floor() async throws {
    for (floor, isRead) in [
      ("9223372036854775807", true), ("1e300", true), ("\"soon\"", false), ("[]", false),
    ] {
      let world = try await Attacked()
      defer { world.cache.close() }
      let channel = Sample.channel("secret").replacing("\"ts_message_offset\":1500000000000", floor)
      let taken = try await world.take(.channels, "{\"channels\":[\(channel)],\"next\":\"\",\"ts\":1}")
      guard case .channels(let channels, let unreadable) = taken else {
        Issue.record("\(taken)")
        continue
      }
      #expect(channels.first?.membership?.floorAt == (isRead ? Limits.moments.upperBound : nil), "\(floor)")
      #expect(unreadable == (isRead ? 0 : 1), "\(floor)")
    }
  }

  @Test("B35: headers that say when to come back may say anything")
  func headers() async throws {
    let world = try await Attacked()
    defer { world.cache.close() }
    let texts =
      Tree.ends + [
        "inf", "-inf", "nan", "1e999", "0x1p1023", "Sun, 06 Nov 2147483647 08:49:37 GMT",
        "Sun, 06 Nov 99999999 08:49:37 GMT", "Sun, 06 Nov 0001 08:49:37 GMT", "", "-",
      ]
    for text in texts {
      for header in 0..<3 {
        var headers = HTTPResponse.Headers()
        if header == 0 { headers.retryAfter = text }
        if header == 1 { headers.rateRetryAfter = text }
        if header == 2 { headers.rateReset = text }
        for status in [429, 503] {
          guard case .refused(let error) = try await world.take(.user, "{}", status: status, headers: headers)
          else {
            Issue.record("\(text)")
            continue
          }
          #expect((0...Envelope.longestWait).contains(error.retryAfter ?? 0), "\(text)")
        }
      }
    }
  }

  @Test("B28: rows at both ends of time make an estimate, not an overflow")
  func estimate() {
    var check = GapCheck(covered: Position(createdAt: 0, messageID: 1), counts: true)
    var id: Int64 = 2
    var isNewest = true
    while case .list(let window) = check.step() {
      let rows = (0..<100).map { index -> Position in
        id += 1
        return Position(createdAt: isNewest ? .max - 1_000 + Int64(index) * 10 : id, messageID: id)
      }
      isNewest = false
      check.received(window, rows)
    }
    guard case .finish(.huge(let missing)) = check.step() else {
      Issue.record("\(check.step())")
      return
    }
    #expect(missing > 300)
  }
}

extension String {
  /// The text with another value for the one field that is `field`, which ends in its old value.
  fileprivate func replacing(_ field: String, _ value: String) -> String {
    let name = field.prefix { $0 != ":" }
    let parts = split(separator: field, omittingEmptySubsequences: false)
    return parts.joined(separator: "\(name):\(value)")
  }
}
