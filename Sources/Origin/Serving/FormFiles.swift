import MicroHTTP

/// The files of a form on their way in. A fault may cut the connection after some bytes of them.
final class FormFiles: FormIntake {
  private let files: TemporaryFiles
  private let mostBytes: Int64?
  private unowned let request: Request  // it has this intake until its answer was sent
  private var bytes: Int64 = 0

  /// Files in `folder`; the connection is cut after `mostBytes`.
  init(in folder: String, of request: Request, cutAfter mostBytes: Int64?) {
    files = TemporaryFiles(in: folder)
    self.request = request
    self.mostBytes = mostBytes
  }

  func begin(_ part: PartHead) throws(Problem) -> Bool { try files.begin(part) }

  func write(_ piece: UnsafeRawBufferPointer) throws(Problem) {
    bytes += Int64(piece.count)
    try cutIfDue()
    try files.write(piece)
  }

  func end() throws(Problem) -> String? {
    // A file that is smaller than `mostBytes` is cut at its end.
    bytes = .max
    try cutIfDue()
    return try files.end()
  }

  private func cutIfDue() throws(Problem) {
    guard let mostBytes, bytes >= mostBytes else { return }
    request.cut()
    throw Problem(400, "cut", detail: "The connection was cut on purpose.")
  }
}
