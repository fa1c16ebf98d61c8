/// Answers requests from a recording, and from nothing else.
///
/// A request is in the recording if method, path and query are, and a body that fits. Of several exchanges
/// with the same request each answers once, in their order. After the last one, a request that only reads
/// gets its answer again; a request that may change something (a write) is not answered any more. A read
/// prefers an exchange between the last replayed write and the next recorded one; without one it gets the
/// last earlier answer, or a later one. The value of `change_ts` may differ: it is the client's clock. A test
/// upload to `/v3/storage` changes nothing that is listed, so it may come at any time.
///
/// Bodies of a recording hold blanks. A text of a request fits a blank of as many characters, and stands for
/// it in all answers from then on: a client that sends "hello" is shown "hello".
struct Replay {
  private struct Question: Hashable {
    let method: String
    let path: [String]
    let query: [Exchange.QueryItem]
  }

  private let exchanges: [Exchange]
  /// The indexes of each question's exchanges, in order.
  private let indexes: [Question: [Int]]
  private var isUsed: [Bool]
  /// The texts that stand for blanks.
  private var texts: [String: String] = [:]
  /// Requests that were not answered, as text for people.
  private(set) var unknown: [String] = []

  init(_ recording: Recording) {
    exchanges = recording.exchanges
    isUsed = Array(repeating: false, count: exchanges.count)
    var indexes: [Question: [Int]] = [:]
    for (index, exchange) in exchanges.enumerated() {
      indexes[Replay.question(exchange), default: []].append(index)
    }
    self.indexes = indexes
  }

  /// The recorded requests that did not come.
  var unused: [String] { exchanges.indices.filter { !isUsed[$0] }.map { exchanges[$0].asked } }

  /// The requests that may change something, and were not sent yet.
  var unsent: [String] {
    exchanges.indices.filter { !isUsed[$0] && exchanges[$0].isWrite }.map { exchanges[$0].asked }
  }

  /// The recorded exchange that answers. Nil: there is none, and `unknown` names the request.
  mutating func answer(_ request: Exchange) -> Exchange? {
    var indexes = indexes[Replay.question(request)] ?? []
    if request.isWrite { indexes.removeAll { isUsed[$0] } }
    for index in choices(among: indexes, isWrite: request.isWrite) {
      guard let learned = fit(exchanges[index].request, request.request) else { continue }
      isUsed[index] = true
      texts.merge(learned) { $1 }
      return spoken(exchanges[index])
    }
    unknown.append(request.asked)
    return nil
  }

  private static func question(_ exchange: Exchange) -> Question {
    let query = exchange.query.map { item in
      item.name == "change_ts" ? Exchange.QueryItem(name: item.name, value: "") : item
    }
    return Question(method: exchange.method, path: exchange.path, query: query.sorted())
  }

  /// Which exchanges may answer, the best first.
  private func choices(among indexes: [Int], isWrite: Bool) -> [Int] {
    if isWrite { return indexes }
    let writes = exchanges.indices.filter { exchanges[$0].isWrite }
    let next = writes.first { !isUsed[$0] } ?? exchanges.count
    let last = writes.last { isUsed[$0] } ?? -1
    let present = indexes.filter { $0 > last && $0 < next }
    let past = indexes.filter { $0 < next }
    // Unused ones since the last write; the last one since it; the last one before the next write; later
    // ones.
    return present.filter { !isUsed[$0] } + present.suffix(1) + past.suffix(1) + indexes.filter { $0 > next }
  }

  // MARK: Texts

  /// The texts for the blanks of `recorded`, if `asked` fits it.
  private func fit(_ recorded: Exchange.Content, _ asked: Exchange.Content) -> [String: String]? {
    switch (recorded, asked) {
    case (.nothing, .nothing): return [:]
    case (.bytes(_, let type), .bytes(_, let other)): return type == other ? [:] : nil
    case (.json(let recorded), .json(let asked)):
      var learned: [String: String] = [:]
      return fits(recorded, asked, in: "", &learned) ? learned : nil
    default: return nil
    }
  }

  private func fits(
    _ recorded: Value, _ asked: Value, in field: String, _ learned: inout [String: String]
  ) -> Bool {
    switch (recorded, asked) {
    case (.string(let blank), .string(let text)):
      if let known = learned[blank] ?? texts[blank] { return known == text }
      if blank == text { return true }
      guard Replay.isBlanked(field), blank.unicodeScalars.count == text.unicodeScalars.count else {
        return false
      }
      learned[blank] = text
      return true
    case (.array(let items), .array(let others)):
      guard items.count == others.count else { return false }
      for (item, other) in zip(items, others) {
        guard fits(item, other, in: field, &learned) else { return false }
      }
      return true
    case (.object(let fields), .object(let others)):
      guard fields.count == others.count else { return false }
      for (name, value) in fields {
        guard let other = others[name], fits(value, other, in: name, &learned) else { return false }
      }
      return true
    default: return recorded == asked
    }
  }

  /// Whether the field's texts may differ from the recording's: ids, and the vendor's words, may not.
  private static func isBlanked(_ field: String) -> Bool {
    !Vocabulary.idFields.contains(field) && !Vocabulary.wordFields.contains(field)
  }

  /// The exchange with its blanks replaced by their texts.
  private func spoken(_ exchange: Exchange) -> Exchange {
    guard case .json(let value) = exchange.answer, !texts.isEmpty else { return exchange }
    var spoken = exchange
    spoken.answer = .json(self.spoken(value))
    return spoken
  }

  private func spoken(_ value: Value) -> Value {
    switch value {
    case .string(let text): .string(texts[text] ?? text)
    case .array(let items): .array(items.map(spoken))
    case .object(let fields): .object(fields.mapValues(spoken))
    default: value
    }
  }
}
