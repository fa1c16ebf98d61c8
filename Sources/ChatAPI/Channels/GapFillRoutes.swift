import ChatCache
import ChatCollections
import ChatModel
import JSON
import MicroHTTP

/// Starts and stops the filling of a gap; the sync worker fills it (B28).
enum GapFillRoutes {
  static func routes(_ context: RouteContext) -> [Route] {
    [
      Route(.post, "/v1/channels/{channel_url}/gaps/{gap_id}/fill", operation: "fillGap") { request in
        try Parameters(request).end()
        return try context.admitted(request) { caller in
          try context.inChannel(request, caller, needsJoined: true) { url, caller in
            let gap = try known(context, request, url, caller)
            context.syncRequests.fill(gap: gap.0, in: url)
            var json = JSONWriter()
            json.beginObject()
            json.name("gap")
            GapObject.write(gap.1, into: &json)
            json.endObject()
            return .respond(.json(json.finish(), status: 202))
          }
        }
      },
      Route(.delete, "/v1/channels/{channel_url}/gaps/{gap_id}/fill", operation: "stopGapFill") { request in
        try Parameters(request).end()
        return try context.admitted(request) { caller in
          try context.inChannel(request, caller, needsJoined: true) { url, caller in
            context.syncRequests.stopFilling(gap: try known(context, request, url, caller).0, in: url)
            return .respond(.empty(204))
          }
        }
      },
    ]
  }

  /// The gap that the path names, if the user may see a part of it (B23).
  private static func known(
    _ context: RouteContext, _ request: Request, _ url: ChannelURL, _ caller: Caller
  ) throws -> (Int64, Segment) {
    try context.read { reader in
      guard let key = try reader.userKey(of: caller.user), let view = try reader.view(of: url, for: key)
      else {
        throw Problem.channelNotFound
      }
      guard let id = Parameters.number(request.parameter(1)),
        let gap = try reader.coverage(of: view.channel).gap(id),
        gap.range.upperBound >= Position.first(at: view.floorAt)
      else {
        throw Problem(404, "gap_not_found", detail: "There is no such gap any more: list the channel's gaps.")
      }
      return (id, gap)
    }
  }
}
