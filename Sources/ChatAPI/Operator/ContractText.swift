import JSON

/// Makes HTML from parts of the contract. It borrows the contract's JSON while the page is made.
struct ContractText {
  let root: JSONValue

  init(_ root: JSONValue) { self.root = root }

  /// The members of an object, in order.
  static func fields(_ value: JSONValue?) -> [(name: String, value: JSONValue)] {
    value.map { $0.fields.map { (String(decoding: $0.name, as: UTF8.self), $0.value) } } ?? []
  }

  /// Follows a `$ref` within the contract. A value without a `$ref`, or with an unknown one, is returned as
  /// it is.
  func resolved(_ value: JSONValue) -> JSONValue {
    guard let reference = value["$ref"]?.string, reference.hasPrefix("#/") else { return value }
    var node = root
    for part in reference.dropFirst(2).split(separator: "/") {
      guard let next = node.field(named: String(part)) else { return value }
      node = next
    }
    return resolved(node)
  }

  /// An object of the contract: what it is, and its members.
  func object(_ name: String, _ schema: JSONValue) -> String {
    var text = "<h3 id=\"object-\(name)\"><code>\(HTMLText.escaped(name))</code></h3>\n"
    if let description = schema["description"]?.string { text += "<p>\(HTMLText.inline(description))</p>\n" }
    let members = ContractText.fields(schema["properties"])
    guard !members.isEmpty else { return text + "<p>\(type(of: schema))</p>\n" }
    let needed = Set(schema["required"]?.items.compactMap(\.string) ?? [])
    let rows = members.map { name, value in
      row(name, value, notes: needed.contains(name) ? "always" : "", value["description"]?.string)
    }
    return text + "<table>\n\(rows.joined())</table>\n" + (schema["example"].map(example) ?? "")
  }

  /// A parameter or member: its name, what it may be, and what it means.
  func row(_ name: String, _ schema: JSONValue?, notes: String, _ description: String?) -> String {
    let meaning = description ?? schema.flatMap { resolved($0)["description"]?.string } ?? ""
    let kinds = [schema.map(type) ?? "", notes].filter { !$0.isEmpty }.joined(separator: ", ")
    return "<tr><td><code>\(HTMLText.escaped(name))</code></td><td>\(kinds)</td>"
      + "<td>\(HTMLText.inline(meaning))</td></tr>\n"
  }

  /// The bodies that a request takes or an answer has, with their examples.
  func content(_ holder: JSONValue) -> String {
    ContractText.fields(holder["content"]).map { type, content in
      let schema = content["schema"].map { ": \(self.type(of: $0))" } ?? ""
      return "<code>\(HTMLText.escaped(type))</code>\(schema)." + examples(content).map(example).joined()
    }.joined(separator: " ")
  }

  private func examples(_ content: JSONValue) -> [JSONValue] {
    if let one = content["example"] { return [one] }
    return ContractText.fields(content["examples"]).compactMap { resolved($0.value)["value"] }
  }

  private func example(_ value: JSONValue) -> String {
    let text = value.string ?? HTMLText.json(value)
    return "<details><summary>Example</summary><pre>\(HTMLText.escaped(text))</pre></details>"
  }

  /// A schema in one line of HTML: the type, the allowed words and the bounds, or a link to the object.
  func type(of schema: JSONValue) -> String {
    if let reference = schema["$ref"]?.string {
      let name = String(reference.split(separator: "/").last ?? "")
      return "<a href=\"#object-\(name)\">\(name)</a>"
    }
    if let choices = schema["oneOf"] ?? schema["anyOf"] ?? schema["allOf"] {
      return choices.items.map(type).joined(separator: " or ")
    }
    var notes: [String] = []
    if let items = schema["items"] {
      notes.append("array of \(type(of: items))")
    } else if let name = schema["type"]?.string {
      notes.append(name)
    } else if let names = schema["type"]?.items.compactMap(\.string), !names.isEmpty {
      notes.append(names.joined(separator: " or "))
    }
    let words =
      (schema["enum"]?.items.compactMap(\.string) ?? []) + [schema["const"]?.string].compactMap { $0 }
    if !words.isEmpty { notes.append(HTMLText.escaped(words.joined(separator: " | "))) }
    if let bounds = bounds(schema) { notes.append(bounds) }
    if let fallback = schema["default"] {
      let number = fallback.int64.map(String.init)
      let text = fallback.string ?? number ?? "\(fallback.bool ?? false)"
      notes.append("default \(HTMLText.escaped(text))")
    }
    return notes.joined(separator: ", ")
  }

  private func bounds(_ schema: JSONValue) -> String? {
    switch (schema["minimum"]?.int64, schema["maximum"]?.int64) {
    case (let least?, let most?): "\(least) to \(most)"
    case (let least?, nil): "at least \(least)"
    case (nil, let most?): "at most \(most)"
    case (nil, nil): nil
    }
  }
}
