/// The fields of a connection that only the server uses, with their types.
extension ClientConnection {
  /// The daemon that has the connection.
  var daemon: Daemon { unsafeDowncast(owner, to: Daemon.self) }

  /// The worker that serves the connection.
  var worker: Worker { daemon.worker }

  /// The request that the server is reading or answering on this connection; touched by the connection's
  /// worker thread alone.
  var request: Unmanaged<Request>? {
    get { requestPointer.map { Unmanaged.fromOpaque($0) } }
    set { requestPointer = newValue?.toOpaque() }
  }
}
