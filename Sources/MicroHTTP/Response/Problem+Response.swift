import Platform

extension Problem {
  /// Builds the standard response.
  package func response(requestID: String) -> Response {
    var response = Response(
      status: status, type: "application/problem+json", body: body(requestID: requestID))
    response.add("Cache-Control", "no-store")
    for (name, value) in headers { response.add(name, value) }
    return response
  }

  /// The problem as JSON.
  package func body(requestID: String) -> ByteBuffer {
    var body = ByteBuffer(capacity: 320)
    body.append("{\"type\":")
    body.append(quoted: "/problems/" + code)
    body.append(",\"title\":")
    body.append(quoted: title)
    body.append(",\"status\":")
    body.append(decimal: Int64(status))
    body.append(",\"code\":")
    body.append(quoted: code)
    body.append(",\"detail\":")
    body.append(quoted: detail)
    body.append(",\"x_request_id\":")
    body.append(quoted: requestID)
    if !errors.isEmpty {
      body.append(",\"errors\":[")
      for (index, error) in errors.enumerated() {
        body.append(index == 0 ? "{\"field\":" : ",{\"field\":")
        body.append(quoted: error.field)
        body.append(",\"detail\":")
        body.append(quoted: error.detail)
        body.append("}")
      }
      body.append("]")
    }
    if !members.isEmpty {
      body.append(",")
      body.append(members)
    }
    body.append("}")
    return body
  }
}
