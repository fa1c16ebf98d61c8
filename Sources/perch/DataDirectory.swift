import Glibc

/// The directory that holds all of a service's state.
enum DataDirectory {
  /// Makes it where it is missing, for its owner alone, and checks that it can be written.
  static func prepare(_ path: String) throws {
    if mkdir(path, 0o700) != 0, errno != EEXIST {
      throw CommandFailure(
        description: "cannot make the data directory \(path): \(String(cString: strerror(errno)))")
    }
    guard access(path, R_OK | W_OK | X_OK) == 0 else {
      throw CommandFailure(
        description: "cannot write in the data directory \(path): \(String(cString: strerror(errno)))")
    }
  }
}
