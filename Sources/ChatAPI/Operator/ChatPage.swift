import MicroHTTP
import Platform

/// The chat page and its files, made once. Each has a tag, so that a browser asks for its bytes again only
/// when the service is another version.
struct ChatPage {
  private let fileOrigins: [String]
  private let hasReference: Bool

  /// `fileOrigins`: where messages' pictures may come from. `hasReference`: whether the page's own address
  /// has the contract.
  init(fileOrigins: [String], hasReference: Bool) {
    self.fileOrigins = fileOrigins
    self.hasReference = hasReference
  }

  var routes: [Route] {
    let html = ChatPageFile("text/html; charset=utf-8", html, [("Content-Security-Policy", policy)])
    let style = ChatPageFile("text/css; charset=utf-8", PackageResources.page_css)
    let script = ChatPageFile("text/javascript; charset=utf-8", ChatPage.script)
    let icon = ChatPageFile("image/svg+xml", PackageResources.icon_svg)
    return [
      Route(.get, "/", operation: "getChatPage") { html.answer($0) },
      Route(.get, "/page.css", operation: "getChatPageStyle") { style.answer($0) },
      Route(.get, "/page.js", operation: "getChatPageScript") { script.answer($0) },
      Route(.get, "/icon.svg", operation: "getChatPageIcon") { icon.answer($0) },
    ]
  }

  /// Nothing but the page's own files runs, and nothing is asked for elsewhere but pictures and sounds from
  /// the operator's origins.
  private var policy: String {
    let media = (["'self'", "blob:"] + fileOrigins).joined(separator: " ")
    return [
      "default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src \(media)",
      "media-src \(media)", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
      "require-trusted-types-for 'script'", "trusted-types 'none'",
    ].joined(separator: "; ")
  }

  /// The page, with the origins of `fileOrigins` for its script to read, and without links that lead nowhere.
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

  /// The modules in the order in which each finds what it needs.
  private static let modules: [[UInt8]] = [
    PackageResources.dom_js, PackageResources.words_js, PackageResources.format_js,
    PackageResources.session_js, PackageResources.transport_js, PackageResources.feed_js,
    PackageResources.file_store_js, PackageResources.outbox_js, PackageResources.rows_js,
    PackageResources.people_js, PackageResources.rich_text_js, PackageResources.attachment_js,
    PackageResources.message_row_js, PackageResources.message_list_js, PackageResources.gaps_js,
    PackageResources.message_actions_js, PackageResources.mention_picker_js, PackageResources.composer_js,
    PackageResources.log_items_js, PackageResources.conversation_js, PackageResources.channel_order_js,
    PackageResources.channel_view_js, PackageResources.channel_list_js, PackageResources.chat_js,
    PackageResources.inspector_requests_js, PackageResources.inspector_line_js, PackageResources.inspector_js,
    PackageResources.page_js,
  ]

  /// The modules as one: without what they import from each other, and without the word `export`.
  static let script: [UInt8] = {
    var joined: [UInt8] = []
    for module in modules {
      for line in module.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false) {
        let isImport = line.starts(with: "import ".utf8)
        if isImport, String(decoding: line, as: UTF8.self).contains("from \"./") { continue }
        joined += line.starts(with: "export ".utf8) ? line.dropFirst(7) : line
        joined.append(UInt8(ascii: "\n"))
      }
    }
    return joined
  }()
}

/// One of the page's files: the answer with its bytes, and the one for a browser that has them.
private struct ChatPageFile {
  private let tag: String
  private let whole: SharedResponse
  private let same: SharedResponse

  init(_ type: StaticString, _ bytes: [UInt8], _ more: [(name: StaticString, value: String)] = []) {
    tag = bytes.withUnsafeBytes { EntityTag(of: $0) }.text
    let headers: [(name: StaticString, value: String)] =
      [("ETag", tag), ("Cache-Control", "no-cache"), ("Referrer-Policy", "no-referrer")] + more
    var body = ByteBuffer(capacity: bytes.count)
    bytes.withUnsafeBytes { body.append($0) }
    whole = SharedResponse(type: type, headers: headers, body: body)
    same = SharedResponse(status: 304, type: nil, headers: headers, body: ByteBuffer())
  }

  func answer(_ request: Request) -> Outcome {
    .respond(EntityTag.isKnown(tag, to: request) ? same.response : whole.response)
  }
}
