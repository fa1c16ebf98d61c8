import Glibc

/// Decides by `Host`, and by `Origin` if asked to, which requests a route answers.
///
/// It defends against DNS rebinding: a web page lets its own name resolve to this machine, and the browser
/// then takes this service for the page's own server. Only `Host` still carries the page's name. So a rule
/// answers to loopback hosts (`127.0.0.0/8`, `[::1]`, `localhost`) and to the names that the operator gave,
/// with any port, and refuses every other `Host` with a 403, preflights included.
///
///     let rule = HostRule(names: ["demo.test"], advice: "Name the host with --demo-host.")
///     Route(.get, "/demo", operation: "getDemo") { … }.answering(only: rule)
package final class HostRule: Sendable {
  private let names: [String]
  /// Origins allowed beside the service's own; nil where `Origin` is not looked at.
  private let origins: [String]?
  private let advice: String

  /// A rule for loopback hosts and `names`; `advice` tells a refused client which setting to change.
  ///
  /// With `origins`, a request that has an `Origin` is answered only if that is the request's own host or one
  /// of these. A `*` among them is ignored, because it would allow every page.
  package init(names: [String] = [], origins: [String]? = nil, advice: String) {
    self.names = names
    self.origins = origins
    self.advice = advice
  }

  /// Whether a host, given without its port, is a loopback host: in 127.0.0.0/8, `::1` or `localhost`.
  package static func isLoopback(_ host: String) -> Bool { Authority(host: Array(host.utf8)).isLoopback }

  /// Why a request with these headers is refused; nil if it is not.
  func refusal(host: UnsafeRawBufferPointer?, origin: UnsafeRawBufferPointer?) -> Problem? {
    guard let host, let authority = Authority(host),
      authority.isLoopback || names.contains(where: authority.isNamed)
    else {
      return Problem(
        403, "host_not_allowed",
        detail: "Send a Host that is 127.0.0.1, [::1] or localhost, with any port. " + advice)
    }
    guard let origins, let origin, !HostRule.isOwn(origin, of: host),
      !origins.contains(where: { $0 != "*" && $0.utf8.elementsEqual(origin) })
    else { return nil }
    return Problem(
      403, "origin_not_allowed",
      detail: "Pages of other origins are refused here: ask from the service's own page, or send no Origin.")
  }

  /// Whether an origin is `http://` or `https://`, followed by the request's own `Host`.
  private static func isOwn(_ origin: UnsafeRawBufferPointer, of host: UnsafeRawBufferPointer) -> Bool {
    let schemes: [StaticString] = ["http://", "https://"]
    return schemes.contains { scheme in
      let count = scheme.utf8CodeUnitCount
      return origin.count == count + host.count
        && zip(origin, UnsafeBufferPointer(start: scheme.utf8Start, count: count)).allSatisfy { $0 == $1 }
        && zip(origin.dropFirst(count), host).allSatisfy { Authority.lower($0) == Authority.lower($1) }
    }
  }
}
