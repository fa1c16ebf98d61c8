import Glibc
import MicroHTTP
import Platform

/// Perch's side of the pairs, on MicroHTTP and SQLite, with the access log on.
enum OurServer {
  static func run(port: UInt16) -> Int32 {
    let end = EndSignal()
    do {
      var configuration = Configuration(listen: ListenAddress(host: "127.0.0.1", port: port))
      configuration.accessLog = open("/dev/null", O_WRONLY | O_CLOEXEC)
      let server = try Server(configuration)
      try server.start(try PageRoutes.routes() + StatementRoutes.routes() + FanOutRoutes.routes())
      end.wait()
      server.shutDown(withinSeconds: 5)
      return 0
    } catch {
      print("\(error)")
      return 1
    }
  }
}
