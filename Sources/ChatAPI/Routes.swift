import MicroHTTP

/// What the routes are made of.
package struct RouteParts: Sendable {
  /// How the service is.
  package let status: ServiceStatus
  /// What it counts.
  package let metrics: Metrics

  /// All parts together.
  package init(status: ServiceStatus, metrics: Metrics) {
    self.status = status
    self.metrics = metrics
  }
}

/// The contract's operations. Each family is a file that gives its routes.
package enum Routes {
  /// Every route there is.
  package static func all(_ parts: RouteParts) -> [Route] {
    HealthRoutes.routes(parts.status) + MetricsRoute.routes(parts.metrics) + ContractRoutes.routes()
  }
}
