import ChatCache
import ChatModel
import Platform
import Testing

@testable import ChatCollections

/// Which part of a window is stored, in one thread.
@Suite struct HeldWindowTests {
  private struct Refused: Error {}

  private static func range(_ lower: Int64, _ upper: Int64, hasNext: Bool = true) -> LoadedRange {
    LoadedRange(
      loaded: Position.first(at: lower)...Position.first(at: upper), hasPrevious: true, hasNext: hasNext)
  }

  private static let trim = Change(.windowTrimmed, .localWindowTrimmed, channel: ChannelKey(1))

  @Test("B22: a window that moved is stored by one commit at a time; who asks meanwhile shares the next one")
  func shared() throws {
    var held = HeldWindow(Self.range(10, 20), isBounded: true)
    #expect(held.isStored)
    held.now = Self.range(5, 20)
    #expect(!held.isStored)
    let first = try #require(held.ask { _ in })
    held.now = Self.range(1, 20)
    #expect(held.ask { _ in } == nil && held.ask { _ in } == nil, "one is under way")
    let ended = held.ended(nil)
    let next = try #require(ended.next)
    #expect(first.window == Self.range(5, 20) && next.window == Self.range(1, 20))
    #expect(ended.served.count == 1 && !held.isStored)
    let last = held.ended(nil)
    #expect(last.served.count == 2 && last.next == nil && held.isStored)
  }

  @Test("B60: a window that grew and cannot be stored stays unstored, and is stored by the next commit")
  func failed() throws {
    var held = HeldWindow(Self.range(10, 20), isBounded: true)
    held.now = Self.range(5, 20)
    _ = held.ask { _ in }
    let ended = held.ended(Refused())
    #expect(throws: Refused.self) { try ended.outcome.get() }
    #expect(!held.isStored && held.now == Self.range(5, 20))
    _ = try #require(held.ask { _ in })
    _ = held.ended(nil)
    #expect(held.isStored)
  }

  @Test("B22, B60: a cut is stored with the change that tells of it; one that cannot be stored is taken back")
  func cut() throws {
    let (before, after) = (Self.range(10, 20), Self.range(15, 20))
    var held = HeldWindow(before, isBounded: true)
    held.cut(from: before, to: after, because: Self.trim)
    #expect(held.now == after && !held.isStored)
    #expect(try #require(held.ask { _ in }).changes.count == 1)
    let ended = held.ended(Refused())
    try ended.outcome.get()
    #expect(held.now == before && held.isStored && !held.isBounded, "it is tried again later")
    held.cut(from: before, to: after, because: Self.trim)
    _ = held.ask { _ in }
    _ = held.ended(nil)
    #expect(held.now == after && held.isStored)
  }

  @Test("B22: a cut that cannot be stored while the window moved on is told by a later commit, not forgotten")
  func cutAndMoved() throws {
    let (before, after) = (Self.range(10, 20), Self.range(15, 20))
    var held = HeldWindow(before, isBounded: true)
    held.cut(from: before, to: after, because: Self.trim)
    _ = held.ask { _ in }
    held.now = Self.range(15, 25)
    let ended = held.ended(Refused())
    #expect(throws: Refused.self) { try ended.outcome.get() }
    let write = try #require(held.ask { _ in })
    #expect(write.changes.count == 1 && write.window == Self.range(15, 25))
    _ = held.ended(nil)
    #expect(held.isStored)
  }
}
