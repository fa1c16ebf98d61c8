import JSON
import MicroHTTP

/// Every endpoint of the stand-in. Operations are named by what they do; paths are the chat server's.
enum OriginRoutes {
  private static let bodyBytes = 1 << 20
  private static let uploadBytes = 26 << 20
  private static let user = "/v3/users/{user_id}"
  private static let channel = "/v3/group_channels/{channel_url}"
  private static let message = "/v3/group_channels/{channel_url}/messages/{message_id}"

  static func all(_ origin: OriginServer) -> [Route] {
    (users + channels + members + messages).map { method, path, operation in
      route(origin, method, path, operation)
    } + faults(origin) + [files(origin)]
  }

  private typealias Entry = (Method, String, Operation)

  private static let users: [Entry] = [
    (.post, "/v3/users", .write(Users.create)),
    (.get, "/v3/users", .read(Users.list)),
    (.get, user, .read(Users.view)),
    (.put, user, .write(Users.update)),
    (.delete, user, .write(Users.delete)),
    (.get, user + "/metadata", .read(UserMetadata.view)),
    (.post, user + "/metadata", .write(UserMetadata.put)),
    (.put, user + "/metadata", .write(UserMetadata.put)),
    (.delete, user + "/metadata", .write(UserMetadata.delete)),
    (.get, user + "/metadata/{key}", .read(UserMetadata.view)),
    (.put, user + "/metadata/{key}", .write(UserMetadata.put)),
    (.delete, user + "/metadata/{key}", .write(UserMetadata.delete)),
    (.get, user + "/my_group_channels", .read(ChannelLists.mine)),
    (.get, user + "/my_group_channels/changelogs", .read(Changelogs.channels)),
    (.get, user + "/unread_message_count", .read(ReadMarks.userUnread)),
  ]

  private static let channels: [Entry] = [
    (.get, "/v3/group_channels", .read(ChannelLists.all)),
    (.post, "/v3/group_channels", .write(Channels.create)),
    (.get, channel, .read(Channels.view)),
    (.put, channel, .write(Channels.update)),
    (.delete, channel, .write(Channels.delete)),
    (.put, channel + "/freeze", .write(Moderation.freeze)),
    (.get, channel + "/metadata", .read(ChannelMetadata.view)),
    (.post, channel + "/metadata", .write(ChannelMetadata.create)),
    (.put, channel + "/metadata", .write(ChannelMetadata.update)),
    (.delete, channel + "/metadata", .write(ChannelMetadata.delete)),
    (.get, channel + "/metadata/{key}", .read(ChannelMetadata.view)),
    (.put, channel + "/metadata/{key}", .write(ChannelMetadata.update)),
    (.delete, channel + "/metadata/{key}", .write(ChannelMetadata.delete)),
    (.get, channel + "/metacounter", .read(ChannelMetadata.viewCounters)),
    (.post, channel + "/metacounter", .write(ChannelMetadata.createCounters)),
    (.put, channel + "/metacounter", .write(ChannelMetadata.updateCounters)),
    (.delete, channel + "/metacounter", .write(ChannelMetadata.deleteCounters)),
    (.get, channel + "/metacounter/{key}", .read(ChannelMetadata.viewCounters)),
    (.put, channel + "/metacounter/{key}", .write(ChannelMetadata.updateCounters)),
    (.delete, channel + "/metacounter/{key}", .write(ChannelMetadata.deleteCounters)),
  ]

  private static let members: [Entry] = [
    (.get, channel + "/members", .read(Members.list)),
    (.get, channel + "/members/{user_id}", .read(Members.view)),
    (.post, channel + "/invite", .write(Members.invite)),
    (.put, channel + "/accept", .write(Members.join)),
    (.put, channel + "/decline", .write(Members.decline)),
    (.put, channel + "/join", .write(Members.join)),
    (.put, channel + "/leave", .write(Members.leave)),
    (.put, channel + "/hide", .write(ReadMarks.hide)),
    (.delete, channel + "/hide", .write(ReadMarks.unhide)),
    (.put, channel + "/reset_user_history", .write(ReadMarks.resetHistory)),
    (.post, channel + "/typing", .read(ReadMarks.typing)),
    (.delete, channel + "/typing", .read(ReadMarks.typing)),
    (.get, channel + "/operators", .read(Moderation.operators)),
    (.post, channel + "/operators", .write(Moderation.addOperators)),
    (.delete, channel + "/operators", .write(Moderation.removeOperators)),
    (.get, channel + "/mute", .read(Moderation.muted)),
    (.post, channel + "/mute", .write(Moderation.mute)),
    (.delete, channel + "/mute/{user_id}", .write(Moderation.unmute)),
    (.get, channel + "/ban", .read(Moderation.banned)),
    (.post, channel + "/ban", .write(Moderation.ban)),
    (.delete, channel + "/ban/{user_id}", .write(Moderation.unban)),
  ]

  private static let messages: [Entry] = [
    (.get, channel + "/messages", .read(Messages.list)),
    (.post, channel + "/messages", .write(Messages.send)),
    (.get, channel + "/messages/total_count", .read(Messages.count)),
    (.put, channel + "/messages/mark_as_read", .write(ReadMarks.markAsRead)),
    (.get, channel + "/messages/unread_count", .read(ReadMarks.unread)),
    (.get, channel + "/messages/changelogs", .read(Changelogs.messages)),
    (.get, message, .read(Messages.view)),
    (.put, message, .write(MessageEdits.update)),
    (.delete, message, .write(Messages.delete)),
    (.get, message + "/reactions", .read(Reactions.list)),
    (.post, message + "/reactions", .write(Reactions.add)),
    (.delete, message + "/reactions", .write(Reactions.remove)),
    (.post, message + "/sorted_metaarray", .write(Metaarrays.put)),
    (.put, message + "/sorted_metaarray", .write(Metaarrays.put)),
    (.delete, message + "/sorted_metaarray", .write(Metaarrays.delete)),
    (.post, "/v3/storage/file", .write(Uploads.upload)),
  ]

  private static func route(
    _ origin: OriginServer, _ method: Method, _ path: String, _ operation: Operation
  ) -> Route {
    let names = path.split(separator: "/").filter { $0.hasPrefix("{") }.map {
      String($0.dropFirst().dropLast())
    }
    let takesFile = method == .post && (path.hasSuffix("/messages") || path.hasSuffix("/file"))
    let body: Route.Body =
      takesFile
      ? .upload(limit: uploadBytes, orCollected: bodyBytes) { [unowned origin] request in
        .receive(origin.files(of: request))
      }
      : method == .get ? .none : .collected(limit: bodyBytes)
    return Route(method, path, operation: "\(method) \(path)", body: body) { [unowned origin] request in
      origin.answer(request, names, operation)
    }
  }

  /// The fault desk and the counts of files. They are not of the chat server's API, so they need no token and
  /// have no faults. On a loopback address they answer only to a loopback `Host`, so that no web page whose
  /// name resolves to this machine sets faults.
  private static func faults(_ origin: OriginServer) -> [Route] {
    guard HostRule.isLoopback(origin.configuration.listen.host) else { return openFaults(origin) }
    let rule = HostRule(advice: "The stand-in listens on a loopback address.")
    return openFaults(origin).map { $0.answering(only: rule) }
  }

  private static func openFaults(_ origin: OriginServer) -> [Route] {
    [
      Route(.get, "/_faults", operation: "faults") { [unowned origin] _ in
        .respond(Response.text(origin.desk.shown, type: "application/json"))
      },
      Route(.get, "/_files", operation: "fileCounts") { [unowned origin] _ in
        .respond(Response.text(origin.fileCounts.shown, type: "application/json"))
      },
      Route(.put, "/_faults", operation: "setFaults", body: .collected(limit: bodyBytes)) {
        [unowned origin] request in
        do {
          try origin.setFaults(OriginServer.body(request))
        } catch let refusal as Refusal {
          return .respond(refusal.response)
        }
        return .respond(Response.text(origin.desk.shown, type: "application/json"))
      },
      Route(.delete, "/_faults", operation: "clearFaults") { [unowned origin] _ in
        origin.clearFaults()
        return .respond(Response.text("{}", type: "application/json"))
      },
    ]
  }

  /// The uploaded files; not of the API, like the fault desk.
  private static func files(_ origin: OriginServer) -> Route {
    Route(.get, "/files/{name}", operation: "file") { [unowned origin] request in
      if origin.desk.isCutOff { request.cut() }
      return .respond(try Uploads.serve(request.parameter(0), origin.store, for: request))
    }
  }
}
