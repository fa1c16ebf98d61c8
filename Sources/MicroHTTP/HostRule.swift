import Glibc

/// Which requests a route answers, judged by their `Host` and, where asked for, their `Origin`.
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
  /// of these. `*` is not one of them: it allows every page.
  package init(names: [String] = [], origins: [String]? = nil, advice: String) {
    self.names = names
    self.origins = origins
    self.advice = advice
  }

  /// Whether a host without its port is this machine's alone: in 127.0.0.0/8, `::1` or `localhost`.
  package static func isLoopback(_ host: String) -> Bool { Authority(host: Array(host.utf8)).isLoopback }

  /// Why the request is refused; nil where it is not.
  func refusal(of request: Request) -> Problem? {
    guard let host = request.header("Host"), let authority = Authority(host),
      authority.isLoopback || names.contains(where: authority.isNamed)
    else {
      return Problem(
        403, "host_not_allowed",
        detail: "Send a Host that is 127.0.0.1, [::1] or localhost, with any port. " + advice)
    }
    guard let origins, let origin = request.header("Origin"), !HostRule.isOwn(origin, of: host),
      !origins.contains(where: { $0 != "*" && $0.utf8.elementsEqual(origin) })
    else { return nil }
    return Problem(
      403, "origin_not_allowed",
      detail: "Pages of other origins get nothing here: ask from the service's own page, or without Origin.")
  }

  /// Whether an origin is `http://` or `https://` and the request's own `Host`.
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

extension Route {
  /// The same route, which answers only to requests that `rule` lets through.
  package func answering(only rule: HostRule) -> Route {
    var route = self
    route.hostRule = rule
    return route
  }
}

/// The host of a `Host` header, read byte by byte, so that `127.0.0.1.example.org` is not taken for an
/// address.
private struct Authority {
  private let host: [UInt8]

  /// A host without a port; IPv6 without brackets.
  init(host: [UInt8]) { self.host = host.map(Authority.lower) }

  /// Reads `host`, `host:port`, `[v6]` or `[v6]:port`; nil where it is none of these.
  init?(_ header: UnsafeRawBufferPointer) {
    var host = header[...]
    var rest = host[host.endIndex...]
    if host.first == UInt8(ascii: "[") {
      guard let end = host.firstIndex(of: UInt8(ascii: "]")) else { return nil }
      rest = host[(end + 1)...]
      host = host[(host.startIndex + 1)..<end]
      guard host.contains(UInt8(ascii: ":")) else { return nil }
    } else if let colon = host.firstIndex(of: UInt8(ascii: ":")) {
      rest = host[colon...]
      host = host[..<colon]
    }
    let isPort = rest.first == UInt8(ascii: ":") && rest.dropFirst().allSatisfy { (48...57).contains($0) }
    guard rest.isEmpty || isPort, !host.isEmpty else { return nil }
    self.init(host: Array(host))
  }

  static func lower(_ byte: UInt8) -> UInt8 { (65...90).contains(byte) ? byte | 0x20 : byte }

  /// Host names are compared without the case of their letters.
  func isNamed(_ name: String) -> Bool { host.elementsEqual(name.utf8.lazy.map(Authority.lower)) }

  var isLoopback: Bool {
    if isNamed("localhost") || isNamed("::1") { return true }
    let numbers = host.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    return numbers.count == 4 && numbers[0].elementsEqual("127".utf8)
      && numbers.allSatisfy { digits in
        (1...3).contains(digits.count) && digits.allSatisfy { (48...57).contains($0) }
          && digits.reduce(0) { $0 * 10 + Int($1 - 48) } <= 255
      }
  }
}
