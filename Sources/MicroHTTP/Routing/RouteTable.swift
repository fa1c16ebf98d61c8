/// What is served: the routes, and what is answered where none is.
final class RouteTable: Sendable {
  let router: Router
  let otherwise: Problem

  init(_ routes: [Route], otherwise: Problem) {
    router = Router(routes)
    self.otherwise = otherwise
  }
}
