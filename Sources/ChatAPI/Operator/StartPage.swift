/// Short pages: the start page, and one for each problem.
enum StartPage {
  static func make(hasReference: Bool) -> [UInt8] {
    let links =
      hasReference
      ? """
      <li><a href="/docs">The reference</a>, or the contract as <a href="/openapi.yaml">YAML</a> and
      <a href="/openapi.json">JSON</a></li>
      <li><a href="/readyz">Whether it is ready</a>, and <a href="/metrics">what it counts</a></li>
      """
      : """
      <li><a href="/readyz">Whether it is ready</a></li>
      """
    return Array(
      page(
        "Perch",
        """
        <p>Perch keeps a chat server's channels and messages at hand and serves them over HTTP.</p>
        <ul>
        \(links)
        </ul>
        <p>With a user's token, made with the data directory's secret, this lists the user's channels:</p>
        <pre>TOKEN=$(perch token --data DIR --user alice)
        curl -s -H "Authorization: Bearer $TOKEN" http://HOST/v1/channels</pre>
        """
      ).utf8)
  }

  /// The page of one problem code. `meanings`: the code's meanings, one for each status that it comes with.
  static func problem(_ meanings: [ProblemTable.Meaning], hasReference: Bool) -> String {
    let link = hasReference ? "\n<p><a href=\"/docs#problems\">All problems</a></p>" : ""
    let title = meanings.map { "\($0.status) \($0.code)" }.joined(separator: ", ")
    let parts = meanings.map { meaning in
      """
      <h2>\(meaning.status)</h2>
      <p>\(HTMLText.inline(meaning.cause))</p>
      <p>\(HTMLText.inline(meaning.action))</p>
      <pre>\(HTMLText.escaped(meaning.example))</pre>
      """
    }
    return page(title, parts.joined(separator: "\n") + link)
  }

  /// A page in the service's plain style, without outside assets. `script`: the path of the script that it
  /// runs.
  static func page(_ title: String, _ body: String, script: String? = nil) -> String {
    """
    <!doctype html>
    <html lang="en">
    <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width">
    <title>\(HTMLText.escaped(title))</title>
    \(script.map { "<script type=\"module\" src=\"\($0)\"></script>" } ?? "")
    <style>
    :root { color-scheme: light dark } body { font: 16px/1.5 system-ui, sans-serif; color: #222 }
    body { max-width: 52rem; margin: 2rem auto; padding: 0 1rem }
    code, pre { font: 14px/1.5 ui-monospace, monospace; background: #f4f4f2; border-radius: 4px }
    code { padding: 0 .25em } pre { padding: .75rem; overflow-x: auto } a { color: #0a58a5 }
    h2 { margin-top: 2.5rem } h3 { margin: 1.75rem 0 .25rem } .verb { color: #0a58a5; font-weight: 600 }
    form.try { display: grid; gap: .25rem; max-width: 40rem; padding: .5rem 0 }
    .try button { justify-self: start }
    input, textarea, button { font: inherit; max-width: 100%; box-sizing: border-box }
    .result pre { max-height: 24rem; overflow: auto; white-space: pre-wrap; overflow-wrap: anywhere }
    table { border-collapse: collapse } td { padding: .1rem .75rem .1rem 0; vertical-align: top }
    @media (max-width: 40rem) {
    body { overflow-wrap: anywhere } td { display: block } td:first-child { padding-top: .5rem } }
    @media (prefers-color-scheme: dark) {
    body { background: #1b1b1a; color: #ddd } code, pre { background: #2a2a28 } a, .verb { color: #7db8f0 } }
    </style>
    </head>
    <body>
    <h1>\(HTMLText.escaped(title))</h1>
    \(body)
    </body>
    </html>

    """
  }
}
