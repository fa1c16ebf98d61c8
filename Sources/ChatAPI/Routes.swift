import ChatCache
import ChatCollections
import MicroHTTP

/// The parts that the routes work with.
package struct RouteParts: Sendable {
  /// What `/readyz` answers.
  package let status: ServiceStatus
  /// The service's metrics.
  package let metrics: Metrics
  /// The port to the sync worker.
  package let syncRequests: any SyncRequests
  /// Checks webhooks' signatures; nil: no webhook is accepted.
  package let webhookSignature: WebhookSignature?
  /// The cache that answers come from.
  package let cache: Cache
  /// Checks tokens and names callers.
  package let gate: Gate
  /// The open views.
  package let collections: Collections
  /// The operator's choices about sending.
  package let outboxPolicy: OutboxPolicy
  /// The origins that the chat page shows pictures of; nil: there is no chat page.
  package let chatPageFileOrigins: [String]?

  /// Collects the parts.
  package init(
    status: ServiceStatus, metrics: Metrics, cache: Cache, syncRequests: any SyncRequests, gate: Gate,
    webhookSignature: WebhookSignature?, collections: Collections,
    outboxPolicy: OutboxPolicy = OutboxPolicy(), chatPageFileOrigins: [String]? = []
  ) {
    self.chatPageFileOrigins = chatPageFileOrigins
    self.collections = collections
    self.outboxPolicy = outboxPolicy
    self.status = status
    self.metrics = metrics
    self.cache = cache
    self.gate = gate
    self.syncRequests = syncRequests
    self.webhookSignature = webhookSignature
  }
}

/// The contract's operations. Each family is a file that gives its routes.
package enum Routes {
  /// The people whose requests a listening address takes; they decide which routes it has.
  package enum Audience: Sendable {
    /// Clients and operators share the address.
    case everybody
    /// Only clients use the address; operators have their own, `--admin-listen`.
    case clients
    /// Only operators use the address: it is that of `--admin-listen`.
    case operators
  }

  /// The routes for `audience`. Clients and operators share the health checks and the problem types.
  package static func all(_ parts: RouteParts, for audience: Audience = .everybody) -> [Route] {
    switch audience {
    case .everybody: every(parts) + firstPage(parts, hasReference: true)
    case .clients:
      every(parts, hasReference: false).filter { !isOperators($0) } + firstPage(parts, hasReference: false)
    case .operators:
      every(parts).filter { isOperators($0) || isShared($0) } + [ContractRoutes.startPage(hasReference: true)]
    }
  }

  /// Whether an operation is for operators alone. Operations with the scope `admin` on other paths stay with
  /// the clients': the token guards them.
  private static func isOperators(_ route: Route) -> Bool {
    ["/metrics", "/docs", "/docs.js"].contains(route.path) || route.path.hasPrefix("/openapi.")
      || route.path.hasPrefix("/v1/admin/")
  }

  private static func isShared(_ route: Route) -> Bool {
    ["/healthz", "/readyz", "/problems/{code}"].contains(route.path)
  }

  /// The routes of the chat page and its files or, without a chat page, of the start page.
  private static func firstPage(_ parts: RouteParts, hasReference: Bool) -> [Route] {
    guard let origins = parts.chatPageFileOrigins else {
      return [ContractRoutes.startPage(hasReference: hasReference)]
    }
    return ChatPage(fileOrigins: origins, hasReference: hasReference).routes
  }

  private static func every(_ parts: RouteParts, hasReference: Bool = true) -> [Route] {
    let context = RouteContext(cache: parts.cache, syncRequests: parts.syncRequests, gate: parts.gate)
    let views = CollectionContext(route: context, collections: parts.collections)
    let sending = Sending(
      context: context, subscriptions: parts.collections.subscriptions, policy: parts.outboxPolicy)
    return operatorRoutes(parts, hasReference) + ConnectionRoutes.routes(context)
      + ChannelRoutes.routes(context)
      + GapFillRoutes.routes(context) + MessageRoutes.routes(context) + CacheRoutes.routes(context)
      + IntegrityRoute.routes(context) + SendRoutes.routes(sending) + ChangeRoutes.routes(sending)
      + UnsentMessageRoutes.routes(sending) + FileRoute.routes(sending) + OutboxRoutes.routes(sending)
      + UserRoutes.routes(context) + ChannelCollectionRoutes.routes(views)
      + MessageCollectionRoutes.routes(views) + EventRoutes.routes(views)
  }

  /// The routes until the cache is open: health and readiness answer, all others are `starting` (B63).
  package static func starting(_ status: ServiceStatus) -> [Route] { HealthRoutes.routes(status, nil) }

  /// The answer of all other routes until the cache is open (B63).
  package static let notYet = Problem(
    503, "starting", detail: "The service is starting: look at /readyz, and ask again.",
    headers: [("Retry-After", "1")])

  /// The clients' address answers this for an unknown path, if operators have an address of their own.
  package static let notForClients = Problem(
    404, "route_not_found",
    detail: "No operation of this address has this path; the contract is on the operators' address.")

  private static func operatorRoutes(_ parts: RouteParts, _ hasReference: Bool) -> [Route] {
    HealthRoutes.routes(parts.status, parts.syncRequests, parts.cache, parts.webhookSignature)
      + MetricsRoute.routes(parts.metrics)
      + ContractRoutes.routes(hasReference: hasReference)
      + SendbirdWebhookRoute.routes(parts.syncRequests, parts.webhookSignature)
  }
}
