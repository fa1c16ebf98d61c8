import Glibc

/// The repository that this test was compiled from.
enum Repository {
  /// Its top directory, with a slash at the end.
  static let root: String = {
    let parts = #filePath.split(separator: "/").dropLast(3)
    return "/" + parts.joined(separator: "/") + "/"
  }()

  /// The text of a file; "" where there is none.
  static func text(_ path: String) -> String {
    guard let file = fopen(root + path, "re") else { return "" }
    defer { fclose(file) }
    var bytes: [UInt8] = []
    var room = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = fread(&room, 1, room.count, file)
      if count == 0 { return String(decoding: bytes, as: UTF8.self) }
      bytes += room[..<count]
    }
  }

  /// The paths of all files below `folder` that end in `suffix`, in order.
  static func files(below folder: String, suffix: String) -> [String] {
    guard let directory = opendir(root + folder) else { return [] }
    defer { closedir(directory) }
    var found: [String] = []
    while let entry = readdir(directory) {
      let name = withUnsafeBytes(of: &entry.pointee.d_name) {
        String(cString: $0.baseAddress!.assumingMemoryBound(to: CChar.self))
      }
      if name.hasPrefix(".") { continue }
      let path = folder + "/" + name
      if Int32(entry.pointee.d_type) == DT_DIR.number {
        found += files(below: path, suffix: suffix)
      } else if name.hasSuffix(suffix) {
        found.append(path)
      }
    }
    return found.sorted()
  }

  /// Every Swift file below Sources.
  static let sources = files(below: "Sources", suffix: ".swift").map { SourceFile(path: $0, text: text($0)) }
  /// Every Swift file below Tests.
  static let tests = files(below: "Tests", suffix: ".swift").map { SourceFile(path: $0, text: text($0)) }
}

extension Int {
  fileprivate var number: Int32 { Int32(self) }
}
