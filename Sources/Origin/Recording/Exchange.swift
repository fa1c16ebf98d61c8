import JSON

/// One request and its answer, as a line of a recording has them:
///
///     {"method":"GET","path":["v3","users","abcde"],"query":[["limit","1"]],"status":200,
///      "headers":{"content-type":"application/json"},"answer":{"user_id":"abcde"},"ms":12}
///
/// The path's segments and the query are decoded, the query's items are in order. Of a body that is not JSON
/// only its type and its length are kept (`request_bytes`, `answer_bytes`).
struct Exchange: Sendable, Equatable {
  /// One `name=value` of a query.
  struct QueryItem: Sendable, Hashable, Comparable {
    var name: String
    var value: String

    static func < (left: QueryItem, right: QueryItem) -> Bool {
      (left.name, left.value) < (right.name, right.value)
    }
  }

  /// A body.
  enum Content: Sendable, Equatable {
    case nothing
    case json(Value)
    /// Not JSON: its media type without parameters, and its length.
    case bytes(Int, type: String)

    /// A body that came with this `Content-Type`.
    init(_ bytes: UnsafeRawBufferPointer, type: String?) {
      guard bytes.count > 0 else {
        self = .nothing
        return
      }
      if let value = JSONParser().read(bytes, { Value($0) }) {
        self = .json(value)
      } else {
        let type = type.map { String($0.prefix { $0 != ";" }) } ?? ""
        self = .bytes(bytes.count, type: type)
      }
    }
  }

  var method: String
  var path: [String]
  var query: [QueryItem] = []
  var request = Content.nothing
  var status = 0
  /// Those in `headerNames`, by their names in lower case.
  var headers: [String: String] = [:]
  var answer = Content.nothing
  var milliseconds: Int64 = 0

  /// Whether the request may change the answers to others.
  var isWrite: Bool { method != "GET" && path.dropFirst().first != "storage" }

  /// The request's method, path and query, as text for people.
  var asked: String {
    let items = query.map { "\($0.name)=\($0.value)" }.joined(separator: "&")
    return "\(method) /\(path.joined(separator: "/"))" + (items.isEmpty ? "" : "?" + items)
  }
}

extension Exchange {
  /// The names of headers that are recorded.
  static let headerNames: Set<String> = [
    "content-type", "retry-after", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset",
    "x-ratelimit-retryafter",
  ]

  /// Reads the JSON of a line; nil: it is no exchange.
  init?(_ value: Value) {
    guard let method = value["method"]?.string, let path = value["path"]?.strings,
      let status = value["status"]?.integer, (100...999).contains(status),
      Exchange.isMissing(value["ms"], orIn: 0...3_600_000),
      ["request_bytes", "answer_bytes"].allSatisfy({
        Exchange.isMissing(value[$0], orIn: 0...Int64(Recording.mostBytes))
      })
    else { return nil }
    self.method = method
    self.path = path
    query = (value["query"]?.items ?? []).compactMap { item in
      item.items.count == 2
        ? QueryItem(name: item.items[0].string ?? "", value: item.items[1].string ?? "") : nil
    }
    self.status = Int(status)
    headers = (value["headers"]?.fields ?? [:]).compactMapValues(\.string)
    request = Exchange.content(value, "request")
    answer = Exchange.content(value, "answer")
    milliseconds = value["ms"]?.integer ?? 0
  }

  /// Whether a field is missing, or a number in a range.
  private static func isMissing(_ field: Value?, orIn range: ClosedRange<Int64>) -> Bool {
    guard let field else { return true }
    return field.integer.map { range.contains($0) } ?? false
  }

  private static func content(_ value: Value, _ name: String) -> Content {
    if let json = value[name] { return .json(json) }
    guard let count = value[name + "_bytes"]?.integer else { return .nothing }
    return .bytes(Int(count), type: value[name + "_type"]?.string ?? "")
  }

  /// The line, without its end.
  var line: String {
    var fields: [String: Value] = [
      "method": .string(method), "path": .array(path.map(Value.string)), "status": .integer(Int64(status)),
      "ms": .integer(milliseconds),
    ]
    if !query.isEmpty {
      fields["query"] = .array(query.map { .array([.string($0.name), .string($0.value)]) })
    }
    if !headers.isEmpty { fields["headers"] = .object(headers.mapValues(Value.string)) }
    for (name, content) in [("request", request), ("answer", answer)] {
      switch content {
      case .nothing: continue
      case .json(let value): fields[name] = value
      case .bytes(let count, let type):
        fields[name + "_bytes"] = .integer(Int64(count))
        fields[name + "_type"] = .string(type)
      }
    }
    return Value.object(fields).text
  }
}
