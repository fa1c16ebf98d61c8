import Glibc
import MicroHTTP
import Platform
import Testing

@Suite struct ServerTests {
  @Test("a GET is answered on a connection that stays open, with the headers of every answer")
  func keepsAlive() throws {
    let test = try TestServer()
    let client = try test.client()
    for _ in 0..<3 {
      let answer = try #require(client.get("/hello"))
      #expect(answer.status == 200)
      #expect(answer.text == "hello")
      #expect(answer.header("Server") == "perch")
      #expect(answer.header("X-Content-Type-Options") == "nosniff")
      #expect(answer.header("X-Request-Id")?.count == 16)
      #expect(answer.header("Date") != nil)
    }
  }

  @Test(
    "a body in one piece, in many and in chunks arrives whole",
    .disabled(if: TestServer.distrustsLibrary, "A connection closes after a request with a body."))
  func collectsBodies() throws {
    let test = try TestServer()
    let client = try test.client()
    #expect(client.get("/echo", method: "POST", body: "abc")?.text == "abc")
    let long = String(repeating: "0123456789", count: 1000)
    #expect(client.get("/echo", method: "POST", body: long)?.text == long)
    client.send(
      "POST /echo HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n"
    )
    #expect(client.read()?.text == "abcdefg")
    for byte in "POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\n\r\nhi".utf8 {
      client.send([byte])
    }
    #expect(client.read()?.text == "hi")
    #expect(client.get("/echo", method: "POST", headers: ["Expect: 100-continue"], body: "x")?.text == "x")
  }

  @Test("path segments are decoded one by one: an encoded slash stays inside its segment")
  func decodesSegments() throws {
    let test = try TestServer()
    let client = try test.client()
    #expect(client.get("/items/a%2Fb/parts/%C3%A9%20")?.text == "a/b|é ")
    #expect(client.get("/it%65ms/x/parts/y")?.text == "x|y")
    #expect(client.get("/items/special/parts/y")?.text == "special")
    #expect(client.get("http://elsewhere/hello")?.text == "hello")
    for path in ["/items/a/b/parts/c", "/items//parts/c", "/hello/", "/", "//hello", "/items/x"] {
      #expect(client.get(path)?.status == 404, "\(path)")
    }
  }

  @Test("a query keeps its order and its repeats, and decodes plus and percent")
  func showsQueries() throws {
    let test = try TestServer()
    let client = try test.client()
    #expect(
      client.get("/query?a=1&a=-2&b=x+y%26&&c&d=99999999999999999999")?.text
        == "a=1;1\na=-2;-2\nb=x y&;-\nc=;-\nd=99999999999999999999;-")
  }

  @Test("a problem thrown is answered as problem+json, any other error as a 500 without details")
  func answersProblems() throws {
    let test = try TestServer()
    let client = try test.client()
    let answer = try #require(client.get("/problem", headers: ["X-Request-Id: mine-1"]))
    #expect(answer.status == 409)
    #expect(answer.header("Content-Type") == "application/problem+json")
    #expect(answer.header("Retry-After") == "7")
    #expect(answer.header("X-Request-Id") == "mine-1")
    #expect(
      answer.text
        == #"{"type":"/problems/wrong_state","title":"Wrong state","status":409,"code":"wrong_state","#
        + #""detail":"do something else","x_request_id":"mine-1","#
        + #""errors":[{"field":"name","detail":"taken \"twice\""}],"upstream":{"code":1}}"#)
    let bug = try #require(client.get("/bug"))
    #expect(bug.status == 500)
    #expect(!bug.text.contains("Unexplained"))
    #expect(client.get("/hello")?.status == 200)
  }

  @Test("HEAD is GET without its body, OPTIONS and 405 say what is allowed, 404 keeps the connection")
  func answersOtherMethods() throws {
    let test = try TestServer()
    let client = try test.client()
    let head = try #require(client.get("/hello", method: "HEAD"))
    #expect(head.status == 200 && head.header("Content-Length") == "5")
    let options = try #require(client.get("/hello", method: "OPTIONS"))
    #expect(options.status == 204 && options.header("Allow") == "GET, HEAD, OPTIONS")
    #expect(client.get("*", method: "OPTIONS")?.status == 204)
    for method in ["POST", "BREW", "DELETE"] {
      let answer = try #require(client.get("/hello", method: method))
      #expect(answer.status == 405 && answer.header("Allow") == "GET, HEAD, OPTIONS")
    }
    #expect(client.get("/nothing")?.status == 404)
    #expect(client.get("/hello")?.status == 200)
  }

  @Test("bodies are refused by their length, type and size")
  func refusesBodies() throws {
    let test = try TestServer()
    #expect(try test.client().get("/json", method: "POST")?.status == 411)
    #expect(
      try test.client().get("/json", method: "POST", headers: ["Content-Type: text/plain"], body: "x")?.status
        == 415)
    #expect(
      try test.client().get(
        "/json", method: "POST", headers: ["Content-Type: application/JSON; charset=utf-8"], body: "{}")?
        .text == "2")
    let long = String(repeating: "x", count: 101)
    #expect(
      try test.client().get("/json", method: "POST", headers: ["Content-Type: application/json"], body: long)?
        .status == 413)
    let client = try test.client()
    client.send("POST /echo HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in 0..<11 { client.send("400\r\n" + String(repeating: "y", count: 1024) + "\r\n") }
    client.send("0\r\n\r\n")
    #expect(client.read()?.status == 413)
  }

  @Test("something remembered about a connection is there for its next request only")
  func remembersPerConnection() throws {
    let test = try TestServer()
    let client = try test.client()
    #expect(client.get("/count")?.text == "1")
    #expect(client.get("/count")?.text == "2")
    #expect(try test.client().get("/count")?.text == "1")
  }

  @Test("a request id of the client is echoed when it is harmless and replaced when it is not")
  func echoesRequestIDs() throws {
    let test = try TestServer()
    let client = try test.client()
    #expect(client.get("/hello", headers: ["x-request-id: abc.DEF-1"])?.header("X-Request-Id") == "abc.DEF-1")
    #expect(client.get("/hello", headers: ["x-request-id: a b"])?.header("X-Request-Id")?.count == 16)
  }

  @Test("headers of nearly 6 KiB are taken, in few lines and in many")
  func takesLargeHeads() throws {
    let test = try TestServer()
    let client = try test.client()
    let token = "Authorization: Bearer " + String(repeating: "t", count: 5800)
    #expect(client.get("/hello", headers: [token, "Accept: */*", "User-Agent: test"])?.text == "hello")
    let many = (0..<24).map { "X-Header-\($0): " + String(repeating: "v", count: 150) }
    #expect(client.get("/hello", headers: many)?.text == "hello")
    #expect(client.get("/hello")?.text == "hello")
  }

  @Test("HTTP/1.0 is answered and its connection closed")
  func speaksOldHTTP() throws {
    let test = try TestServer()
    let client = try test.client()
    client.send("GET /hello HTTP/1.0\r\n\r\n")
    #expect(client.read()?.text == "hello")
    #expect(client.isClosed)
  }
}
