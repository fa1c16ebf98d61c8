/// How long a file may take on its way to the chat server.
package struct FileTime: Sendable {
  /// The time for a file of any size, in milliseconds.
  package var leastMilliseconds = 30_000
  /// The file's bytes for each second beyond that: a slower transfer is given up.
  package var bytesPerSecond: Int64 = 16 << 10
  /// How long a transfer may make no progress, in milliseconds.
  package var stallMilliseconds = 30_000

  /// The whole time for this file, in milliseconds.
  func milliseconds(of file: OutgoingFile) -> Int {
    leastMilliseconds + Int(file.size * 1000 / bytesPerSecond)
  }
}
