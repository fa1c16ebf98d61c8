import JSON
import Platform

/// The contract as a page to read, made once from its JSON: the operations by their tags, the objects they
/// take and answer, and the problems.
enum ReferencePage {
  static func make() -> [UInt8] {
    let body: String
    do {
      body = try PackageResources.openapi_json.withUnsafeBytes { bytes in
        try JSONParser.parse(bytes) { ReferencePage.write(ContractText($0)) }
      }
    } catch {
      // The contract is part of the program; a test reads this page.
      Log.line(.error, "contract_unreadable", ["reason": .text("\(error)")])
      body = "<p>See <a href=\"/openapi.yaml\">the contract</a>.</p>"
    }
    return Array(StartPage.page("Perch: the reference", body, script: "/docs.js").utf8)
  }

  /// The script that tries operations; it shares modules with the chat page.
  static let script = PageScript.joined([
    PackageResources.dom_js, PackageResources.session_js, PackageResources.as_curl_js,
    PackageResources.reference_js,
  ])

  /// Only the page's own script runs, and it asks only this service.
  static let policy = [
    "default-src 'none'", "script-src 'self'", "style-src 'unsafe-inline'", "connect-src 'self'",
    "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
    "require-trusted-types-for 'script'", "trusted-types 'none'",
  ].joined(separator: "; ")

  private static func write(_ contract: ContractText) -> String {
    var text = "<p>\(HTMLText.inline(contract.root["info"]?["description"]?.string ?? ""))</p>\n"
    for tag in contract.root["tags"]?.items ?? JSONValue.Items() {
      let name = tag["name"]?.string ?? ""
      text += "<h2>\(HTMLText.escaped(name))</h2>\n"
      text += "<p>\(HTMLText.inline(tag["description"]?.string ?? ""))</p>\n"
      for (path, item) in ContractText.fields(contract.root["paths"]) {
        for (method, operation) in ContractText.fields(item)
        where operation["tags"]?.items.contains(where: { $0.string == name }) ?? false {
          text += section(method, path, operation, contract)
        }
      }
    }
    text += "<h2 id=\"objects\">objects</h2>\n"
    for (name, schema) in ContractText.fields(contract.root["components"]?["schemas"]) {
      text += contract.object(name, schema)
    }
    return text + problems()
  }

  private static func section(
    _ method: String, _ path: String, _ operation: JSONValue, _ contract: ContractText
  ) -> String {
    let id = operation["operationId"]?.string ?? ""
    var text = "<h3 id=\"\(id)\"><span class=\"verb\">\(method.uppercased())</span> "
    text += "<code>\(HTMLText.escaped(path))</code></h3>\n"
    text += "<p>\(HTMLText.inline(operation["summary"]?.string ?? "")). "
    text += "\(HTMLText.inline(operation["description"]?.string ?? ""))</p>\n"
    let parameters = operation["parameters"]?.items.map { contract.resolved($0) } ?? []
    if !parameters.isEmpty {
      text += "<table>\n" + parameters.map { parameter(contract, $0) }.joined() + "</table>\n"
    }
    if let body = operation["requestBody"] {
      text += "<p>Takes \(contract.content(contract.resolved(body)))</p>\n"
    }
    for (status, response) in ContractText.fields(operation["responses"]) where status != "default" {
      let answer = contract.resolved(response)
      text += "<p><code>\(status)</code> \(HTMLText.inline(answer["description"]?.string ?? "")) "
      text += "\(contract.content(answer))\(links(answer))</p>\n"
    }
    return text
  }

  /// The operations that an answer leads to.
  private static func links(_ answer: JSONValue) -> String {
    var names: [String] = []
    for (_, link) in ContractText.fields(answer["links"]) {
      if let name = link["operationId"]?.string, !names.contains(name) { names.append(name) }
    }
    if names.isEmpty { return "" }
    return " From here: " + names.map { "<a href=\"#\($0)\">\($0)</a>" }.joined(separator: ", ") + "."
  }

  private static func parameter(_ contract: ContractText, _ parameter: JSONValue) -> String {
    let source = parameter["in"]?.string ?? ""
    let needed = parameter["required"]?.bool ?? false ? ", needed" : ""
    return contract.row(
      parameter["name"]?.string ?? "", parameter["schema"], notes: "\(source)\(needed)",
      parameter["description"]?.string)
  }

  private static func problems() -> String {
    let rows = ProblemTable.all.map { entry in
      "<tr><td>\(entry.status)</td>"
        + "<td><a href=\"/problems/\(entry.code)\"><code>\(entry.code)</code></a></td>"
        + "<td>\(HTMLText.inline(entry.cause))</td></tr>\n"
    }
    return "<h2 id=\"problems\">problems</h2>\n<table>\n\(rows.joined())</table>\n"
  }
}
