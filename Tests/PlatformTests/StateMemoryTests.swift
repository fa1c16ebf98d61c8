import Glibc
import Testing

@testable import Platform

/// A value stored for one state is never found in another, on any thread.
@Suite(.timeLimit(.minutes(1))) struct StateMemoryTests {
  private struct Words: Findings {
    var words: [Int: String] = [:]

    var count: Int { words.count }

    mutating func removeAll() { words = [:] }
  }

  private typealias Memory = StateMemory<Int, Words>

  private func find(_ number: Int, in state: Int, _ memory: Memory) -> String? {
    memory.find(in: state, { $0.words[number] }, { $0.words[number] = $1 })
  }

  /// Runs `body` on another thread, which has another number.
  private func elsewhere(_ body: @escaping @Sendable () -> Void) {
    Thread("elsewhere", body).join()
  }

  @Test("it is found again in its state alone, and a later state forgets it")
  func states() {
    let memory = Memory(mostOfThread: 8, mostOfAll: 8)
    memory.keep(in: 1) { $0.words[7] = "one" }
    #expect(find(7, in: 1, memory) == "one" && memory.known(in: 1, { $0.words[7] }) == "one")
    #expect(find(7, in: 2, memory) == nil && memory.known(in: 2, { $0.words[7] }) == nil)
    memory.keep(in: 2) { $0.words[8] = "two" }
    #expect(find(8, in: 2, memory) == "two" && find(7, in: 2, memory) == nil)
    #expect(find(7, in: 1, memory) == nil)
  }

  @Test("another thread finds it, and has it itself from then on")
  func threads() {
    let memory = Memory(mostOfThread: 8, mostOfAll: 8)
    memory.keep(in: 1) { $0.words[7] = "one" }
    let met = Guarded<[String?]>([])
    // Every sixteenth thread has the same copy.
    let own = Thread.currentNumber % 16
    while met.withLock({ $0.isEmpty }) {
      elsewhere { [self] in
        guard Thread.currentNumber % 16 != own else { return }
        let before = memory.known(in: 1) { $0.words[7] }
        let found = find(7, in: 1, memory)
        let after = memory.known(in: 1) { $0.words[7] }
        let other = find(7, in: 2, memory)
        met.withLock { $0 = [before, found, after, other] }
      }
    }
    #expect(met.withLock { $0 } == [nil, "one", "one", nil])
  }

  @Test("a thread's copy is emptied when it is full, and never holds more than it may")
  func room() throws {
    let memory = Memory(mostOfThread: 4, mostOfAll: 16)
    for number in 0..<100 {
      memory.keep(in: 1) { $0.words[number] = "\(number)" }
      #expect(memory.known(in: 1) { $0.words[number] } == "\(number)")
      #expect(try #require(memory.known(in: 1) { $0.count }) <= 4)
    }
    #expect(find(97, in: 1, memory) == "97")
  }
}
