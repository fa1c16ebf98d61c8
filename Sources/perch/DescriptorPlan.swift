import Glibc
import MicroHTTP
import Platform

/// How many file descriptors the process may open, and what they are for.
///
/// The database, the requests to the chat server and the spooled uploads come first: their share is kept.
/// Connections get the rest, up to what is configured, and parked requests stay below the connections (B54),
/// so that requests that do not wait are still answered.
struct DescriptorPlan: Equatable {
  /// The numbers that the settings ask for.
  struct Wanted: Equatable {
    /// Threads that read requests and answer.
    var workers: Int
    /// Requests to the chat server at once.
    var upstreamRequests: Int
    /// Connections at once.
    var connections: Int
    /// Parked requests at once.
    var parked: Int
    /// Parked requests of one user at once.
    var parkedPerUser: Int
    /// Connections at once of the operators' address; 0 where there is none.
    var adminConnections = 0
  }

  /// With fewer connections the service does not start.
  static let fewestConnections = 16
  /// The process asks for no more descriptors, whatever the hard limit is: the kernel's own default.
  static let most = 1 << 20

  /// Descriptors the process may have open.
  let limit: Int
  /// Descriptors that are not for clients' connections.
  let reserved: Int
  /// Connections at once.
  let connections: Int
  /// Connections at once of the operators' address.
  let adminConnections: Int
  /// Parked requests at once.
  let parked: Int
  /// Parked requests of one user.
  let parkedPerUser: Int

  /// Shares `limit` descriptors, of which `open` are open already.
  init(limit: Int, open: Int, _ wanted: Wanted) {
    self.limit = limit
    // Each reading thread has a connection with two files, the database and its log. The rest: the writer,
    // the checkpointer, what SQLite sorts in files, the shared index.
    let database = 2 * (wanted.workers + 12) + 8
    // Sockets, name lookups, and what wakes the transfers.
    let upstream = wanted.upstreamRequests + 8
    // The operators' address has one worker, and its connections.
    adminConnections = min(wanted.adminConnections, max(limit / 16, 4))
    let adminServer = Server.descriptors(workers: 1, connections: adminConnections)
    let admin = adminConnections > 0 ? adminServer + adminConnections : 0
    // Spooled uploads, secrets that are read again, the process's own figures.
    let files = min(max(limit / 32, 8), 256)
    let others = open + database + upstream + admin + files
    reserved =
      others
      + Server.descriptors(
        workers: wanted.workers, connections: min(wanted.connections, max(0, limit - others)))
    connections = min(wanted.connections, max(0, limit - reserved))
    let isWhole = connections == wanted.connections
    parked = min(wanted.parked, isWhole ? connections : connections * 5 / 6)
    parkedPerUser = min(wanted.parkedPerUser, isWhole ? connections : connections / 2)
  }

  /// Whether connections get as many as are wanted.
  func isWhole(_ wanted: Wanted) -> Bool { connections == wanted.connections }

  /// Raises the process's limit as far as it may go, shares the descriptors, and logs the plan.
  static func make(_ wanted: Wanted) throws -> DescriptorPlan {
    let plan = DescriptorPlan(limit: raisedLimit(), open: openNow(), wanted)
    guard plan.connections >= min(fewestConnections, wanted.connections) else {
      throw CommandFailure(
        description: "the process may open \(plan.limit) files, and \(plan.reserved + fewestConnections) are "
          + "needed at least: raise the limit (ulimit -n, LimitNOFILE)")
    }
    Log.line(
      plan.isWhole(wanted) ? .info : .warning, "descriptors",
      [
        "limit": .number(Int64(plan.limit)), "reserved": .number(Int64(plan.reserved)),
        "connections": .number(Int64(plan.connections)),
        "connections_wanted": .number(Int64(wanted.connections)), "parked": .number(Int64(plan.parked)),
        "parked_per_user": .number(Int64(plan.parkedPerUser)),
      ])
    return plan
  }

  /// Raises the limit to the hard one, and returns it.
  private static func raisedLimit() -> Int {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return 1024 }
    let before = limit.rlim_cur
    limit.rlim_cur = max(before, min(limit.rlim_max, rlim_t(most)))
    if limit.rlim_cur > before, setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) != 0 {
      limit.rlim_cur = before
    }
    return Int(min(limit.rlim_cur, rlim_t(most)))
  }

  /// Descriptors that are open now.
  private static func openNow() -> Int {
    guard let directory = opendir("/proc/self/fd") else { return 16 }
    defer { closedir(directory) }
    var count = 0
    while readdir(directory) != nil { count += 1 }
    // The two dots, and the directory's own descriptor.
    return count - 3
  }
}
