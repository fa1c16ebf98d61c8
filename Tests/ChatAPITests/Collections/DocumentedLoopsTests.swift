import ChatCache
import ChatCollections
import ChatModel
import Glibc
import MicroHTTP
import Platform
import TestSupport
import Testing

@testable import ChatAPI

/// The reference loops of `docs/clients.md`, run unchanged: they open, follow, and begin again after a reset.
@Suite struct DocumentedLoopsTests {
  private static let secret = "0123456789abcdef0123456789abcdef"

  /// A running program, with its output in a file.
  private final class Program {
    private let output: String
    private var pid: pid_t = 0

    init(_ words: [String], _ variables: [String: String], in directory: String) throws {
      output = directory + "/output"
      var actions = posix_spawn_file_actions_t()
      posix_spawn_file_actions_init(&actions)
      defer { posix_spawn_file_actions_destroy(&actions) }
      posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
      var arguments = words.map { strdup($0) } + [nil]
      let path = getenv("PATH").map { String(cString: $0) } ?? "/usr/bin:/bin"
      let all = variables.merging(["PATH": path]) { $1 }
      var environment = all.map { strdup("\($0.key)=\($0.value)") } + [nil]
      defer { for text in arguments + environment { free(text) } }
      let code = posix_spawnp(&pid, words[0], &actions, nil, &arguments, &environment)
      try #require(code == 0)
    }

    func stop() {
      kill(pid, SIGKILL)
      var status: Int32 = 0
      waitpid(pid, &status, 0)
    }

    var written: String {
      guard let file = fopen(output, "re") else { return "" }
      defer { fclose(file) }
      var room = [UInt8](repeating: 0, count: 262_144)
      let count = fread(&room, 1, room.count, file)
      return String(decoding: room[..<count], as: UTF8.self)
    }

    /// Waits, at most 15 s, until it has written `text` that many times.
    func wait(for text: String, times: Int = 1) -> Bool {
      let end = Clock.system.monotonicNanoseconds() + UInt64(patience * 15e9)
      while Clock.system.monotonicNanoseconds() < end {
        var found = 0
        var rest = written[...]
        while let range = rest.firstRange(of: text) {
          found += 1
          rest = rest[range.upperBound...]
        }
        if found >= times { return true }
        usleep(10_000)
      }
      return false
    }
  }

  /// The text between two lines of the page.
  private static func block(_ language: String, with text: String) throws -> String {
    let page = try Repository.text("docs/clients.md")
    for part in page.split(separator: "```\(language)\n").dropFirst() {
      guard let end = part.firstRange(of: "```") else { continue }
      let block = String(part[..<end.lowerBound])
      if block.contains(text) { return block }
    }
    throw ViewError.notFound
  }

  private static func shell() throws -> [String] {
    ["/bin/sh", "-c", try block("sh", with: "/events?since=")]
  }

  private static func browser() throws -> [String] {
    let run = "follow(process.env.PERCH, process.env.TOKEN, process.env.CHANNEL,"
    let script = try block("js", with: "async function follow")
    return ["node", "-e", script + run + " (event) => console.log(JSON.stringify(event)));"]
  }

  /// Expects that a program follows a view, begins again after the log was lost, and goes on.
  private func follows(_ words: [String], opened: String, again: String, times: Int) throws {
    let secrets = try SigningSecrets(Self.secret)
    let world = try CollectionWorld(gate: Gate(.tokens(Keyring(secrets))))
    defer { world.stop() }
    try world.join("alice", "general", name: "General")
    try world.list(Array(1...5), in: "general")
    let expires = Clock.system.wallMilliseconds() / 1000 + 600
    let token = BearerToken(user: "alice", scopes: .chat, expires: expires).signed(with: secrets)
    let program = try Program(
      words, ["PERCH": "http://127.0.0.1:\(world.server.port)", "TOKEN": token, "CHANNEL": "general"],
      in: world.directory)
    defer { program.stop() }
    #expect(program.wait(for: opened))
    try world.send(6, in: "general", text: "first news")
    #expect(program.wait(for: "first news"))
    #expect(world.waitParked(1))
    // Everything is cleared and comes back in one commit, so that no reader sees the empty state.
    let record = CollectionWorld.channel("general", floor: 0, name: "General", last: nil)
    try world.cache.write { writer in
      try writer.clearAll(withUnsent: false)
      _ = try writer.store([record], of: UserID("alice"), .refresh(.channelChanged))
      try writer.endListing(of: UserID("alice"))
    }
    #expect(program.wait(for: again, times: times))
    let views = world.syncRequests.calls.compactMap { call -> String? in
      if case .opened(let view, true) = call { view.id } else { nil }
    }
    #expect(views.count == 2 && views[0] == views[1])
    try world.list(Array(1...6), in: "general")
    try world.cache.write { try $0.answered(views: [views[1]], in: ChannelURL("general"), failure: nil) }
    try world.send(7, in: "general", text: "later news")
    #expect(program.wait(for: "later news"))
  }

  @Test("B52: the loop in curl and sh, 20 lines, opens, polls, and begins again when it is told 410")
  func inShell() throws {
    let words = try Self.shell()
    let lines = words[2].split(separator: "\n").count { !$0.hasPrefix("#") }
    #expect(lines <= 20)
    try follows(words, opened: "open c", again: "read again", times: 1)
  }

  @Test("B52: the loop for the browser, 20 lines, opens, polls, and begins again when it is told 410")
  func inBrowser() throws {
    let words = try Self.browser()
    #expect(try Self.block("js", with: "async function follow").split(separator: "\n").count <= 20)
    try follows(words, opened: "messages.replaced", again: "messages.replaced", times: 2)
  }
}
