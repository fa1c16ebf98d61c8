extension Request {
  /// Decides what happens to the body before any of it is read. Thrown problems are answered on the spot.
  func prepareBody(_ limits: Limits, uploads directory: String) throws(Problem) {
    let hasBody = seen.hasBody
    switch endpoint?.route.body ?? .none {
    case .none:
      if hasBody { try expect(limits.ignoredBodyBytes, .discarded(.init(limit: limits.ignoredBodyBytes))) }
    case .collected(let limit, let types, let required):
      try collect(limit, types: types, required: required, hasBody: hasBody)
    case .multipart(let limit, let orCollected):
      if let boundary = Multipart.boundary(of: header("Content-Type")) {
        let form = Multipart(
          boundary: boundary, limit: limit, limits: limits, into: TemporaryFiles(in: directory))
        try expect(limit, .multipart(form))
      } else if let orCollected {
        try collect(orCollected, types: ["application/json"], orForm: true, required: false, hasBody: hasBody)
      } else {
        throw Request.unsupportedType(["multipart/form-data"])
      }
    case .upload(_, let orCollected, _):
      // Forms do not come here: the route's `admit` decides on them, and `receive` prepares them.
      if let orCollected {
        try collect(orCollected, types: ["application/json"], orForm: true, required: false, hasBody: hasBody)
      } else if hasBody {
        try expect(limits.ignoredBodyBytes, .discarded(.init(limit: limits.ignoredBodyBytes)))
      }
    }
  }

  /// The route's `admit`, which judges the form that is about to be read; nil without a form or an `admit`.
  func formJudge() throws(Problem) -> Route.Handler? {
    guard case .upload(let limit, _, let admit)? = endpoint?.route.body, seen.hasBody,
      Multipart.isForm(header("Content-Type"))
    else { return nil }
    guard Multipart.boundary(of: header("Content-Type")) != nil else {
      throw .multipart("Content-Type names no boundary of 1 to 70 characters")
    }
    if let length = seen.contentLength, length > limit { throw .tooLarge(limit: limit) }
    return admit
  }

  /// Reads the form into `files` from now on.
  func receive(_ files: any FormIntake, _ limits: Limits, at now: UInt64) {
    guard case .upload(let limit, _, _)? = endpoint?.route.body,
      let boundary = Multipart.boundary(of: header("Content-Type"))
    else { preconditionFailure("only forms are received") }
    let body = PendingBody(
      .multipart(Multipart(boundary: boundary, limit: limit, limits: limits, into: files)))
    body.pace = BodyPace(since: now)
    intake = body
  }

  /// The value of `Content-Length`; nil without one.
  package var announcedBytes: Int? { seen.contentLength }

  /// The intake of the form's files; nil if the body is no form.
  package var form: (any FormIntake)? {
    guard case .multipart(let form) = intake?.intake else { return nil }
    return form.files
  }

  /// `orForm`: the route takes forms too, and the problem says so.
  private func collect(
    _ limit: Int, types: [String], orForm: Bool = false, required: Bool, hasBody: Bool
  ) throws(Problem) {
    if required, !seen.isChunked, seen.contentLength == nil {
      throw Problem(411, "length_required", detail: "send a body with Content-Length")
    }
    guard hasBody else { return }
    if !types.isEmpty, !hasMediaType(oneOf: types) {
      throw Request.unsupportedType(types + (orForm ? ["multipart/form-data"] : []))
    }
    try expect(limit, .collected(.init(limit: limit)))
  }

  private func expect(_ limit: Int, _ sink: BodyIntake) throws(Problem) {
    if let length = seen.contentLength, length > limit { throw Problem.tooLarge(limit: limit) }
    intake = PendingBody(sink)
  }

  private static func unsupportedType(_ types: [String]) -> Problem {
    let accepted = types.joined(separator: ", ")
    return Problem(
      415, "unsupported_media_type", detail: "send the body as \(accepted)", headers: [("Accept", accepted)])
  }

  /// Compares the media type without its parameters, ignoring case.
  private func hasMediaType(oneOf types: [String]) -> Bool {
    guard let given = header("Content-Type") else { return false }
    let end = given.firstIndex { $0 == UInt8(ascii: ";") || $0 == 0x20 || $0 == 0x09 } ?? given.count
    let name = given[..<end].map { $0 >= 0x41 && $0 <= 0x5A ? $0 + 0x20 : $0 }
    return types.contains { $0.utf8.elementsEqual(name) }
  }
}
