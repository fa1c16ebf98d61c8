/// The settings of a server.
package struct Configuration: Sendable {
  /// Where it listens.
  package var listen: ListenAddress
  /// Threads that read requests and run handlers.
  package var workers = 2
  /// The limits.
  package var limits = Limits()
  /// The value of the `Server` header.
  package var serverName = "perch"
  /// Which browsers' origins may read the answers.
  package var crossOrigin = CrossOrigin()
  /// Certificate and key for TLS; nil is plain HTTP.
  package var tls: CertificateFiles?
  /// The file descriptor that the access log is written to; nil writes none.
  package var accessLog: Int32?
  /// The directory that files of multipart bodies are streamed into.
  package var uploadDirectory = "/tmp"
  /// Treats the loaded libmicrohttpd as one whose memory layout is unknown, whatever `LibraryCheck` finds:
  /// slower, and with the same answers.
  package var distrustsLibrary = false
  /// How many of the parked requests that a change wakes together go on in each worker, before the worker
  /// looks for other requests.
  package var wokenAtOnce = 64
  /// Turns a problem into the response; replaced where a contract has another envelope.
  package var renderProblem: @Sendable (Problem, _ requestID: String) -> Response = { problem, id in
    problem.response(requestID: id)
  }

  /// A server on `listen` with everything else at its default.
  package init(listen: ListenAddress) { self.listen = listen }
}
