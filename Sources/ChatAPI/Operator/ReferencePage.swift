import JSON
import Platform

/// The contract as a page to read, made once from its JSON.
enum ReferencePage {
  static func make() -> [UInt8] {
    let body: String
    do {
      body = try PackageResources.openapi_json.withUnsafeBytes { bytes in
        try JSONParser.parse(bytes, write)
      }
    } catch {
      // The contract is part of the program; a test reads this page.
      Log.line(.error, "contract_unreadable", ["reason": .text("\(error)")])
      body = "<p>See <a href=\"/openapi.yaml\">the contract</a>.</p>"
    }
    return Array(StartPage.page("Perch: the reference", body).utf8)
  }

  private static func write(_ contract: JSONValue) -> String {
    var text = "<p>\(inline(contract["info"]?["description"]?.string ?? ""))</p>\n"
    for tag in contract["tags"]?.items ?? JSONValue.Items() {
      let name = tag["name"]?.string ?? ""
      text += "<h2>\(StartPage.escaped(name))</h2>\n<p>\(inline(tag["description"]?.string ?? ""))</p>\n"
      for (path, item) in fields(contract["paths"]) {
        for (method, operation) in fields(item)
        where operation["tags"]?.items.contains(where: { $0.string == name }) ?? false {
          text += section(method, path, operation, contract)
        }
      }
    }
    return text + problems()
  }

  private static func section(
    _ method: String, _ path: String, _ operation: JSONValue, _ contract: JSONValue
  ) -> String {
    let id = operation["operationId"]?.string ?? ""
    var text = "<h3 id=\"\(id)\"><span class=\"verb\">\(method.uppercased())</span> "
    text += "<code>\(StartPage.escaped(path))</code></h3>\n<p>\(inline(operation["summary"]?.string ?? "")). "
    text += "\(inline(operation["description"]?.string ?? ""))</p>\n"
    let parameters = operation["parameters"]?.items.map { resolved($0, contract) } ?? []
    if !parameters.isEmpty {
      text += "<table>\n" + parameters.map(row).joined() + "</table>\n"
    }
    let answers = fields(operation["responses"]).filter { $0.name != "default" }.map { status, response in
      "<code>\(status)</code> \(inline(resolved(response, contract)["description"]?.string ?? ""))"
    }
    return text + "<p>\(answers.joined(separator: "<br>\n"))</p>\n"
  }

  private static func row(_ parameter: JSONValue) -> String {
    let schema = parameter["schema"]
    var notes: [String] = []
    if let type = schema?["type"]?.string { notes.append(type) }
    let words = schema?["enum"]?.items.compactMap(\.string) ?? []
    if !words.isEmpty { notes.append(words.joined(separator: " | ")) }
    if let least = schema?["minimum"]?.int64, let most = schema?["maximum"]?.int64 {
      notes.append("\(least) to \(most)")
    }
    if let fallback = schema?["default"] {
      let number = fallback.int64.map(String.init)
      notes.append("default \(fallback.string ?? number ?? "\(fallback.bool ?? false)")")
    }
    let description = parameter["description"]?.string ?? ""
    return "<tr><td><code>\(StartPage.escaped(parameter["name"]?.string ?? ""))</code></td>"
      + "<td>\(StartPage.escaped(notes.joined(separator: ", ")))</td><td>\(inline(description))</td></tr>\n"
  }

  private static func problems() -> String {
    let rows = ProblemTable.all.map { entry in
      "<tr><td>\(entry.status)</td>"
        + "<td><a href=\"/problems/\(entry.code)\"><code>\(entry.code)</code></a></td>"
        + "<td>\(inline(entry.meaning))</td></tr>\n"
    }
    return "<h2>problems</h2>\n<table>\n\(rows.joined())</table>\n"
  }

  /// Follows a `$ref` within the contract. A value without a `$ref`, or with an unknown one, is returned as
  /// it is.
  private static func resolved(_ value: JSONValue, _ contract: JSONValue) -> JSONValue {
    guard let reference = value["$ref"]?.string, reference.hasPrefix("#/") else { return value }
    var node = contract
    for part in reference.dropFirst(2).split(separator: "/") {
      guard let next = node.field(named: String(part)) else { return value }
      node = next
    }
    return node
  }

  private static func fields(_ value: JSONValue?) -> [(name: String, value: JSONValue)] {
    value.map { $0.fields.map { (String(decoding: $0.name, as: UTF8.self), $0.value) } } ?? []
  }

  /// Text with `code` in backquotes.
  private static func inline(_ text: String) -> String {
    var out = ""
    for (index, part) in text.split(separator: "`", omittingEmptySubsequences: false).enumerated() {
      let escaped = StartPage.escaped(String(part))
      out += index % 2 == 1 ? "<code>\(escaped)</code>" : escaped
    }
    return out
  }
}
