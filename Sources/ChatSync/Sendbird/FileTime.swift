/// How long a file may take on its way to the chat server.
enum FileTime {
  /// Whatever its size, in milliseconds.
  static let leastMilliseconds = 30_000
  /// Bytes for each further second: a line that is slower than this is given up.
  static let bytesPerSecond: Int64 = 16 << 10
  /// How long nothing may move, in milliseconds.
  static let stallMilliseconds = 30_000

  /// All together, in milliseconds.
  static func milliseconds(of file: OutgoingFile) -> Int {
    leastMilliseconds + Int(file.size * 1000 / bytesPerSecond)
  }
}
