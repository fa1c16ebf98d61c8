import ChatCache
import ChatModel
import JSON
import MicroHTTP
import Platform

/// The file of a message: the bytes, if the message is the caller's and unsent; a redirect, if it was sent.
///
/// The chat page may have the same origin as these bytes, and any user may send a file. So the headers keep a
/// browser from running a file, and make it save the types that it need not show.
enum FileRoute {
  static func routes(_ sending: Sending) -> [Route] {
    [
      Route(
        .get, "/v1/channels/{channel_url}/messages/{message_ref}/file", operation: "getMessageFile"
      ) { request in
        try Parameters(request).end()
        return try sending.context.admitted(request) { caller in
          try sending.context.inChannel(request, caller, needsJoined: true) { url, caller in
            try MessageSearch(sending, request, caller, url).find(MessageRef(request.parameter(1))) {
              target in
              switch target {
              case .unsent(let name): try unsent(sending, request, caller, url, name)
              case .confirmed(let id): try sent(sending, caller, url, id)
              }
            }
          }
        }
      }
    ]
  }

  private static func unsent(
    _ sending: Sending, _ request: Request, _ caller: Caller, _ url: ChannelURL, _ name: RequestID
  ) throws -> Outcome {
    let found = try sending.context.read { reader -> (upload: StoredUpload?, object: [UInt8]?) in
      guard let key = try reader.userKey(of: caller.user) else { return (nil, nil) }
      let laneKey = OutboxLaneKey(user: key, channel: url)
      return (
        try reader.upload(of: name, in: laneKey), try reader.unsentMessage(name.text, in: laneKey)?.object
      )
    }
    guard let upload = found.upload else { return try redirect(found.object) }
    guard let path = sending.context.cache.spool.path(of: upload.file) else {
      guard upload.url == nil else { return try redirect(found.object) }
      throw Problem.fileNotFound
    }
    let tag = upload.hash.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    let shown = FileLabel.isShown(upload.mime) ? upload.mime : FileLabel.anyType
    var response = try Response.file(
      path, type: shown == "text/plain" ? "text/plain; charset=utf-8" : shown, etag: "\"\(tag)\"",
      for: request)
    response.add("Content-Disposition", FileLabel.disposition(upload.name, type: upload.mime))
    response.add("Content-Security-Policy", "sandbox; default-src 'none'")
    response.add("Cache-Control", "no-store")
    return .respond(response)
  }

  private static func sent(
    _ sending: Sending, _ caller: Caller, _ url: ChannelURL, _ id: Int64
  ) throws -> Outcome {
    try redirect(
      sending.context.read { reader in
        let (view, _) = try Sending.lane(reader, caller.user, url)
        return try reader.message(id, parts: [], in: view)?.array
      })
  }

  /// A redirect to the message's file. A url of another scheme could run a script: it is answered with a 404.
  private static func redirect(_ message: [UInt8]?) throws -> Outcome {
    let url = try message?.withUnsafeBytes { bytes in
      try JSONParser.parse(bytes) { $0["file"]?["url"]?.string }
    }
    guard let url = url ?? nil, WebLink.isLink(url), url.utf8.count <= SendingLimit.fileCharacters else {
      throw Problem.fileNotFound
    }
    var response = Response.empty(302)
    // The chat server may write letters that no URL has: a header is ASCII.
    response.add("Location", PercentEncoding.encode(url) { $0 < 0x80 })
    response.add("Cache-Control", "no-store")
    return .respond(response)
  }
}

extension Problem {
  /// The message has no file, or none that can be given.
  static var fileNotFound: Problem {
    Problem(404, "file_not_found", detail: "This message has no file, or it is gone.")
  }

  /// The client resends a message whose file is gone.
  static var fileMissing: Problem {
    Problem(
      409, "file_missing", detail: "The bytes of this message's file are gone: resend it with the file.")
  }
}
