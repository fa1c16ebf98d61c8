import Glibc
import Testing

@testable import MicroHTTP

/// The headers of answers, which the server writes over the library's copy.
@Suite struct HeaderTests {
  private static func escaped(_ text: String) -> String {
    text.utf8.map { "%" + ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
  }

  @Test(
    "headers come as they were added: none, empty ones, two of a name, long ones",
    .disabled(if: TestServer.distrustsLibrary, "The library takes no header without a value."))
  func arrive() throws {
    let test = try TestServer()
    let client = try test.client()
    let long = String(repeating: "0123456789", count: 160)
    for given in [
      [], [("X-Empty", "")], [("X-One", "1"), ("X-Two", "two words, with\ttab: \"x\" é")],
      [("Vary", "A"), ("Vary", "B")], [("X-Long", long), ("X-Last", "z")],
    ] as [[(String, String)]] {
      let query = given.map { "\($0)=\(Self.escaped($1))" }.joined(separator: "&")
      for method in ["GET", "HEAD", "GET"] {
        client.send("\(method) /headers?\(query) HTTP/1.1\r\nHost: test\r\n\r\n")
        let answer = try #require(client.read(head: method == "HEAD"))
        let own = answer.headers.filter { $0.name.hasPrefix("X-") || $0.name == "Vary" }
        let others = ["X-Content-Type-Options", "X-Request-Id"]
        #expect(
          own.filter { !others.contains($0.name) }.map { [$0.name, $0.value] } == given.map { [$0, $1] })
        #expect(answer.status == 200 && answer.header("Content-Length") == "7")
        #expect(answer.header("X-Content-Type-Options") == "nosniff" && answer.header("Server") == "perch")
        #expect(answer.header("Content-Type") == "text/plain; charset=utf-8")
        #expect(answer.header("X-Request-Id")?.count == 16 && answer.header("Date") != nil)
        #expect(answer.text == (method == "HEAD" ? "" : "headers"))
      }
    }
  }

  @Test(
    "a value that would end its header, and a name that is none, are left out",
    arguments: ["a\r\nX-Evil: 1", "a\nX-Evil: 1", "a\rX-Evil: 1", "\r\n\r\n<html>", "a\u{1}b", "a\u{7F}"])
  func refused(_ value: String) throws {
    let test = try TestServer()
    let client = try test.client()
    for query in [
      "X-Given=\(Self.escaped(value))&X-After=1", "\(Self.escaped("X-\(value)"))=1&X-After=1",
      "X%20Y=1&=2&X-After=1",
    ] {
      let answer = try #require(client.get("/headers?\(query)"))
      #expect(answer.status == 200 && answer.text == "headers" && answer.header("X-After") == "1")
      #expect(!answer.headers.contains { $0.name.contains("Evil") || $0.name.contains("Given") })
      #expect(answer.headers.filter { $0.name.hasPrefix("X") }.count == 3, "\(answer.headers)")
    }
  }

  @Test("an answer that closes says so once, whatever else it has")
  func closing() throws {
    let test = try TestServer()
    let client = try test.client()
    client.send("POST /hello HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\n")
    let answer = try #require(client.read())
    #expect(answer.headers.filter { $0.name == "Connection" }.map(\.value) == ["close"])
    #expect(answer.status == 405 && answer.header("Allow") == "GET, HEAD, OPTIONS")
  }
}

/// A connection's memory is made present before many answers need it at once.
@Suite struct ConnectionMemoryTests {
  private static let page = Int(sysconf(Int32(_SC_PAGESIZE)))

  private static func present(_ start: UnsafeMutableRawPointer, pages: Int) -> [Bool] {
    var found = [UInt8](repeating: 0, count: pages)
    mincore(start, pages * page, &found)
    return found.map { $0 & 1 == 1 }
  }

  private static func memory(pages: Int) -> UnsafeMutableRawPointer {
    mmap(nil, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
  }

  @Test("all pages of the block become present, none after it, and what is in them stays")
  func fills() {
    let start = Self.memory(pages: 6)
    defer { munmap(start, 6 * Self.page) }
    let head = start.assumingMemoryBound(to: CChar.self) + 100
    head[0] = 71
    #expect(Self.present(start, pages: 6) == [true, false, false, false, false, false])
    ConnectionMemory.fill(from: head, bytes: 3 * Self.page)
    #expect(Self.present(start, pages: 6) == [true, true, true, true, false, false])
    #expect(head[0] == 71 && (1..<(3 * Self.page)).allSatisfy { head[$0] == 0 })
    ConnectionMemory.fill(from: head, bytes: Self.page - 100)
    #expect(Self.present(start, pages: 6) == [true, true, true, true, false, false])
  }

  @Test("memory that is not there is none to be filled")
  func atTheEnd() {
    let start = Self.memory(pages: 3)
    defer { munmap(start, 2 * Self.page) }
    munmap(start + 2 * Self.page, Self.page)
    let head = start.assumingMemoryBound(to: CChar.self)
    head[0] = 71
    ConnectionMemory.fill(from: head, bytes: 3 * Self.page)
    #expect(head[0] == 71 && Self.present(start, pages: 2)[0])
  }
}
