import CMicroHTTPD
import CMicroHTTPDPatches
import Glibc
import Platform

/// Decides once, when the first server is made, whether the loaded libmicrohttpd has the known memory layout.
///
/// Some of what the server does depends on how version 0.9.75 lays out its memory: `RequestGuard` measures
/// distances in the library's buffer, `QueryArguments` writes to it, `RepeatableAnswer` compares heads in it,
/// `Response.seal` and `SharedResponse` write over a header's value, `ConnectionMemory` makes the pages
/// beside it present. These uses are on if the version is that one and a trial shows the layout: a daemon of
/// the library answers a few requests, good and smuggled ones, over pairs of sockets. The trial also shows
/// whether the library's own error pages can be replaced (`CMicroHTTPDPatches`).
///
/// Otherwise they are all off. The guard then adds up what the library shows through its public interface,
/// and each header is added by itself. If the trial shows that even this cannot tell smuggled requests from
/// good ones, the server does not start.
enum LibraryCheck {
  enum Verdict: Equatable {
    /// The layout is known.
    case known
    /// Only the public interface can be relied on. The text says why.
    case unknown(String)
    /// Requests cannot be judged. The text says why.
    case unusable(String)
  }

  static let knownVersion = "0.9.75"

  static let version = String(cString: MHD_get_version())

  /// The result of the trial, which runs once in the process.
  static let verdict = judge(version: version, LibraryTrial.run(measures: version == knownVersion))

  static func judge(version: String, _ found: LibraryTrial.Findings) -> Verdict {
    guard found.publicGuardJudges else {
      return .unusable("its public interface does not tell smuggled requests from good ones")
    }
    if version != knownVersion { return .unknown("version \(knownVersion) is the one that is known") }
    if !found.measuringGuardJudges { return .unknown("requests do not lie in its buffer as expected") }
    if !found.sendsOverwrittenHeaders {
      return .unknown("it does not send a header value that was written over")
    }
    if !found.refusalsArrive { return .unknown("its own error pages cannot be replaced") }
    return .known
  }

  /// Throws if the library cannot be used. The process's first server logs the decision.
  static func require(_ verdict: Verdict = verdict) throws(ServerError) {
    if case .unusable(let reason) = verdict {
      throw ServerError(detail: "libmicrohttpd \(version) cannot be used: \(reason)")
    }
    _ = told
  }

  private static let told: Void = {
    if case .unknown(let reason) = verdict {
      Log.line(
        .warning, "http_library",
        ["version": .text(version), "layout": "unknown", "reason": .text(reason)])
    } else {
      Log.line(.info, "http_library", ["version": .text(version), "layout": "known"])
    }
  }()
}
