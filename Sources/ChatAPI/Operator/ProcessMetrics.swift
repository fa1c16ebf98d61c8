import Glibc

/// The process's metrics. Memory and descriptors have the names that Prometheus' own libraries use.
package enum ProcessMetrics {
  /// Writes processor time, memory and descriptors.
  package static func write(to text: inout MetricsText) {
    var usage = rusage()
    getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
    let milliseconds =
      (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000
      + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000
    text.metric("perch_process_cpu_milliseconds_total", .counter, "Processor time used.", Int64(milliseconds))
    if let pages = memoryPages(), pages.count >= 3 {
      let size = Int64(sysconf(Int32(_SC_PAGESIZE)))
      text.metric("process_resident_memory_bytes", .gauge, "Resident memory.", pages[1] * size)
      text.metric(
        "perch_process_own_memory_bytes", .gauge, "Resident memory without pages of files.",
        (pages[1] - pages[2]) * size)
    }
    if let count = openDescriptors() {
      text.metric("process_open_fds", .gauge, "Open file descriptors.", Int64(count))
    }
  }

  /// The numbers of pages: of the address space, resident ones, and of these the pages of files.
  private static func memoryPages() -> [Int64]? {
    guard let file = fopen("/proc/self/statm", "re") else { return nil }
    defer { fclose(file) }
    var line = [CChar](repeating: 0, count: 128)
    guard fgets(&line, Int32(line.count), file) != nil else { return nil }
    let text = line.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
    return text.split(separator: " ").compactMap { Int64($0) }
  }

  private static func openDescriptors() -> Int? {
    guard let directory = opendir("/proc/self/fd") else { return nil }
    defer { closedir(directory) }
    var count = 0
    while readdir(directory) != nil { count += 1 }
    // The two dots, and the directory's own descriptor.
    return count - 3
  }
}
