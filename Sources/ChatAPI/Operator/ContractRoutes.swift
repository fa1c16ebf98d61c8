import JSON
import MicroHTTP
import Platform

/// The contract that this very program was built with, as YAML, as JSON and as a page to read; what its
/// problems mean; and the two clients to copy.
enum ContractRoutes {
  /// `hasReference`: whether the address that they are for has the contract; otherwise the other pages do not
  /// link to it.
  static func routes(hasReference: Bool = true) -> [Route] {
    let cached: [(name: StaticString, value: String)] = [("Cache-Control", "no-cache")]
    let yaml = SharedResponse(
      type: "application/yaml", headers: cached, body: buffer(PackageResources.openapi_yaml))
    let json = SharedResponse(
      type: "application/json", headers: cached, body: buffer(PackageResources.openapi_json))
    let reference = SharedResponse(type: html, headers: cached, body: buffer(ReferencePage.make()))
    let javaScript = SharedResponse(
      type: "text/javascript; charset=utf-8", headers: cached, body: buffer(PackageResources.client_js))
    let python = SharedResponse(
      type: "text/x-python; charset=utf-8", headers: cached, body: buffer(PackageResources.client_py))
    return [
      Route(.get, "/client.js", operation: "getClientJs") { _ in .respond(javaScript.response) },
      Route(.get, "/client.py", operation: "getClientPy") { _ in .respond(python.response) },
      Route(.get, "/openapi.yaml", operation: "getOpenapiYaml") { _ in .respond(yaml.response) },
      Route(.get, "/openapi.json", operation: "getOpenapiJson") { _ in .respond(json.response) },
      Route(.get, "/docs", operation: "getReference") { _ in .respond(reference.response) },
      Route(.get, "/problems/{code}", operation: "getProblem") { request in
        let meanings = ProblemTable.meanings(of: request.parameter(0))
        guard !meanings.isEmpty else {
          throw Problem(
            404, "problem_not_found", detail: "No problem has this code: the contract lists them.")
        }
        var body = ByteBuffer(capacity: 1024)
        body.append(StartPage.problem(meanings, hasReference: hasReference))
        return .respond(Response(status: 200, type: html, body: body))
      },
    ]
  }

  /// A short page that says where to go, where the chat page is not.
  static func startPage(hasReference: Bool) -> Route {
    let start = SharedResponse(
      type: html, headers: [("Cache-Control", "no-cache")],
      body: buffer(StartPage.make(hasReference: hasReference)))
    return Route(.get, "/", operation: "getChatPage") { _ in .respond(start.response) }
  }

  private static let html: StaticString = "text/html; charset=utf-8"

  private static func buffer(_ bytes: [UInt8]) -> ByteBuffer {
    var body = ByteBuffer(capacity: bytes.count)
    bytes.withUnsafeBytes { body.append($0) }
    return body
  }
}
