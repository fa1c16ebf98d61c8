import Platform

/// A route as the server keeps it.
final class Endpoint: Sendable {
  let route: Route
  let parameterNames: [String]
  /// `"route":"…","operation":"…"`, ready for the access log.
  let logged: [UInt8]

  init(_ route: Route, parameterNames: [String]) {
    self.route = route
    self.parameterNames = parameterNames
    var logged = ByteBuffer(capacity: 128)
    logged.append("\"route\":")
    logged.append(quoted: route.path)
    logged.append(",\"operation\":")
    logged.append(quoted: route.operation)
    self.logged = logged.array
  }
}
