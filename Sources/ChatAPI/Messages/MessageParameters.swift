import ChatCache
import ChatModel
import MicroHTTP

/// The query of a request for a page of messages (B12), parsed.
struct MessageParameters {
  /// The page's anchor, size and filter.
  let query: MessagePageQuery
  /// The names of two given parameters that exclude one another; nil if there are none.
  private let clash: (first: StaticString, second: StaticString)?

  init(_ request: Request) throws {
    var parameters = Parameters(request)
    let isAround = parameters.isGiven("around")
    clash =
      switch (parameters.isGiven("before"), parameters.isGiven("after"), isAround) {
      case (true, true, _): ("before", "after")
      case (true, false, true): ("before", "around")
      case (false, true, true): ("after", "around")
      default: nil
      }
    var page = MessagePageQuery()
    page.limit =
      parameters.number("limit", 1...Int64(ChatModel.Limits.messagePageRows)).map(Int.init)
      ?? ChatModel.Limits.messagePageDefaultRows
    let before = MessageParameters.positions(&parameters, "before")
    let after = MessageParameters.positions(&parameters, "after")
    let around = MessageParameters.positions(&parameters, "around")
    let isInclusive = parameters.flag("inclusive", default: isAround)
    if let before {
      page.anchor = .before(isInclusive ? before.upperBound : before.lowerBound, isInclusive: isInclusive)
    } else if let after {
      page.anchor = .after(isInclusive ? after.lowerBound : after.upperBound, isInclusive: isInclusive)
    } else if let around {
      page.anchor = .around(around.lowerBound, isInclusive: isInclusive)
    }
    page.isReversed = parameters.flag("reverse")
    page.filter = MessageParameters.filter(&parameters)
    try parameters.end()
    query = page
  }

  /// Refuses parameters that exclude one another. Called after the caller's rights are checked.
  func check() throws {
    guard let clash else { return }
    throw Problem.invalid("\(clash.second)", "It cannot be combined with \(clash.first): give one of them.")
  }

  /// The positions that a parameter's value names: those of a whole millisecond, or a single one.
  private static func positions(
    _ parameters: inout Parameters, _ name: StaticString
  ) -> ClosedRange<Position>? {
    let positions = parameters.value(name) { text -> ClosedRange<Position>? in
      if let position = Position(utf8: text) { return position...position }
      guard text.count <= 16, let time = Parameters.number(String(decoding: text, as: UTF8.self)), time >= 0
      else { return nil }
      return Position.first(at: time)...Position.last(at: time)
    }
    guard let positions else { return nil }
    if let positions { return positions }
    parameters.fault(name, "Give a time in ms since 1970 or a position as an answer gave it.")
    return nil
  }

  private enum KindWord: String, CaseIterable { case all, user, file, admin }

  private static func filter(_ parameters: inout Parameters) -> MessageQuery {
    var filter = MessageQuery()
    switch parameters.word("message_type", KindWord.self) ?? .all {
    case .all: break
    case .user: filter.kind = .user
    case .file: filter.kind = .file
    case .admin: filter.kind = .admin
    }
    filter.customTypes = list(&parameters, "custom_types", allowsEmpty: true).map { ExactText($0) }
    filter.senders = list(&parameters, "sender_user_ids").map { ExactText($0) }
    filter.replies = parameters.word("reply_type", MessageQuery.Replies.self) ?? .none
    if let text = parameters.text("parent_message_id") {
      filter.parent = Digits.messageID(text)
      if filter.parent == nil { parameters.fault("parent_message_id", "Give a message_id.") }
    }
    filter.parts = parts(&parameters)
    return filter
  }

  private static func list(
    _ parameters: inout Parameters, _ name: StaticString, allowsEmpty: Bool = false
  ) -> [String] {
    let values = parameters.list(name, allowsEmpty: allowsEmpty)
    if values.count > ChatModel.Limits.listValues {
      parameters.fault(name, "Give at most \(ChatModel.Limits.listValues) values.")
    }
    return values
  }

  /// The switches for a message's optional parts.
  static func parts(_ parameters: inout Parameters) -> MessageQuery.Parts {
    var parts = MessageQuery.Parts(rawValue: 0)
    if parameters.flag("include_reactions") { parts.insert(.reactions) }
    if parameters.flag("include_metaarray") { parts.insert(.metaarray) }
    if parameters.flag("include_thread_info") { parts.insert(.threadInfo) }
    if parameters.flag("include_parent_message") { parts.insert(.parentMessage) }
    return parts
  }
}
