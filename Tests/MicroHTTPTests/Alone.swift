import Glibc

/// Runs a suite in a process of its own, so that no other test changes its memory and descriptors.
enum Alone {
  private static let mark = "PERCH_TEST_ALONE"

  /// Whether this is such a process.
  static var isAlone: Bool { getenv(mark) != nil }

  /// Runs the tests that match `filter`; true when they passed.
  static func passes(_ filter: String) -> Bool {
    let words = ["perch-tests", "--testing-library", "swift-testing", "--filter", filter]
    var arguments = words.map { word -> UnsafeMutablePointer<CChar>? in strdup(word) }
    arguments.append(nil)
    var variables: [UnsafeMutablePointer<CChar>?] = []
    var pointer = environ
    while let variable = pointer.pointee {
      variables.append(strdup(variable))
      pointer += 1
    }
    variables.append(strdup("\(mark)=1"))
    variables.append(nil)
    defer { for text in arguments + variables { free(text) } }
    var executable = [CChar](repeating: 0, count: 4096)
    readlink("/proc/self/exe", &executable, 4095)
    var child: pid_t = 0
    guard posix_spawn(&child, &executable, nil, nil, &arguments, &variables) == 0 else { return false }
    var status: Int32 = 0
    waitpid(child, &status, 0)
    return status == 0
  }

  /// Whether a sanitizer is active, which keeps memory of its own.
  static var isSanitized: Bool { dlsym(nil, "__tsan_init") != nil || dlsym(nil, "__asan_init") != nil }

  /// Open descriptors of this process.
  static var descriptors: Int {
    guard let directory = opendir("/proc/self/fd") else { return -1 }
    defer { closedir(directory) }
    var count = 0
    while readdir(directory) != nil { count += 1 }
    return count
  }

  /// Open descriptors once they stayed the same for a fifth of a second: the library closes a socket
  /// shortly after it says that the connection is over.
  static var settledDescriptors: Int {
    var last = descriptors
    var equal = 0
    for _ in 0..<200 where equal < 10 {
      usleep(20_000)
      let now = descriptors
      equal = now == last ? equal + 1 : 0
      last = now
    }
    return last
  }

  /// Anonymous resident memory in bytes, after the allocator has given back its free memory.
  static var anonymousBytes: Int {
    if let trim = dlsym(nil, "malloc_trim") {
      _ = unsafeBitCast(trim, to: (@convention(c) (Int) -> Int32).self)(0)
    }
    guard let file = fopen("/proc/self/status", "r") else { return 0 }
    defer { fclose(file) }
    var line = [CChar](repeating: 0, count: 256)
    while fgets(&line, 256, file) != nil {
      let text = line.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
      if text.hasPrefix("RssAnon:") { return (Int(text.filter(\.isNumber)) ?? 0) * 1024 }
    }
    return 0
  }
}
