import ChatModel

/// Something that the self-check found amiss (B64).
package struct Finding: Sendable, Hashable {
  /// The kinds of faults, by the contract's names.
  package enum Fault: String, Sendable, CaseIterable {
    /// SQLite's own check complains about the file itself.
    case file = "file_damaged"
    /// SQLite's own check complains about rows: a column holds what it may not.
    case rows = "rows_invalid"
    /// An index disagrees with its table.
    case index = "index_damaged"
    /// Rows belong to a channel or user that is not there.
    case orphans = "rows_orphaned"
    /// The log has a row that nobody can read.
    case event = "event_unreadable"
    /// An unsent message or change cannot be read, or its request is not remembered.
    case unsent = "unsent_unreadable"
    /// The channel's own row, or its members or metadata, cannot be answered.
    case channel = "channel_unreadable"
    /// The segments do not tile the channel's line.
    case coverage = "coverage_broken"
    /// A message's row cannot be answered, or contradicts others.
    case message = "message_unreadable"
    /// The channel's counts are not those of its rows.
    case counts = "counts_wrong"
    /// The channel's last message is not one.
    case lastMessage = "last_message_wrong"
    /// A member's list position or counts do not follow from the channel.
    case listPosition = "list_place_wrong"
    /// Something carries a number that the log never gave.
    case version = "version_unknown"
  }

  /// What is amiss.
  package let fault: Fault
  /// In which channel, where it is one's.
  package let channel: ChannelURL?
  /// What exactly, in words for the operator.
  package let detail: String
  /// Whether it is put right.
  package internal(set) var isHealed = false

  init(_ fault: Fault, channel: ChannelURL? = nil, _ detail: String) {
    self.fault = fault
    self.channel = channel
    self.detail = detail
  }

  /// The same, put right.
  var healed: Finding {
    var finding = self
    finding.isHealed = true
    return finding
  }
}

/// What a self-check found (B64).
package struct CheckReport: Sendable, Equatable {
  /// Findings that are listed at most; the others are counted.
  package static let listedFindings = 200

  /// What was found, as far as it is listed.
  package private(set) var findings: [Finding] = []
  /// How many more there are.
  package private(set) var more = 0
  /// How many of those not listed are not put right.
  private var moreUnhealed = 0
  /// How many channels were looked at.
  package internal(set) var channels = 0
  /// When it began, ms.
  package let startedAt: Int64
  /// How long it took, ms.
  package internal(set) var milliseconds: Int64 = 0

  init(startedAt: Int64) { self.startedAt = startedAt }

  /// Whether nothing was amiss.
  package var isSound: Bool { findings.isEmpty && more == 0 }
  /// Whether nothing is amiss any more.
  package var isWell: Bool { moreUnhealed == 0 && findings.allSatisfy(\.isHealed) }

  mutating func add(_ found: [Finding]) {
    for finding in found {
      // The file's own damage shows wherever it is read: once is enough.
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
