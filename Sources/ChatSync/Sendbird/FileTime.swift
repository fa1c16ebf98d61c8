/// How long a file may take on its way to the chat server.
package struct FileTime: Sendable {
  /// Whatever its size, in milliseconds.
  package var leastMilliseconds = 30_000
  /// Bytes for each further second: a line that is slower than this is given up.
  package var bytesPerSecond: Int64 = 16 << 10
  /// How long nothing may move, in milliseconds.
  package var stallMilliseconds = 30_000

  /// All together, in milliseconds.
  func milliseconds(of file: OutgoingFile) -> Int {
    leastMilliseconds + Int(file.size * 1000 / bytesPerSecond)
  }
}
