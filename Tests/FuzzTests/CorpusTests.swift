import Glibc
import Platform
import Testing

/// Runs the inputs in Corpus/, among them those that once found a fault, through the harnesses of `make
/// fuzz`.
@Suite struct CorpusTests {
  private static let folder =
    #filePath.split(separator: "/").dropLast().map { "/" + $0 }.joined() + "/Corpus/"

  @Test("every input of the corpus is read as promised", arguments: FuzzTarget.all.map(\.name))
  func corpus(name: String) throws {
    let target = try #require(FuzzTarget.all.first { $0.name == name })
    let names = CorpusTests.files(in: CorpusTests.folder + name)
    #expect((12...60).contains(names.count), "\(names.count) inputs: a dozen seeds, and what was found")
    // Some inputs are answered only a second later, at the server's next tick, so all run side by side.
    let findings = Guarded<[String]>([])
    let threads = names.map { file in
      let bytes = CorpusTests.bytes(of: "\(CorpusTests.folder)\(name)/\(file)")
      #expect(bytes.count <= 8192, "\(file) is large: let libFuzzer minimize it")
      return Thread("corpus") {
        do { try bytes.withUnsafeBytes { try target.run($0) } } catch {
          findings.withLock { $0.append("\(name)/\(file): \(error)") }
        }
      }
    }
    for thread in threads { thread.join() }
    #expect(findings.withLock { $0 } == [])
  }

  @Test("every folder of the corpus belongs to a harness")
  func folders() {
    #expect(CorpusTests.files(in: CorpusTests.folder) == FuzzTarget.all.map(\.name).sorted())
  }

  private static func files(in folder: String) -> [String] {
    guard let directory = opendir(folder) else { return [] }
    defer { closedir(directory) }
    var names: [String] = []
    while let entry = readdir(directory) {
      let name = withUnsafeBytes(of: &entry.pointee.d_name) {
        String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
      }
      if !name.hasPrefix(".") { names.append(name) }
    }
    return names.sorted()
  }

  private static func bytes(of path: String) -> [UInt8] {
    guard let file = fopen(path, "re") else { return [] }
    defer { fclose(file) }
    var room = [UInt8](repeating: 0, count: 65_536)
    return Array(room[..<fread(&room, 1, room.count, file)])
  }
}
