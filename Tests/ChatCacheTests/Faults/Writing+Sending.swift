import ChatModel

@testable import ChatCache

// Writes to unsent messages between their acceptance and their end.
extension Writing {
  private static let laneKey = OutboxTableTests.laneKey
  private static let lane = OutboxLaneName(user: UserID("alice"), channel: laneKey.channel)

  /// The steps of a lane.
  static let steps: [Writing] = [beginning, finishing, editing, merging, canceling, outliving, resending]

  private static func accept(_ cache: Cache, _ names: [String], lifetime: Int64? = nil) throws {
    try OutboxTableTests.prepare(cache)
    for name in names {
      var request = OutboxTableTests.request(name)
      if let lifetime { request.lifetime = lifetime }
      let asked = request
      _ = try cache.accept { try $0.accept(asked, in: laneKey) }
    }
  }

  /// Begins to send the first row.
  private static func dispatch(_ cache: Cache) throws {
    try cache.accept { writer in
      _ = try writer.changeLane(laneKey, from: try writer.reader.laneStep(laneKey)) { lane in
        _ = lane.dispatch(1, .send, now: writer.now)
        return []
      }
    }
  }

  private static let beginning = Writing(
    name: "the start of a send", prepare: { try accept($0, ["a", "b"]) }, write: { try dispatch($0) })

  private static let finishing = Writing(
    name: "taking in the answer to a send",
    prepare: { cache in
      try accept(cache, ["a", "b"])
      try dispatch(cache)
    },
    write: { cache in
      let job = OutboxJob(
        row: 1, job: .send, kind: .message, requestID: RequestID("a")!, target: nil, targetKind: .user,
        aspect: "", params: Array("{}".utf8))
      try cache.accept {
        _ = try $0.advance(
          lane, after: EndedOutboxJob(job, .success(message: 7)), mayBegin: false, OutboxPolicy(), random: 1)
      }
    })

  private static func edit(_ cache: Cache) throws {
    var edit = OutboxTableTests.request("e", .edit, #"{"message":"better"}"#)
    edit.unsentTarget = RequestID("a")
    let asked = edit
    _ = try cache.accept { try $0.accept(asked, in: laneKey) }
  }

  private static let editing = Writing(
    name: "editing an unsent message", prepare: { try accept($0, ["a", "b"]) }, write: { try edit($0) })

  private static let merging = Writing(
    name: "an edit that goes into its message",
    prepare: { cache in
      try accept(cache, ["a", "b"])
      try dispatch(cache)
      try edit(cache)
    },
    write: { cache in
      try cache.accept { writer in
        _ = try writer.changeLane(laneKey, from: try writer.reader.laneStep(laneKey, row: 1)) {
          $0.finish(1, .send, .wait(until: writer.now), now: writer.now, random: 1)
        }
      }
    })

  private static let canceling = Writing(
    name: "taking a message back", prepare: { try accept($0, ["a", "b"]) },
    write: { cache in
      try cache.accept { writer in
        _ = try writer.changeLane(laneKey, from: try writer.reader.laneStep(laneKey, row: 1)) {
          $0.cancel(1, now: writer.now).notices
        }
      }
    })

  private static let outliving = Writing(
    name: "messages that are out of time", prepare: { try accept($0, ["a", "b"], lifetime: 0) },
    write: { cache in try cache.accept { try $0.expireOutbox() } })

  private static let resending = Writing(
    name: "sending a failed message again",
    prepare: { cache in
      try accept(cache, ["a", "b"], lifetime: 0)
      try cache.accept { try $0.expireOutbox() }
    },
    write: { cache in
      try cache.accept { writer in
        _ = try writer.changeLane(laneKey, from: try writer.reader.laneStep(laneKey, row: 1)) {
          $0.resend(1, now: writer.now).notices
        }
      }
    })
}
