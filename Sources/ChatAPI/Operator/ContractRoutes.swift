import MicroHTTP
import Platform

/// `/openapi.yaml`: the contract that this very program was built with.
enum ContractRoutes {
  static func routes() -> [Route] {
    let yaml = SharedResponse(
      type: "application/yaml", headers: [("Cache-Control", "no-cache")], body: contract())
    return [Route(.get, "/openapi.yaml", operation: "getOpenapiYaml") { _ in .respond(yaml.response) }]
  }

  private static func contract() -> ByteBuffer {
    let bytes = PackageResources.openapi_yaml
    var body = ByteBuffer(capacity: bytes.count)
    bytes.withUnsafeBytes { body.append($0) }
    return body
  }
}
