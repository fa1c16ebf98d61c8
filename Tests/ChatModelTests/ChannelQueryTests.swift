import Testing

@testable import ChatModel

@Suite struct ChannelQueryTests {
  private func fault(_ values: Int? = nil, _ change: (inout ChannelQuery) -> Void) -> String? {
    var query = ChannelQuery()
    change(&query)
    do throws(ChannelQuery.Invalid) {
      try query.validate(listValues: values)
      return nil
    } catch {
      return error.field
    }
  }

  @Test("B6: a query without options is good")
  func plain() { #expect(fault { _ in } == nil) }

  @Test("B6: each option that has no sense is named")
  func named() {
    #expect(fault { $0.limit = 0 } == "limit")
    #expect(fault { $0.limit = 101 } == "limit")
    #expect(fault { $0.order = .metadataValue } == "metadata_order_key")
    #expect(fault { $0.metadataOrderKey = "k" } == "metadata_order_key")
    #expect(fault { $0.metadataKey = "k" } == "metadata_key")
    #expect(fault { $0.metadataValues = ["v"] } == "metadata_key")
    #expect(fault { $0.junction = .or } == "query_type")
    #expect(fault { $0.nameContains = "" } == "name_contains")
    #expect(
      fault {
        $0.search = "x"
        $0.searchFields = []
      } == "search_fields")
    #expect(
      fault {
        $0.createdAfter = 5
        $0.createdBefore = 5
      } == "created_after")
  }

  @Test("B6: user_ids_include, user_ids_exact and nickname_contains exclude one another")
  func exclusive() {
    #expect(
      fault {
        $0.userIDsInclude = ["a"]
        $0.userIDsExact = ["b"]
      } == "user_ids_exact")
    #expect(
      fault {
        $0.userIDsExact = ["a"]
        $0.nicknameContains = "b"
      } == "nickname_contains")
  }

  @Test("B6: at most 20 values per list fit in a query string, more through a body")
  func lists() {
    let urls = (0..<21).map { "u\($0)" }
    #expect(fault(Limits.listValues) { $0.channelURLs = urls } == "channel_urls")
    #expect(fault { $0.channelURLs = urls } == nil)
    #expect(fault(Limits.listValues) { $0.channelURLs = Array(urls.prefix(20)) } == nil)
  }
}
