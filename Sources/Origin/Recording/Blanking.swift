/// Takes the texts out of what a recording holds.
///
/// Every text is replaced by a blank: as many random letters as the text has characters. Equal texts have
/// equal blanks, and different texts different ones (a text of one to three letters may get a longer blank,
/// where hardly any of its length is free). Kept are the vendor's words, times and numbers, ids of messages,
/// and the shape. Ids of users and channels are blanked in paths, queries and bodies, unless `keepsIDs`; page
/// tokens, urls and names are always blanked. Nothing of a text but its length can be found out from its
/// blank.
struct Blanking {
  private static let letters = Array("abcdefghijklmnopqrstuvwxyz".unicodeScalars)

  /// Keyed by bytes: texts that Swift's `==` takes for equal may have different bytes.
  private var blanks: [[UInt8]: String] = [:]
  private var used: Set<String> = []
  private var dice: UInt64
  private let keepsIDs: Bool

  /// Blanking whose letters follow from the seed. A recorder takes a random seed and does not store it.
  init(seed: UInt64, keepsIDs: Bool = false) {
    dice = seed
    self.keepsIDs = keepsIDs
  }

  /// The number of texts that were replaced so far.
  var texts: Int { blanks.count }

  /// The exchange with its texts blanked.
  mutating func blanked(_ exchange: Exchange) -> Exchange {
    var blank = exchange
    blank.path = path(exchange.path)
    blank.query = exchange.query.map { item in
      Exchange.QueryItem(name: fieldName(item.name), value: list(item.value, in: item.name))
    }.sorted()
    blank.request = content(exchange.request, in: "")
    // `…/metadata` and `…/metacounter` answer an object whose keys clients chose.
    blank.answer = content(
      exchange.answer, in: exchange.path.first { ["metadata", "metacounter"].contains($0) } ?? "")
    return blank
  }

  /// The path with its ids blanked.
  mutating func path(_ segments: [String]) -> [String] {
    var blank: [String] = []
    for (index, segment) in segments.enumerated() {
      let before = Array(segments[..<index])
      let isKept =
        Vocabulary.keepsSegment(segment, after: before) || keepsIDs && Vocabulary.isID(after: before)
      blank.append(isKept ? segment : self.blank(segment))
    }
    return blank
  }

  private mutating func content(_ content: Exchange.Content, in field: String) -> Exchange.Content {
    guard case .json(let value) = content else { return content }
    let isRefusal = value["error"] == .bool(true)
    return .json(self.value(value, in: isRefusal ? "" : field))
  }

  /// The items of a query's list, each by itself.
  private mutating func list(_ texts: String, in field: String) -> String {
    texts.split(separator: ",", omittingEmptySubsequences: false)
      .map { text(String($0), in: field) }.joined(separator: ",")
  }

  /// The value with its texts blanked; `field` is the name that it stands under.
  mutating func value(_ value: Value, in field: String, keepsNumbers: Bool = true) -> Value {
    let keepsNumbers = keepsNumbers && !Vocabulary.ownNumbers.contains(field)
    switch value {
    case .null: return .null
    case .bool(let flag): return .bool(keepsNumbers && flag)
    case .integer(let number): return .integer(keepsNumbers ? number : 0)
    case .double(let number): return .double(keepsNumbers ? number : 0)
    case .string(let text): return .string(self.text(text, in: field))
    case .array(let items):
      return .array(items.map { self.value($0, in: field, keepsNumbers: keepsNumbers) })
    case .object(let fields):
      var blank: [String: Value] = [:]
      // In the order of the names, so that the same seed makes the same blanks.
      for name in fields.keys.sorted() {
        guard let value = fields[name] else { continue }
        let isOwn = Vocabulary.maps.contains(field) && !Vocabulary.maps.contains(name)
        let isKept = !isOwn || keepsIDs && Vocabulary.idMaps.contains(field)
        blank[isKept ? fieldName(name, isOwn: isOwn) : self.blank(name)] = self.value(
          value, in: isOwn ? field : name, keepsNumbers: keepsNumbers)
      }
      return .object(blank)
    }
  }

  private mutating func fieldName(_ name: String, isOwn: Bool = false) -> String {
    isOwn || Vocabulary.isFieldName(name) ? name : blank(name)
  }

  private mutating func text(_ text: String, in field: String) -> String {
    let isKept = Vocabulary.keeps(text, in: field) || keepsIDs && Vocabulary.idFields.contains(field)
    return isKept ? text : blank(text)
  }

  /// The blank of a text.
  mutating func blank(_ text: String) -> String {
    if text.isEmpty { return text }
    let key = Array(text.utf8)
    if let known = blanks[key] { return known }
    var length = text.unicodeScalars.count
    while true {
      // After so many collisions hardly any blank of the length is left.
      for _ in 0..<100 {
        let made = made(length)
        guard !Vocabulary.words.contains(made), !Vocabulary.segments.contains(made),
          used.insert(made).inserted
        else { continue }
        blanks[key] = made
        return made
      }
      length += 1
    }
  }

  private mutating func made(_ length: Int) -> String {
    var text = String.UnicodeScalarView()
    for _ in 0..<length { text.append(Blanking.letters[Int(next() % UInt64(Blanking.letters.count))]) }
    return String(text)
  }

  /// SplitMix64.
  private mutating func next() -> UInt64 {
    dice &+= 0x9E37_79B9_7F4A_7C15
    var mixed = dice
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }
}
