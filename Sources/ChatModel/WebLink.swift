/// Links that a client may follow: only http and https, because other schemes may run a script.
package enum WebLink {
  /// Whether the text is such a link.
  package static func isLink(_ url: String) -> Bool {
    for scheme in ["http://", "https://"] where url.lowercased().hasPrefix(scheme) {
      let rest = url.utf8.dropFirst(scheme.utf8.count)
      return !rest.isEmpty && rest.allSatisfy { $0 > 0x20 && $0 != 0x7F }
    }
    return false
  }
}
