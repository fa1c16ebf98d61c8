/// The fields of a connection that only the server uses, with their types.
extension ClientConnection {
  /// The worker that serves the connection.
  var worker: Worker { unsafeDowncast(owner, to: Worker.self) }

  /// The request that the server is reading or answering on this connection; touched by the connection's
  /// worker thread alone.
  var request: Unmanaged<Request>? {
    get { requestPointer.map { Unmanaged.fromOpaque($0) } }
    set { requestPointer = newValue?.toOpaque() }
  }
}
