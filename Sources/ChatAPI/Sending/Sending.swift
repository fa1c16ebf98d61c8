import ChatCache
import ChatCollections
import ChatModel
import JSON
import MicroHTTP
import Platform

/// The services and settings that the routes for sending, changing and canceling share.
final class Sending: Sendable {
  /// Reads the cache and checks tokens.
  let context: RouteContext
  /// Wakes requests that wait for an unsent row.
  let subscriptions: ChangeSubscriptions
  /// The operator's choices.
  let policy: OutboxPolicy

  init(context: RouteContext, subscriptions: ChangeSubscriptions, policy: OutboxPolicy) {
    self.context = context
    self.subscriptions = subscriptions
    self.policy = policy
  }

  /// The parts of a confirmed message that answers about sending show.
  static let parts: MessageQuery.Parts = [.reactions, .metaarray, .threadInfo]

  /// The caller of a write, the channel, and the request id.
  struct Writing {
    let request: Request
    let caller: Caller
    let url: ChannelURL
    let name: RequestID?
    /// The file that is stored together with the row; nil for none.
    var file: IncomingFile?
  }

  /// Runs `body` in a write, and `then` when the commit is durable; no thread waits for the disk. The commit
  /// is announced to the sync worker, which sends the row. An error of `body` is answered as a problem.
  /// `failed` is called if `then` will not run. A file is on the disk before `body` runs; `keepsFile`:
  /// whether a written row names the file.
  func commit<Made: Sendable>(
    _ writing: Writing, _ body: @escaping @Sendable (CacheWriter) throws -> Made,
    keepsFile: @escaping @Sendable (Made) -> Bool = { _ in false }, failed: @escaping () -> Void = {},
    then: @escaping (Made) throws -> Outcome
  ) throws -> Outcome {
    let syncRequests = context.syncRequests
    let cache = context.cache
    let (user, url) = (writing.caller.user, writing.url)
    let change = Sending.problems(naming: writing.name)
    do {
      let write = DurableWrite<Made>(
        milliseconds: writing.file == nil
          ? DurableWriteLimit.milliseconds : UploadLimit.storingMilliseconds)
      return try write.answer(
        writing.request,
        submit: { finish in
          let told: @Sendable (Result<Made, any Error>) -> Void = { result in
            if case .success = result { syncRequests.accepted(of: user, in: url) }
            finish(result)
          }
          if let file = writing.file {
            FileWrite(cache, file).store(body, keepsFile, told)
          } else {
            cache.accept(body, finish: told)
          }
        }, failed: failed, then: then
      ).mapErrors(change)
    } catch {
      throw change(error)
    }
  }

  /// Turns errors into problems. A problem after which the request may still be stored names the request id.
  private static func problems(naming name: RequestID?) -> (any Error) -> any Error {
    { error in
      switch error {
      case let denial as SendingDenial: return Problem(denial)
      case let error as CacheError: return name.map { Problem(error).naming($0) } ?? Problem(error)
      case let problem as Problem:
        let mayBeStored = problem.code != "idempotency_mismatch" && problem.code != "precondition_failed"
        guard let name, mayBeStored else { return problem }
        return problem.naming(name)
      default: return error
      }
    }
  }

  /// The caller's lane in a channel. Throws if the caller is not in the channel.
  static func lane(
    _ reader: CacheReader, _ caller: UserID, _ url: ChannelURL
  ) throws -> (view: ChannelView, laneKey: OutboxLaneKey) {
    guard let key = try reader.userKey(of: caller), let view = try reader.view(of: url, for: key) else {
      throw SendingDenial.channelNotFound
    }
    guard view.isJoined else { throw SendingDenial.notJoined }
    return (view, OutboxLaneKey(user: key, channel: url))
  }

  /// A JSON answer that no cache may store.
  static func answer(_ object: [UInt8], status: Int) -> Response {
    var body = ByteBuffer(capacity: object.count)
    object.withUnsafeBytes { body.append($0) }
    return CollectionContext.answer(body, status: status)
  }

  /// The path of an unsent message of the caller.
  static func location(of id: RequestID, in url: ChannelURL) -> String {
    "/v1/channels/\(PercentEncoding.encode(url.text))/messages/request_id:\(id.text)"
  }
}
