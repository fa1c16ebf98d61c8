/// What the server keeps with a connection, which the layers below do not look at.
extension ClientConnection {
  /// The worker that has it.
  var worker: Worker { unsafeDowncast(owner, to: Worker.self) }

  /// What is being answered on it; touched by the connection's worker thread alone.
  var request: Unmanaged<Request>? {
    get { requestPointer.map { Unmanaged.fromOpaque($0) } }
    set { requestPointer = newValue?.toOpaque() }
  }
}
