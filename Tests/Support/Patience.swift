import Glibc

/// How much longer than usual tests wait for what must happen: `PERCH_PATIENCE`, for programs that a
/// sanitizer slows down. What must happen in time by a rule is measured without it.
package let patience: Double = getenv("PERCH_PATIENCE").flatMap { Double(String(cString: $0)) } ?? 1
