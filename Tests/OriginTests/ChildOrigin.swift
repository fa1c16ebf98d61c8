import Glibc
import TestFolders
import TestSupport
import Testing

/// `perch origin` as a process of its own, with its log in a file. It is killed at the latest when this value
/// is freed.
final class ChildOrigin {
  private let process: ChildProcess
  private let scratch: Scratch
  private var logPath: String { scratch.path + "/log" }
  let port: UInt16

  /// Starts the program that was built beside the tests.
  init(_ words: [String], logIn scratch: Scratch) throws {
    self.scratch = scratch
    process = try ChildProcess(
      "perch", ["origin", "--listen", "127.0.0.1:0"] + words, log: scratch.path + "/log")
    var line: [UInt8] = []
    var byte: UInt8 = 0
    while Glibc.read(process.output, &byte, 1) == 1, byte != 10 { line.append(byte) }
    let text = String(decoding: line, as: UTF8.self)
    port = try #require(text.split(separator: ":").last.flatMap { UInt16($0) }, "it said: \(text)")
  }

  /// Sends a signal and waits for the process's end.
  func end(_ signal: Int32) { process.end(signal) }

  /// The log so far.
  var log: String {
    guard let file = fopen(logPath, "re") else { return "" }
    defer { fclose(file) }
    var bytes = [UInt8](repeating: 0, count: 4 << 20)
    let count = fread(&bytes, 1, bytes.count, file)
    return String(decoding: bytes[..<count], as: UTF8.self)
  }
}

/// A directory that is removed when this value is freed.
final class Scratch {
  let path: String

  init() throws {
    path = TestFolder.make("origin")
  }

  /// The names in it.
  var names: [String] { Scratch.names(path) }

  static func names(_ path: String) -> [String] {
    guard let directory = opendir(path) else { return [] }
    defer { closedir(directory) }
    var names: [String] = []
    while let entry = readdir(directory) {
      let name = withUnsafeBytes(of: &entry.pointee.d_name) {
        String(cString: $0.baseAddress!.assumingMemoryBound(to: CChar.self))
      }
      if name != ".", name != ".." { names.append(name) }
    }
    return names
  }

  deinit {
    for name in names { unlink(path + "/" + name) }
    rmdir(path)
  }
}
