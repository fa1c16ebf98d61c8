import ChatModel

/// One fault that the self-check found (B64).
package struct Finding: Sendable, Hashable {
  /// The kinds of faults, by the contract's names.
  package enum Fault: String, Sendable, CaseIterable {
    /// SQLite's integrity check reports damage of the file.
    case file = "file_damaged"
    /// SQLite's integrity check reports rows that break a column's constraint.
    case rows = "rows_invalid"
    /// The entries of an index do not match its table.
    case index = "index_damaged"
    /// Rows name a channel or user that has no row.
    case orphans = "rows_orphaned"
    /// A row of the event log cannot be read.
    case event = "event_unreadable"
    /// An unsent message or change cannot be read, or its request is not remembered.
    case unsent = "unsent_unreadable"
    /// The channel's own row, its members or its metadata cannot be read.
    case channel = "channel_unreadable"
    /// The segments do not tile the channel's line.
    case coverage = "coverage_broken"
    /// A message's row cannot be read, or contradicts other rows.
    case message = "message_unreadable"
    /// The channel's counts are not those of its rows.
    case counts = "counts_wrong"
    /// The channel's columns of its last message are not valid.
    case lastMessage = "last_message_wrong"
    /// A membership's sort keys or counts do not agree with the channel.
    case listPosition = "list_place_wrong"
    /// A row has a version that the log never gave.
    case version = "version_unknown"
  }

  /// The kind of fault.
  package let fault: Fault
  /// The channel at fault; nil if the fault is of no single channel.
  package let channel: ChannelURL?
  /// A description for the operator.
  package let detail: String
  /// Whether the fault is repaired.
  package internal(set) var isHealed = false

  init(_ fault: Fault, channel: ChannelURL? = nil, _ detail: String) {
    self.fault = fault
    self.channel = channel
    self.detail = detail
  }

  /// The same finding, repaired.
  var healed: Finding {
    var finding = self
    finding.isHealed = true
    return finding
  }
}

/// The result of a self-check (B64).
package struct CheckReport: Sendable, Equatable {
  /// The most findings that are listed; more are only counted.
  package static let listedFindings = 200

  /// The listed findings.
  package private(set) var findings: [Finding] = []
  /// The number of findings that are not listed.
  package private(set) var more = 0
  /// The number of unlisted findings that are not repaired.
  private var moreUnhealed = 0
  /// The number of checked channels.
  package internal(set) var channels = 0
  /// When it began, ms.
  package let startedAt: Int64
  /// How long it took, ms.
  package internal(set) var milliseconds: Int64 = 0
  /// How long its longest snapshot of the database was held, ms. Meanwhile the write-ahead log cannot begin
  /// anew.
  package internal(set) var longestSnapshot: Int64 = 0

  init(startedAt: Int64) { self.startedAt = startedAt }

  /// Whether nothing was found.
  package var isSound: Bool { findings.isEmpty && more == 0 }
  /// Whether every finding is repaired.
  package var isWell: Bool { moreUnhealed == 0 && findings.allSatisfy(\.isHealed) }

  mutating func add(_ found: [Finding]) {
    for finding in found {
      // Each read of a damaged file finds the damage again: it is listed once.
      if finding.fault == .file, findings.contains(finding) { continue }
      if findings.count < CheckReport.listedFindings {
        findings.append(finding)
      } else {
        more += 1
        if !finding.isHealed { moreUnhealed += 1 }
      }
    }
  }
}
