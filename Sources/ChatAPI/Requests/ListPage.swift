import JSON
import MicroHTTP

// A page of a list: its items, and the token of the next page in the body and as a link.

extension JSONWriter {
  /// Writes `items`, `next` and `has_next`; the caller adds other fields and ends the object. `next`: the
  /// token of the next page.
  mutating func beginPage(next: String?, _ items: (inout JSONWriter) -> Void) {
    beginObject()
    name("items")
    beginArray()
    items(&self)
    endArray()
    name("next")
    if let next { value(next) } else { null() }
    field("has_next", next != nil)
  }
}

extension Response {
  /// Adds a `Link` to the next page, if there is one and the link is not too long.
  mutating func link(next: String?, _ request: Request) {
    guard let next, PageLink.repeats(request) else { return }
    addIfItFits("Link") { $0.append(PageLink.text(request, "after", next, "next")) }
  }
}
