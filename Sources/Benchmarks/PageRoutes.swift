import ChatCache
import ChatModel
import MicroHTTP
import Platform
import Synchronization

/// `/rows`: 30 messages of about 400 bytes from the cache, at changing positions; `mhd_hello` reads as many
/// by one prepared statement. `/e304`: a 304 for a tag that matches.
enum PageRoutes {
  static func routes() throws -> [Route] {
    let pages = try Pages()
    return [
      Route(.get, "/rows", operation: "rows") { _ in .respond(try pages.page()) },
      Route(.get, "/e304", operation: "notModified") { request in
        let isKnown = request.header("If-None-Match").map { $0.elementsEqual("\"v1\"".utf8) } ?? false
        var response = isKnown ? Response.empty(304) : try pages.page()
        if isKnown { response.add("ETag", "\"v1\"") }
        return .respond(response)
      },
    ]
  }
}

/// Pages of 100 channels of 1000 messages, which were stored in turns.
private final class Pages: Sendable {
  private static let channels = 100
  private let filled: FilledCache
  private let turn = Atomic<UInt64>(1)

  init() throws {
    filled = try FilledCache.interleaved(channels: Pages.channels, messages: 1000)
    let sample = MessagePageQuery(.after(FilledCache.position(555), isInclusive: false), limit: 30)
    guard try self.filled.page(sample, in: FilledCache.url(7)).count > 30 * 400 else {
      throw BenchFailure(description: "the cache was not filled as meant")
    }
  }

  func page() throws -> Response {
    let number = turn.wrappingAdd(1, ordering: .relaxed).newValue &* 0x9E37_79B9_7F4A_7C15
    let position = FilledCache.position(Int((number >> 40) % 960))
    let query = MessagePageQuery(.after(position, isInclusive: false), limit: 30)
    let page = try filled.page(query, in: FilledCache.url(Int((number >> 32) % UInt64(Pages.channels))))
    var response = Response.json(page)
    response.add("Cache-Control", "no-cache")
    response.add("ETag", "\"12345-678\"")
    return response
  }
}
