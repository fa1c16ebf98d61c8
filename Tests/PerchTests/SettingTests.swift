import Glibc
import MicroHTTP
import Testing

@testable import perch

@Suite struct SettingTests {
  private func read(_ words: [String], _ environment: [String: String] = [:]) throws -> SettingValues {
    try SettingReader(command: .serve).read(words, environment: environment)
  }

  private func refusal(_ words: [String], _ environment: [String: String] = [:]) -> String {
    #expect(throws: SettingError.self) { try read(words, environment) }?.description ?? ""
  }

  @Test("a flag wins over its variable, and the variable over the default")
  func precedence() throws {
    #expect(try read([]).number("workers") == 2)
    #expect(try read([], ["PERCH_WORKERS": "3"]).number("workers") == 3)
    #expect(try read(["--workers", "4"], ["PERCH_WORKERS": "3"]).number("workers") == 4)
    #expect(try read(["--workers=5"]).number("workers") == 5)
  }

  @Test("unknown flags and variables are refused with the nearest one, and where all are")
  func unknown() {
    #expect(refusal(["--lisen", "x"]).contains("Did you mean --listen?"))
    #expect(refusal(["--wrokers=1"]).contains("Did you mean --workers?"))
    #expect(!refusal(["--xyz", "x"]).contains("Did you mean"))
    #expect(refusal(["--xyz", "x"]).contains("--help` lists them"))
    #expect(refusal(["listen"]).contains("--help"))
    #expect(refusal([], ["PERCH_LISEN": "x"]).contains("Did you mean PERCH_LISTEN?"))
    #expect(refusal(["--listen"]).contains("needs a value"))
    #expect(refusal(["--workers", "1", "--workers", "2"]).contains("twice"))
  }

  @Test("values of the wrong kind are refused with what is expected")
  func kinds() {
    #expect(refusal(["--workers", "0"]).contains("from 1 to 64"))
    #expect(refusal(["--listen", "nowhere"]).contains("host:port"))
    #expect(refusal(["--log-level", "loud"]).contains("debug, info, warning, error"))
    #expect(refusal(["--stop-within", "10"]).contains("500ms"))
  }

  @Test(
    "durations are milliseconds, whatever their unit",
    arguments: [
      ("0", 0), ("500ms", 500), ("2s", 2000), ("5m", 300_000), ("24h", 86_400_000), ("7d", 604_800_000),
    ])
  func durations(text: String, milliseconds: Int) throws {
    #expect(try read(["--stop-within", text]).number("stop-within") == milliseconds)
  }

  @Test("B53: the log keeps events for a minute at least; what it cannot keep to is refused")
  func retention() throws {
    #expect(try read(["--keep-events-for", "1m"]).number("keep-events-for") == 60_000)
    #expect(try read(["--keep-events", "100"]).number("keep-events") == 100)
    for text in ["0", "59s", "soon"] {
      let refusal = refusal(["--keep-events-for", text])
      #expect(refusal.contains("--keep-events-for: \(text) is not") && refusal.contains("a minute at least"))
    }
    for text in ["99", "-1", "many"] {
      #expect(refusal(["--keep-events", text]).contains("a number from 100 to 100000000"))
    }
  }

  @Test(
    "durations and sizes that no clock and no disk has are refused",
    arguments: [
      "3651d", "106751991168d", "9223372036854775807ms", "9223372036854775807d", "9223372036854775808ms",
      "-1s",
    ])
  func endless(text: String) {
    #expect(throws: SettingError.self) { try read(["--stop-within", text]) }
    #expect(throws: SettingError.self) { try SettingKind.size.read("9223372036854775808").get() }
  }

  @Test(
    "sizes are bytes in powers of 1024",
    arguments: [("512", 512), ("64KB", 65_536), ("256MB", 268_435_456), ("9223372036854775807", .max)])
  func sizes(text: String, bytes: Int) throws {
    #expect(try SettingKind.size.read(text).get() == .number(bytes))
  }

  @Test(
    "numbers that are none are refused",
    arguments: ["", "MB", "-1s", "1.5s", "9999999999999999999s", "99999999999999999h", "2 s"])
  func notScaled(text: String) {
    #expect(throws: SettingError.self) { try SettingKind.duration.read(text).get() }
    #expect(throws: SettingError.self) { try SettingKind.size.read(text).get() }
  }

  @Test(
    "offsets have a sign, or none",
    arguments: [
      ("0", 0), ("+10m", 600_000), ("-10m", -600_000), ("10m", 600_000), ("-500ms", -500), ("-0", 0),
      ("+3650d", 315_360_000_000),
    ])
  func offsets(text: String, milliseconds: Int) throws {
    #expect(try SettingKind.offset.read(text).get() == .number(milliseconds))
  }

  @Test(
    "offsets that are none are refused",
    arguments: ["", "-", "+", "--1s", "+-1s", "-1", "3651d", "-9999999999999999999s"])
  func notOffsets(text: String) {
    #expect(throws: SettingError.self) { try SettingKind.offset.read(text).get() }
  }

  @Test("a secret comes from a file, without the file's line end, and is not shown when refused")
  func secrets() throws {
    let command = Command(
      name: "test", summary: "", settings: [Setting("token", .secret, default: nil, "the token")]
    ) { _ in 0 }
    let path = "/tmp/perch-setting-test-\(getpid())"
    let file = try #require(fopen(path, "w"))
    fputs("s3cret\n", file)
    fclose(file)
    defer { unlink(path) }
    let reader = SettingReader(command: command)
    #expect(try reader.read(["--token-file", path], environment: [:]).text("token") == "s3cret")
    #expect(try reader.read(["--token", "t"], environment: [:]).text("token") == "t")
    #expect(throws: SettingError.self) { try reader.read([], environment: [:]) }
    #expect(throws: SettingError.self) { try reader.read(["--token-file", "/nowhere"], environment: [:]) }
  }

  @Test("an address that may be left out is none then, and a wrong one is refused")
  func optionalAddress() throws {
    #expect(try read([]).optionalAddress("admin-listen") == nil)
    let read = try read(["--admin-listen", "127.0.0.1:9"]).optionalAddress("admin-listen")
    #expect(read == ListenAddress(host: "127.0.0.1", port: 9))
    #expect(refusal(["--admin-listen", "nowhere"]).contains("host:port"))
  }

  @Test("hosts are given with commas, by several flags, or by the variable, and have no port")
  func hosts() throws {
    let reader = SettingReader(command: .demo)
    let words = ["--demo-host", "a.test,b.test", "--demo-host=10.0.0.5"]
    #expect(try reader.read(words, environment: [:]).list("demo-host") == ["a.test", "b.test", "10.0.0.5"])
    let environment = ["PERCH_DEMO_HOST": "c.test"]
    #expect(try reader.read([], environment: environment).list("demo-host") == ["c.test"])
    #expect(try reader.read([], environment: [:]).list("demo-host") == [])
    for wrong in ["a.test:80", "http://a", "a b", "*"] {
      let words = ["--demo-host", wrong]
      let error = #expect(throws: SettingError.self) { try reader.read(words, environment: [:]) }
      #expect(error?.description.contains("without ports") == true)
    }
  }

  @Test("origins of files are http or https with a host, and nothing that ends a policy")
  func fileOrigins() throws {
    let good = "https://files.test,http://[::1]:9000"
    #expect(try read(["--file-origins", good]).list("file-origins").count == 2)
    #expect(try read([]).list("file-origins") == [])
    for wrong in [
      "*", "files.test", "https://a/b", "https://a b", "https://a;script-src *", "https://a\"", "https://a\n",
    ] {
      #expect(refusal(["--file-origins", wrong]).contains("origins such as"), "\(wrong)")
    }
  }

  @Test(
    "--auth off wants loopback addresses, also of the operators",
    arguments: [
      ("127.0.0.1:0", "", true), ("[::1]:0", "127.9.9.9:0", true), ("localhost:0", "0.0.0.0:0", false),
      ("0.0.0.0:0", "127.0.0.1:0", false), ("10.0.0.1:0", "", false),
    ])
  func authOff(listen: String, admin: String, isGood: Bool) throws {
    let values = try read(["--auth", "off", "--listen", listen, "--admin-listen", admin])
    #expect(isGood == ((try? AccessParts.check(values)) != nil))  // it throws to refuse
    _ = try AccessParts.check(read(["--listen", "0.0.0.0:0", "--admin-listen", "0.0.0.0:0"]))
  }

  @Test("every default is a value of its own kind, and every variable follows its flag")
  func tables() throws {
    for command in Command.all {
      for setting in command.settings {
        if let fallback = setting.fallback { _ = try setting.kind.read(fallback).get() }
        #expect(!setting.help.isEmpty && setting.name == setting.name.lowercased())
      }
      #expect(Set(command.settings.map(\.name)).count == command.settings.count)
    }
    #expect(Setting("upstream-token", .secret, default: "", "").variable == "PERCH_UPSTREAM_TOKEN")
  }
}
