import ChatCache
import Glibc

extension Command {
  /// `perch check`
  static let check = Command(
    name: "check", summary: "checks a data directory's cache against itself; exit code 0 only if it is sound",
    settings: [Setting("data", .path, default: "data", "the directory; a service may be using it")]
  ) { values in
    let directory = values.text("data")
    let report: CheckReport
    do { report = try Cache.inspect(directory: directory) } catch let error as CacheError {
      throw CommandFailure(description: error.description)
    }
    var text = ""
    for finding in report.findings {
      let subject = finding.channel.map { "channel \($0.text)" } ?? "the cache"
      text += "\(finding.fault.rawValue) \(subject): \(finding.detail)\n"
    }
    if report.more > 0 { text += "and \(report.more) more\n" }
    text += "\(report.channels) channels looked at in \(report.milliseconds) ms: "
    text += report.isSound ? "sound\n" : "\(report.findings.count + report.more) findings\n"
    CommandLineCall.write(text, to: STDOUT_FILENO)
    guard !report.isSound else { return 0 }
    let isDamaged = report.findings.contains { $0.fault == .file }
    CommandLineCall.write(
      isDamaged
        ? "The file is damaged. Keep a copy of \(directory) for what is unsent in it; start on another.\n"
        : "Nothing was changed: GET /v1/cache/integrity of the running service puts channels right.\n",
      to: STDERR_FILENO)
    return 1
  }
}
