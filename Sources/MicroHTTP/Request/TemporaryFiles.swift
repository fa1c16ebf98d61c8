import Glibc

/// Streams each part with a file name into a file of its own. The file is removed with the request unless a
/// handler renames it.
package final class TemporaryFiles: FormIntake {
  private let directory: String
  private var file: Int32 = -1
  private var paths: [String] = []

  /// Files in `directory`.
  package init(in directory: String) { self.directory = directory }

  deinit {
    if file >= 0 { close(file) }
    for path in paths { unlink(path) }
  }

  /// A part with a file name is a file.
  package func begin(_ part: PartHead) throws(Problem) -> Bool {
    guard part.fileName != nil else { return false }
    var template = Array("\(directory)/upload-XXXXXX".utf8CString)
    file = mkstemp(&template)
    guard file >= 0 else { throw .uploadNotStored }
    _ = fcntl(file, F_SETFD, FD_CLOEXEC)
    paths.append(template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) })
    return true
  }

  /// See `FormIntake`.
  package func write(_ bytes: UnsafeRawBufferPointer) throws(Problem) {
    var rest = bytes
    while !rest.isEmpty {
      let count = Glibc.write(file, rest.baseAddress, rest.count)
      guard count > 0 else { throw .uploadNotStored }
      rest = UnsafeRawBufferPointer(rebasing: rest[count...])
    }
  }

  /// See `FormIntake`.
  package func end() throws(Problem) -> String? {
    close(file)
    file = -1
    return paths.last
  }
}

extension Problem {
  /// The disk did not take a file.
  package static var uploadNotStored: Problem {
    Problem(507, "upload_not_stored", detail: "the server cannot store the file; try again later")
  }
}
