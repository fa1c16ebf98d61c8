import Glibc

/// The factor by which tests wait longer than usual: `PERCH_PATIENCE`, for programs that a sanitizer slows
/// down. The times that rules promise are measured without it.
package let patience: Double = getenv("PERCH_PATIENCE").flatMap { Double(String(cString: $0)) } ?? 1
