import JSON
import MicroHTTP
import Platform

/// The contract that this very program was built with, as YAML, as JSON and as a page to read; what its
/// problems mean; and the two clients to copy.
enum ContractRoutes {
  /// `hasReference`: whether the routes' address has the contract; if not, the problems' pages do not link to
  /// it.
  static func routes(hasReference: Bool = true) -> [Route] {
    let reference = PageFile(
      html, [("Content-Security-Policy", ReferencePage.policy), ("Referrer-Policy", "no-referrer")]
    ) { ReferencePage.make() }
    let script = PageFile(javaScript) { ReferencePage.script }
    let yaml = PageFile("application/yaml") { PackageResources.openapi_yaml }
    let json = PageFile("application/json") { PackageResources.openapi_json }
    let browserClient = PageFile(javaScript) { PackageResources.client_js }
    let pythonClient = PageFile("text/x-python; charset=utf-8") { PackageResources.client_py }
    return [
      Route(.get, "/client.js", operation: "getClientJs") { browserClient.answer($0) },
      Route(.get, "/client.py", operation: "getClientPy") { pythonClient.answer($0) },
      Route(.get, "/openapi.yaml", operation: "getOpenapiYaml") { yaml.answer($0) },
      Route(.get, "/openapi.json", operation: "getOpenapiJson") { json.answer($0) },
      Route(.get, "/docs", operation: "getReference") { reference.answer($0) },
      Route(.get, "/docs.js", operation: "getReferenceScript") { script.answer($0) },
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

  /// A short page at `/` with links to the others, for an address without the chat page.
  static func startPage(hasReference: Bool) -> Route {
    let start = PageFile(html) { StartPage.make(hasReference: hasReference) }
    return Route(.get, "/", operation: "getChatPage") { start.answer($0) }
  }

  private static let html: StaticString = "text/html; charset=utf-8"
  private static let javaScript: StaticString = "text/javascript; charset=utf-8"
}
