import MicroHTTP

/// The chat page and its files. Each has a tag, so that a browser loads it again only after it changed.
struct ChatPage: Sendable {
  private let fileOrigins: [String]
  private let hasReference: Bool

  /// `fileOrigins`: where messages' pictures may come from. `hasReference`: whether the page's own address
  /// has the contract.
  init(fileOrigins: [String], hasReference: Bool) {
    self.fileOrigins = fileOrigins
    self.hasReference = hasReference
  }

  var routes: [Route] {
    let alone: (name: StaticString, value: String) = ("Referrer-Policy", "no-referrer")
    let page = PageFile("text/html; charset=utf-8", [("Content-Security-Policy", policy), alone]) { html }
    let style = PageFile("text/css; charset=utf-8", [alone]) { PackageResources.page_css }
    let script = PageFile("text/javascript; charset=utf-8", [alone]) { ChatPage.script }
    let icon = PageFile("image/svg+xml", [alone]) { PackageResources.icon_svg }
    return [
      Route(.get, "/", operation: "getChatPage") { page.answer($0) },
      Route(.get, "/page.css", operation: "getChatPageStyle") { style.answer($0) },
      Route(.get, "/page.js", operation: "getChatPageScript") { script.answer($0) },
      Route(.get, "/icon.svg", operation: "getChatPageIcon") { icon.answer($0) },
    ]
  }

  /// Only the page's own files run. Of other origins only `fileOrigins` are asked, for pictures, videos and
  /// sounds.
  private var policy: String {
    let media = (["'self'", "blob:"] + fileOrigins).joined(separator: " ")
    return [
      "default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src \(media)",
      "media-src \(media)", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
      "require-trusted-types-for 'script'", "trusted-types 'none'",
    ].joined(separator: "; ")
  }

  /// The page with `fileOrigins`, which its script reads, and without links to a reference that is not there.
  private var html: [UInt8] {
    let lines = String(decoding: PackageResources.page_html, as: UTF8.self)
      .replacing(
        #"name="file-origins" content="""#,
        with: #"name="file-origins" content="\#(HTMLText.escaped(fileOrigins.joined(separator: " ")))""#
      )
      .split(separator: "\n", omittingEmptySubsequences: false)
      .filter { hasReference || !$0.contains(#"class="links""#) }
    return Array(lines.joined(separator: "\n").utf8)
  }

  /// The modules; each comes after those that it imports.
  private static let modules: [[UInt8]] = [
    PackageResources.dom_js, PackageResources.words_js, PackageResources.format_js,
    PackageResources.session_js, PackageResources.as_curl_js, PackageResources.transport_js,
    PackageResources.feed_js,
    PackageResources.file_store_js, PackageResources.outbox_js, PackageResources.rows_js,
    PackageResources.people_js, PackageResources.rich_text_js, PackageResources.attachment_js,
    PackageResources.message_row_js, PackageResources.message_list_js, PackageResources.gaps_js,
    PackageResources.message_actions_js, PackageResources.mention_picker_js, PackageResources.composer_js,
    PackageResources.log_items_js, PackageResources.conversation_js, PackageResources.channel_order_js,
    PackageResources.channel_view_js, PackageResources.channel_list_js, PackageResources.chat_js,
    PackageResources.inspector_requests_js, PackageResources.inspector_line_js, PackageResources.inspector_js,
    PackageResources.page_js,
  ]

  /// All modules as one script.
  static let script = PageScript.joined(modules)
}
