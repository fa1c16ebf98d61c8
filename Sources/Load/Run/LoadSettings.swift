/// The settings of a load: the sizes, the rates and the servers.
package struct LoadSettings {
  /// The users, channels and views.
  package let plan: LoadPlan
  /// Messages a second. Every second one is sent through Perch, the others at the chat server.
  package var messagesPerSecond = 10.0
  /// Messages a second that are sent through Perch into a small channel beside the others.
  package var besidePerSecond = 0.0
  /// Pages of messages a second.
  package var pagesPerSecond = 10.0
  /// How long messages are sent.
  package var seconds = 60
  /// For how long messages are sent before that, which is not measured.
  package var warmUp = 0
  /// Perch.
  package let service: Host
  /// The header lines of a user's requests to Perch.
  package let headers: (_ userID: String) -> [String]
  /// The chat server.
  package let server: Host
  /// The header lines of requests to the chat server.
  package let serverHeaders: [String]
  /// The server and path of Perch's metrics.
  package let metrics: (host: Host, path: String)

  /// A load of the usual length and rates.
  package init(
    _ plan: LoadPlan, service: Host, headers: @escaping (_ userID: String) -> [String], server: Host,
    serverHeaders: [String], metrics: (host: Host, path: String)
  ) {
    self.plan = plan
    self.service = service
    self.headers = headers
    self.server = server
    self.serverHeaders = serverHeaders
    self.metrics = metrics
  }
}

/// Why a load could not begin.
package struct LoadFailure: Error, CustomStringConvertible {
  /// What went wrong, and what to do.
  package let description: String
}
