/// The measurements of one second of a load.
package struct Second: Sendable {
  /// Sends, from the moment that they were due until the answer.
  package var accepted = Samples()
  /// The same in the small channel beside the others.
  package var beside = Samples()
  /// Messages sent through Perch, from the moment that they were due until a parked poll told another member.
  package var delivered = Samples()
  /// The same for messages that were sent at the chat server.
  package var deliveredFromServer = Samples()
  /// Pages of messages.
  package var pages = Samples()
  /// The service's memory, processor time and cache at the second's end; nil: `/metrics` could not be read.
  package var machine: Machine?

  /// Nothing measured yet.
  package init() {}
}

/// A service's memory, processor time and cache, as its `/metrics` tell them.
package struct Machine: Sendable {
  /// Memory without pages of files, in bytes.
  package let memoryBytes: Double
  /// The processor time since the service's start, in ms.
  package let processorMilliseconds: Double
  /// The bytes of the cache.
  package let cacheBytes: Double
  /// Clients' writes since the service's start, and how many of them were durable within 20 ms.
  package let writes: (all: Double, within20: Double)

  /// Reads the text of `/metrics`; nil: it lacks one of the values.
  package init?(metrics text: String) {
    let lines = text.split(separator: "\n")
    let sane = 0...1e15
    func value(_ name: String) -> Double? {
      let line = lines.first { $0.hasPrefix(name + " ") }
      return line.flatMap { Double($0.dropFirst(name.count + 1)) }.flatMap { sane.contains($0) ? $0 : nil }
    }
    guard let memory = value("perch_process_own_memory_bytes"),
      let processor = value("perch_process_cpu_milliseconds_total"),
      let cache = value("perch_cache_used_bytes"), let writes = value("perch_write_seconds_count"),
      let within20 = value("perch_write_seconds_bucket{le=\"0.02\"}")
    else { return nil }
    (memoryBytes, processorMilliseconds, cacheBytes) = (memory, processor, cache)
    self.writes = (writes, within20)
  }
}
