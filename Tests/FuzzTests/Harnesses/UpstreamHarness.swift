import ChatCache
import ChatModel
import JSON
import Platform

@testable import ChatSync

/// An answer of the upstream, or its webhook: the objects made of it must be JSON, and a wait must be
/// bounded.
///
/// The first byte selects the kind of answer.
enum UpstreamHarness {
  static func run(_ input: UnsafeRawBufferPointer) throws {
    guard let kind = input.first else { return }
    let body = UnsafeRawBufferPointer(rebasing: input.dropFirst())
    switch kind % 6 {
    case 0: try read(body) { try message($0) }
    case 1: try read(body) { try channel($0, isOwnView: true) }
    case 2: try read(body) { try channel($0, isOwnView: false) }
    case 3:
      try read(body) { if let member = ChannelReading.member($0) { try object(member.body, "a member") } }
    case 4: try envelope(body)
    default: try webhook(body)
    }
  }

  private static func read(_ body: UnsafeRawBufferPointer, _ reading: (JSONValue) throws -> Void) throws {
    do {
      try JSONParser().parse(body, reading)
    } catch is JSONError {
    } catch is Unreadable {}
  }

  private static func message(_ json: JSONValue) throws {
    let record = try MessageReading.record(json, in: ChannelURL("general"))
    try object(record.body, "a message")
    for part in [record.reactions, record.metaarray, record.threadInfo, record.parent] {
      if let part { try value(part, "a part of a message") }
    }
    try check(record.createdAt >= 0, "a message before 1970")
  }

  private static func channel(_ json: JSONValue, isOwnView: Bool) throws {
    let record = try ChannelReading.record(json, isOwnView: isOwnView)
    try object(record.body, "a channel")
    for member in record.members ?? [] { try object(member.body, "a member") }
    if let inviter = record.membership?.inviter { try value(inviter, "an inviter") }
    try check((record.membership != nil) == isOwnView, "a membership of nobody")
  }

  /// The first line is the status and the waiting headers, the rest the body.
  private static func envelope(_ input: UnsafeRawBufferPointer) throws {
    let line = input.prefix { $0 != 0x0A }
    let words = String(decoding: line, as: UTF8.self).split(separator: "|", omittingEmptySubsequences: false)
    var headers = HTTPResponse.Headers()
    headers.retryAfter = words.count > 1 ? String(words[1]) : nil
    headers.rateReset = words.count > 2 ? String(words[2]) : nil
    var body = ByteBuffer()
    body.append(UnsafeRawBufferPointer(rebasing: input.dropFirst(line.count + 1)))
    let response = HTTPResponse(status: words.first.flatMap { Int($0) } ?? 200, headers: headers, body: body)
    do {
      try Envelope.open(response, JSONParser(), now: 1_700_000_000_000) { _ in }
    } catch {
      if case .rateLimited(let wait) = error {
        try check((0...Envelope.longestWait).contains(wait), "a wait of \(wait) ms")
      }
    }
  }

  private static func webhook(_ body: UnsafeRawBufferPointer) throws {
    do {
      for note in try Webhook.notes(body) {
        try check(!note.channel.text.isEmpty, "a note of no channel")
        try check(note.kind != .message || note.messageID != 0, "a message without an id")
      }
    } catch is Webhook.Fault {}
  }

  private static func object(_ fields: [UInt8], _ name: String) throws {
    try value([UInt8(ascii: "{")] + fields + [UInt8(ascii: "}")], name)
  }

  private static func value(_ json: [UInt8], _ name: String) throws {
    do { try json.withUnsafeBytes { try JSONParser().parse($0) { _ in } } } catch {
      throw FuzzFinding("\(name) is written as no JSON: \(String(decoding: json, as: UTF8.self))")
    }
  }
}
