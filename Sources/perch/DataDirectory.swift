import Platform

/// The directory that holds all of a service's state.
enum DataDirectory {
  /// Makes the directory if it is missing, for its owner alone, and checks that it can be written.
  static func prepare(_ path: String) throws {
    do throws(PrivateDirectory.Refusal) { try PrivateDirectory.prepare(path) } catch {
      throw CommandFailure(description: error.description)
    }
  }
}
