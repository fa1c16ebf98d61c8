import ChatModel

/// The order in which a channel's members are read, some at a time: from one user's row on to the last one,
/// then from the first one up to that user. If members go idle in the order of their rows, the next row is
/// most often an active user's.
struct MemberRound {
  /// The members that are read at once.
  static let pageRows = 10

  private let start: Int64?
  private var last: Int64
  private var isLastPart: Bool

  /// A round that begins with the user; nil: with the first member.
  init(from first: UserKey?) {
    start = first?.rawValue
    last = first.map { $0.rawValue - 1 } ?? .min
    isLastPart = first == nil
  }

  /// The next page is of members after this one.
  var after: UserKey { UserKey(last) }

  /// Takes a page's members, in order. False: the round is over.
  mutating func goOn(after page: [UserKey]) -> Bool {
    let isEnd = page.count < MemberRound.pageRows
    last = page.last?.rawValue ?? last
    if isLastPart { return !isEnd && last < start ?? .max }
    if isEnd { (last, isLastPart) = (.min, true) }
    return true
  }
}
