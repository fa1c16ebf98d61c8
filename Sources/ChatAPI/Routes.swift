import ChatCache
import ChatCollections
import MicroHTTP

/// What the routes are made of.
package struct RouteParts: Sendable {
  /// How the service is.
  package let status: ServiceStatus
  /// What it counts.
  package let metrics: Metrics
  /// Who keeps the cache in step.
  package let interest: any Interest
  /// What webhooks are signed with; nil: none is accepted.
  package let webhookSignature: WebhookSignature?
  /// The data.
  package let cache: Cache
  /// Who may ask.
  package let gate: Gate
  /// The open views.
  package let collections: Collections

  /// All parts together.
  package init(
    status: ServiceStatus, metrics: Metrics, cache: Cache, interest: any Interest, gate: Gate,
    webhookSignature: WebhookSignature?, collections: Collections
  ) {
    self.collections = collections
    self.status = status
    self.metrics = metrics
    self.cache = cache
    self.gate = gate
    self.interest = interest
    self.webhookSignature = webhookSignature
  }
}

/// The contract's operations. Each family is a file that gives its routes.
package enum Routes {
  /// Every route there is.
  package static func all(_ parts: RouteParts) -> [Route] {
    let reading = Reading(cache: parts.cache, interest: parts.interest, gate: parts.gate)
    let viewing = Viewing(reading: reading, collections: parts.collections)
    return operatorRoutes(parts) + ConnectionRoutes.routes(reading) + ChannelRoutes.routes(reading)
      + GapFillRoutes.routes(reading) + MessageRoutes.routes(reading) + CacheRoutes.routes(reading)
      + IntegrityRoute.routes(reading)
      + UserRoutes.routes(reading) + ChannelCollectionRoutes.routes(viewing)
      + MessageCollectionRoutes.routes(viewing) + EventRoutes.routes(viewing)
  }

  /// What is answered while there is no cache yet: how the service is, and for the rest `starting` (B63).
  package static func starting(_ status: ServiceStatus) -> [Route] { HealthRoutes.routes(status, nil) }

  /// What everything else is answered with until the cache is open (B63).
  package static let notYet = Problem(
    503, "starting", detail: "The service is starting: look at /readyz, and ask again.",
    headers: [("Retry-After", "1")])

  private static func operatorRoutes(_ parts: RouteParts) -> [Route] {
    HealthRoutes.routes(parts.status, parts.interest) + MetricsRoute.routes(parts.metrics)
      + ContractRoutes.routes()
      + SendbirdWebhookRoute.routes(parts.interest, parts.webhookSignature)
  }
}
