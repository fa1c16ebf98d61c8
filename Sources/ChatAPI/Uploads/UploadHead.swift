import ChatCache
import ChatModel
import MicroHTTP

/// Judges a form by its head, before a byte of its file is stored: token, scope, membership, right to send,
/// room for one more unsent message, and room for its announced bytes.
enum UploadHead {
  /// Admits the form of sendMessage or resendMessage. `isNew`: the form makes an unsent row.
  static func admit(_ sending: Sending, _ request: Request, isNew: Bool) throws -> Outcome {
    try Parameters(request).end()
    let name = isNew ? try RequestName(request) : nil
    return try sending.context.admitted(request) { caller in
      try sending.context.inChannel(request, caller, needsJoined: true) { url, caller in
        do {
          let isRepeated = try judge(sending, caller, url, name)
          return .receive(try form(sending, request, name, isRepeated: isRepeated))
        } catch let problem as Problem where problem.code == "upload_not_stored" {
          throw problem.naming(name)
        }
      }
    }
  }

  /// Whether the request id in the head was accepted before. Throws if the caller may not send a file.
  private static func judge(
    _ sending: Sending, _ caller: Caller, _ url: ChannelURL, _ name: RequestName?
  ) throws -> Bool {
    let policy = sending.policy
    do {
      return try sending.context.read { reader in
        guard let name else { return false }
        // A repeated request gets its first answer, whatever changed since.
        if name.isGiven, let key = try reader.userKey(of: caller.user),
          try reader.status(of: name.id, of: key) != nil
        {
          return true
        }
        try reader.checkFile(
          of: caller.user, in: url, isAdmin: caller.scopes.contains(.admin), policy)
        return false
      }
    } catch let denial as SendingDenial {
      throw Problem(denial)
    }
  }

  private static func form(
    _ sending: Sending, _ request: Request, _ name: RequestName?, isRepeated: Bool
  ) throws -> UploadForm {
    let spool = sending.context.cache.spool
    guard isRepeated || spool.hasRoom(for: min(request.announcedBytes ?? 1, UploadLimit.fileBytes)) else {
      throw Problem(SpoolError.full)
    }
    return UploadForm(spool, announced: request.announcedBytes, name, isRepeated: isRepeated)
  }
}

extension Problem {
  /// The problem with the request id, if the client gave it: an id that was made here is unknown to the
  /// client.
  func naming(_ name: RequestName?) -> Problem {
    guard let name, name.isGiven else { return self }
    return naming(name.id)
  }
}
