import Glibc
import MicroHTTP
import Platform
import TestFolders
import Testing

@Suite struct BodyTests {
  private func form(_ parts: String, boundary: String = "xYz") -> (type: String, body: String) {
    ("Content-Type: multipart/form-data; boundary=\(boundary)", parts)
  }

  @Test(
    "a multipart form gives its fields and streams its files to disk, however it is cut",
    .disabled(if: TestServer.distrustsLibrary, "A connection closes after a request with a body."))
  func readsForms() throws {
    let test = try TestServer()
    let body =
      "preamble\r\n--xYz\r\nContent-Disposition: form-data; name=\"params\"\r\nContent-Type: application/json\r\n\r\n{\"a\":1}"
      + "\r\n--xYz\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a \\\"b\\\".txt\"\r\n"
      + "Content-Type: text/plain\r\n\r\nline\r\n--xY not yet\r\n\r\n--xYz\r\ncontent-disposition: form-data; name=empty"
      + "\r\n\r\n\r\n--xYz--\r\nepilogue"
    let wanted =
      "params|-|application/json|7|-2|{\"a\":1}\nfile|a \"b\".txt|text/plain|20|20|\nempty|-|-|0|-2|"
    let client = try test.client()
    let type = "Content-Type: multipart/form-data; charset=x; boundary=\"xYz\""
    #expect(client.get("/form", method: "POST", headers: [type], body: body)?.text == wanted)
    for step in [1, 3, 7] {
      client.send("POST /form HTTP/1.1\r\nHost: t\r\n\(type)\r\nContent-Length: \(body.utf8.count)\r\n\r\n")
      var rest = Array(body.utf8)[...]
      while !rest.isEmpty {
        client.send(Array(rest.prefix(step)))
        rest = rest.dropFirst(step)
      }
      #expect(client.read()?.text == wanted)
    }
  }

  @Test("a large file arrives whole and goes with its request")
  func streamsFiles() throws {
    let directory = TestFolder.make("uploads")
    let test = try TestServer { $0.uploadDirectory = directory }
    let file = String(repeating: "0123456789abcdef\r\n", count: 130_000)
    let body = "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x\"\r\n\r\n\(file)\r\n--b--\r\n"
    let type = "Content-Type: multipart/form-data; boundary=b"
    let size = file.utf8.count
    #expect(
      try test.client().get("/form", method: "POST", headers: [type], body: body)?.text
        == "f|x|-|\(size)|\(size)|")
    #expect(TestServer.until { test.server.counters.running == 0 && rmdir(directory) == 0 })
  }

  @Test(
    "a multipart form that is no form is a 400",
    arguments: [
      "", "--b", "--b\r\n", "--b\r\n\r\n\r\n--b--", "--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--",
      "--b\r\nContent-Disposition: form-data; name=a\r\n\r\nx",
      "--b\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n--bc",
    ])
  func refusesBadForms(_ body: String) throws {
    let test = try TestServer()
    let type = "Content-Type: multipart/form-data; boundary=b"
    let answer = try test.client().get("/form", method: "POST", headers: [type], body: body)
    #expect(answer?.status == 400)
    #expect(answer?.text.contains("malformed_multipart") == true)
  }

  @Test("a form of another type is a 415, too many parts a 400, too many bytes a 413")
  func limitsForms() throws {
    let test = try TestServer()
    #expect(
      try test.client().get("/form", method: "POST", headers: ["Content-Type: text/plain"], body: "x")?.status
        == 415)
    let type = "Content-Type: multipart/form-data; boundary=b"
    let part = "--b\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n"
    let many = String(repeating: part, count: 17) + "--b--"
    #expect(try test.client().get("/form", method: "POST", headers: [type], body: many)?.status == 400)
    let client = try test.client()
    client.send("POST /form HTTP/1.1\r\nHost: t\r\n\(type)\r\nContent-Length: 3000001\r\n\r\n")
    #expect(client.read()?.status == 413)
  }

  @Test("a file is answered whole, by range, or not at all when the range lies outside")
  func answersRanges() throws {
    let file = fopen("/tmp/perch-http-test-file", "w")!
    fputs("0123456789", file)
    fclose(file)
    let test = try TestServer()
    let client = try test.client()
    func range(_ value: String, _ more: String...) -> RawClient.Answer? {
      client.get("/file", headers: ["Range: \(value)"] + more)
    }
    let whole = try #require(client.get("/file"))
    #expect(whole.status == 200 && whole.text == "0123456789" && whole.header("Accept-Ranges") == "bytes")
    let middle = try #require(range("bytes=2-4"))
    #expect(middle.status == 206 && middle.text == "234" && middle.header("Content-Range") == "bytes 2-4/10")
    #expect(range("bytes=7-")?.text == "789")
    #expect(range("bytes=-2")?.text == "89")
    #expect(range("bytes=8-100")?.text == "89")
    #expect(range("bytes=-100")?.header("Content-Range") == "bytes 0-9/10")
    let outside = try #require(range("bytes=10-"))
    #expect(outside.status == 416 && outside.header("Content-Range") == "bytes */10")
    for odd in ["bytes=4-2", "bytes=a-b", "lines=1-2", "bytes=0-1,3-4", "bytes=-"] {
      #expect(range(odd)?.status == 200, "\(odd)")
    }
    #expect(range("bytes=0-0", "If-Range: \"v1\"")?.status == 206)
    #expect(range("bytes=0-0", "If-Range: \"v2\"")?.status == 200)
  }
}
