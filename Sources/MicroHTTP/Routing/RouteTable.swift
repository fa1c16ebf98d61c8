/// The routes that are served, and the problem for requests that no route takes.
final class RouteTable: Sendable {
  let router: Router
  let otherwise: Problem

  init(_ routes: [Route], otherwise: Problem) {
    router = Router(routes)
    self.otherwise = otherwise
  }
}
