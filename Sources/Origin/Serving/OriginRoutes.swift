import JSON
import MicroHTTP

/// Every endpoint of the stand-in. Operations are named by what they do; paths are the wire's.
enum OriginRoutes {
  private static let bodyBytes = 1 << 20
  private static let uploadBytes = 26 << 20
  private static let channel = "/v3/group_channels/{channel_url}"
  private static let message = "/v3/group_channels/{channel_url}/messages/{message_id}"

  static func all(_ origin: OriginServer) -> [Route] {
    (users + channels + members + messages).map { method, path, operation in
      route(origin, method, path, operation)
    } + extras(origin)
  }

  private typealias Entry = (Method, String, Operation)

  private static let users: [Entry] = [
    (.post, "/v3/users", Users.create),
    (.get, "/v3/users", Users.list),
    (.get, "/v3/users/{user_id}", Users.view),
    (.put, "/v3/users/{user_id}", Users.update),
    (.delete, "/v3/users/{user_id}", Users.delete),
    (.get, "/v3/users/{user_id}/metadata", Users.viewMetadata),
    (.post, "/v3/users/{user_id}/metadata", Users.putMetadata),
    (.put, "/v3/users/{user_id}/metadata", Users.putMetadata),
    (.delete, "/v3/users/{user_id}/metadata", Users.deleteMetadata),
    (.get, "/v3/users/{user_id}/metadata/{key}", Users.viewMetadata),
    (.put, "/v3/users/{user_id}/metadata/{key}", Users.putMetadata),
    (.delete, "/v3/users/{user_id}/metadata/{key}", Users.deleteMetadata),
    (.get, "/v3/users/{user_id}/my_group_channels", ChannelLists.mine),
    (.get, "/v3/users/{user_id}/my_group_channels/changelogs", ChannelLists.changelog),
    (.get, "/v3/users/{user_id}/unread_message_count", Members.userUnread),
  ]

  private static let channels: [Entry] = [
    (.get, "/v3/group_channels", ChannelLists.all),
    (.post, "/v3/group_channels", Channels.create),
    (.get, channel, Channels.view),
    (.put, channel, Channels.update),
    (.delete, channel, Channels.delete),
    (.put, channel + "/freeze", Channels.freeze),
    (.get, channel + "/metadata", Channels.metadata),
    (.post, channel + "/metadata", Channels.putMetadata),
    (.put, channel + "/metadata", Channels.putMetadata),
    (.delete, channel + "/metadata", Channels.deleteMetadata),
  ]

  private static let members: [Entry] = [
    (.get, channel + "/members", Members.list),
    (.get, channel + "/members/{user_id}", Members.view),
    (.post, channel + "/invite", Members.invite),
    (.put, channel + "/accept", Members.join),
    (.put, channel + "/join", Members.join),
    (.put, channel + "/leave", Members.leave),
    (.put, channel + "/hide", Members.hide),
    (.delete, channel + "/hide", Members.unhide),
    (.put, channel + "/reset_user_history", Members.resetHistory),
    (.post, channel + "/typing", Members.typing),
    (.delete, channel + "/typing", Members.typing),
    (.get, channel + "/operators", Moderation.operators),
    (.post, channel + "/operators", Moderation.addOperators),
    (.delete, channel + "/operators", Moderation.removeOperators),
    (.get, channel + "/mute", Moderation.muted),
    (.post, channel + "/mute", Moderation.mute),
    (.delete, channel + "/mute/{user_id}", Moderation.unmute),
    (.post, channel + "/ban", Moderation.ban),
    (.delete, channel + "/ban/{user_id}", Moderation.unban),
  ]

  private static let messages: [Entry] = [
    (.get, channel + "/messages", Messages.list),
    (.post, channel + "/messages", Messages.send),
    (.get, channel + "/messages/total_count", Messages.count),
    (.put, channel + "/messages/mark_as_read", Members.markAsRead),
    (.get, channel + "/messages/changelogs", Messages.changelog),
    (.get, message, Messages.view),
    (.put, message, Messages.update),
    (.delete, message, Messages.delete),
    (.get, message + "/reactions", Reactions.list),
    (.post, message + "/reactions", Reactions.add),
    (.delete, message + "/reactions", Reactions.remove),
    (.post, message + "/sorted_metaarray", Reactions.putMetaarray),
    (.put, message + "/sorted_metaarray", Reactions.putMetaarray),
    (.delete, message + "/sorted_metaarray", Reactions.deleteMetaarray),
    (
      .post, "/v3/storage/file",
      { call, json in
        guard call.capabilities.areSeparateUploadsOn else {
          throw Refusal(400108, "Not allowed.", status: 403)
        }
        guard let part = call.arguments.parts.first(where: { $0.path != nil }) else {
          throw Refusal.missing("file")
        }
        try call.storeUpload(part).write(to: &json)
      }
    ),
  ]

  private static func route(
    _ origin: OriginServer, _ method: Method, _ path: String, _ operation: @escaping Operation
  ) -> Route {
    let names = path.split(separator: "/").filter { $0.hasPrefix("{") }.map {
      String($0.dropFirst().dropLast())
    }
    let takesFile = method == .post && (path.hasSuffix("/messages") || path.hasSuffix("/file"))
    let body: Route.Body =
      takesFile
      ? .multipart(limit: uploadBytes, orCollected: bodyBytes)
      : method == .get ? .none : .collected(limit: bodyBytes)
    return Route(method, path, operation: "\(method) \(path)", body: body) { [unowned origin] request in
      origin.answer(request, names, operation)
    }
  }

  /// The fault desk and the files; outside the wire, so without a token and without faults.
  private static func extras(_ origin: OriginServer) -> [Route] {
    [
      Route(.get, "/_faults", operation: "faults") { [unowned origin] _ in
        .respond(Response.text(origin.desk.shown, type: "application/json"))
      },
      Route(.put, "/_faults", operation: "setFaults", body: .collected(limit: bodyBytes)) {
        [unowned origin] request in
        do {
          try origin.desk.set(OriginServer.body(request))
        } catch let refusal as Refusal {
          return .respond(refusal.response)
        }
        return .respond(Response.text(origin.desk.shown, type: "application/json"))
      },
      Route(.delete, "/_faults", operation: "clearFaults") { [unowned origin] _ in
        origin.desk.clear()
        return .respond(Response.text("{}", type: "application/json"))
      },
      Route(.get, "/files/{name}", operation: "file") { [unowned origin] request in
        let name = request.parameter(0)
        guard !name.contains("/"), name.hasPrefix("kept-") else {
          return .respond(Refusal(400201, "No such file.", status: 404).response)
        }
        return .respond(
          try Response.file(origin.uploads + "/" + name, type: "application/octet-stream", for: request))
      },
    ]
  }
}
