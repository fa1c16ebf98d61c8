/// Sixteen values. A thread always uses the same one and shares it with few threads, so that it seldom waits.
public final class PerThread<Value>: Sendable {
  @usableFromInline let values: [Guarded<Value>]

  /// Makes the values with `make`.
  package init(_ make: () -> sending Value) { values = (0..<16).map { _ in Guarded(make()) } }

  /// This thread's value.
  @inlinable
  public var own: Guarded<Value> { values[currentThreadNumber() % values.count] }

  /// The values of all threads.
  package var all: [Guarded<Value>] { values }
}

@usableFromInline
func currentThreadNumber() -> Int { Thread.currentNumber }
