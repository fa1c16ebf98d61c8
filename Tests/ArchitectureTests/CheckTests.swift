import Testing

/// Each check finds the faults it is for, and no others.
@Suite struct CheckTests {
  private func file(_ text: String, path: String = "Sources/JSON/Some.swift") -> SourceFile {
    SourceFile(path: path, text: text)
  }

  private let arrows = Arrows(
    document:
      "JSON → not here\n```arrows\nJSON → CSimdjson   reading\nChatModel → nothing\nperch → all\n```\n")

  @Test(
    "an import against the arrows is found",
    arguments: [
      "import SQLite", "@testable import SQLite", "import struct SQLite.Row", "  package import SQLite",
    ])
  func arrow(line: String) {
    #expect(arrows.check(file("\n" + line)).map(\.line) == [2])
  }

  @Test(
    "an import along the arrows, and the word in a comment or a text, are not",
    arguments: [
      "import CSimdjson", "import Glibc", "import Platform", "// import SQLite", "let a = \"import SQLite\"",
    ])
  func noArrow(line: String) {
    #expect(arrows.check(file(line)).isEmpty)
  }

  @Test("a target that nobody drew is found, and the executable may not import Foundation either")
  func unknownTarget() {
    #expect(arrows.check(file("", path: "Sources/New/A.swift")).count == 1)
    #expect(arrows.check(file("import Foundation", path: "Sources/perch/A.swift")).count == 1)
    #expect(arrows.check(file("import SQLite", path: "Sources/perch/A.swift")).isEmpty)
    #expect(arrows.check(file("import JSON", path: "Sources/ChatModel/A.swift")).count == 1)
  }

  @Test("a circle of nine files is found, one of eight is not, and a chain is none")
  func circles() {
    func ring(_ count: Int) -> [SourceFile] {
      (0..<count).map {
        file("struct S\($0) { let next: S\(($0 + 1) % count)? }", path: "Sources/JSON/\($0).swift")
      }
    }
    #expect(Circles.check(ring(9)).count == 1)
    #expect(Circles.check(ring(8)).isEmpty && Circles.circles(ring(8)).map(\.count) == [8])
    #expect(Circles.circles(Array(ring(9).dropLast())).isEmpty)
    let extended =
      ring(2) + [file("extension S0 { var other: S1? { nil } }", path: "Sources/JSON/S0+S1.swift")]
    #expect(Circles.circles(extended).map(\.count) == [2])
  }

  @Test("files, functions and lines beyond their sizes are found")
  func sizes() {
    let body = String(repeating: "  a()\n", count: 59)
    #expect(Sizes.check(file("func f() {\n\(body)}\n")).map(\.fault) == ["61 lines in a function"])
    #expect(Sizes.check(file("func f() {\n\(body.dropLast(6))}\n")).isEmpty)
    #expect(Sizes.check(file("  package init(\n    a: Int\n  ) {\n\(body)  }\n")).count == 1)
    #expect(Sizes.check(file("func f() { a(\"}\") // }\n\(body)}\n")).count == 1)
    #expect(Sizes.check(file("protocol P {\n  func f()\n}\nstruct S {\n\(body)}\n")).isEmpty)
    #expect(Sizes.check(file(String(repeating: "x", count: 111))).map(\.fault) == ["111 columns"])
    #expect(Sizes.check(file(String(repeating: "\n", count: 501))).map(\.fault) == ["501 lines in a file"])
  }

  @Test(
    "forbidden words are found in code",
    arguments: [
      "nonisolated(unsafe) var a = 1", "fatalError(\"no\")", "import Foundation",
      "final class CacheManager {",
      "enum StringUtils {", "a() // TODO later", "struct A: @unchecked Sendable {", "let a = try? b()",
      "usleep(10)",
    ])
  func words(line: String) {
    #expect(Words.check(file(line)).count == 1)
  }

  @Test(
    "what is explained, and words inside texts, are not found",
    arguments: [
      "struct A: @unchecked Sendable {  // because it never changes", "// Absent is fine.\nlet a = try? b()",
      "let a = \"fatalError(\"", "struct Managers {", "usleep(10)  // the peer polls",
      "let a = #\"nonisolated(unsafe) \"quoted\" \"#", "let a = \"\"\"\n  fatalError(\n  \"\"\"",
    ])
  func noWords(text: String) {
    #expect(Words.check(file(text)).isEmpty)
  }

  @Test("a text as a key is found where it could be an id, and a request that is parked anywhere")
  func identity() {
    for line in ["var a: [String: Int] = [:]", "let a: Set<String> = []"] {
      #expect(Keys.check(file(line, path: "Sources/ChatAPI/A.swift")).count == 1)
      #expect(Keys.check(file(line, path: "Sources/perch/A.swift")).isEmpty)
      #expect(Keys.check(file("// " + line, path: "Sources/ChatAPI/A.swift")).isEmpty)
    }
    #expect(
      Parkings.check(file("return .park(Parking(a) { _ in })", path: "Sources/ChatAPI/A.swift")).count == 1)
  }

  @Test("a file's name that says nothing is found")
  func fileName() {
    #expect(Words.check(file("", path: "Sources/JSON/TextHelpers.swift")).count == 1)
  }

  @Test("waiting for a commit is found where clients are served, and only there")
  func waits() {
    let line = "try cache.blocking.write { _ in }"
    for target in ["ChatAPI", "ChatCollections"] {
      #expect(Waits.check(file(line, path: "Sources/\(target)/A.swift")).count == 1)
    }
    #expect(Waits.check(file(line, path: "Sources/Benchmarks/A.swift")).isEmpty)
    #expect(Waits.check(file("// \(line)", path: "Sources/ChatAPI/A.swift")).isEmpty)
  }

  @Test("a package symbol without a doc comment is found")
  func docComments() {
    #expect(DocComments.check(file("package func f() {}")).count == 1)
    #expect(DocComments.check(file("// not one\n@inline(__always)\npackage static let a = 1")).count == 1)
    #expect(DocComments.check(file("/// Says it.\n@inline(__always)\npackage static let a = 1")).isEmpty)
    #expect(
      DocComments.check(file("package extension A {}\nfunc f() {}\npackage static func == (a: A, b: A)"))
        .isEmpty)
  }

  @Test("a bound that the sources have with another value, or not at all, is found")
  func securityTable() {
    let table = "| what | limit | value | where |\n|---|---|---|---|\n| **all** | | | |\n"
    let rows = SecurityTable.rows(table + "| some, bytes | `most` | 1 << 20 | JSON/Some.swift |\n")
    let row = SecurityTable.Row(name: "most", value: "1 << 20", path: "JSON/Some.swift")
    #expect(rows == [row])
    #expect(SecurityTable.check(row, in: file("  package static let most = 1 << 20")).isEmpty)
    #expect(SecurityTable.check(row, in: file("  package var most: Int64 = 1 << 20")).isEmpty)
    for line in [
      "let most = 1 << 21", "let most = 1 << 200", "let mostOf = 1 << 20", "// let most = 1 << 20",
      "most = 1 << 20",
    ] {
      #expect(SecurityTable.check(row, in: file(line)).count == 1, "\(line)")
    }
  }

  @Test("a decision without a number, a title, a date or a row of the index is found")
  func decisions() {
    let (path, index) = ("docs/decisions/0007-one.md", "| [0007](0007-one.md) | One thing | 2026-01-01 |")
    let good = "# 0007. One thing\n\n2026-01-01\n\n## Context\n"
    #expect(Decisions.check(path, good, index: index).isEmpty)
    #expect(Decisions.check(path, good + "\n# Another\n", index: index).count == 1)
    #expect(Decisions.check(path, good, index: "").count == 1)
    #expect(Decisions.check(path, "# 0007. One thing\n\n## Context\n", index: index).count == 1)
    #expect(Decisions.check("docs/decisions/one.md", good, index: index).count >= 2)
  }

  @Test("a mutant whose line is not there, or is there twice, is found")
  func mutants() {
    let list = "== a: b\nSources/A.swift\n- if ‹one›\n+ true\n"
    #expect(Mutants.check(list, text: { _ in "if one { }" }).isEmpty)
    #expect(Mutants.check(list, text: { _ in "if two { }" }).count == 1)
    #expect(Mutants.check(list, text: { _ in "if one { if one { } }" }).count == 1)
    #expect(Mutants.count(list) == 1)
  }

  @Test("a rule that is not on the page, one that no test names, and a file that is not there are found")
  func rules() {
    let text = "### B1 One\n\nSays it.\n\nCode: `A/A.swift`, `A.sql`.\n\n### B2 Two\n\nNot yet.\n"
    let rules = Rules.read(text)
    #expect(rules == [Rules.Rule(number: 1, line: 1), Rules.Rule(number: 2, line: 7, isBuilt: false)])
    #expect(Rules.unknown("B1, (B2): 0xB7 %B7 AB7 B7a B100", path: "a", rules).isEmpty)
    #expect(Rules.unknown("one\n// B1, (B\(7))", path: "a", rules).map(\.line) == [2])
    for test in [
      "  @Test(\"B1: one\")", "@Test(\n  \"one (B1)\",\n  arguments: [1])", "/// B1.\n@Suite struct A {",
    ] {
      #expect(Rules.untested(rules, [file(test)]).isEmpty, "\(test)")
    }
    for test in ["// B1\n@Test(\"one\")", "@Test(\"B2: two\")", "/// B1.\nstruct A {\n@Suite struct B {"] {
      #expect(Rules.untested(rules, [file(test)]).map(\.line) == [1], "\(test)")
    }
    let missing = Rules.missingFiles(text, isThere: { $0 == "Sources/A/A.swift" })
    #expect(missing.map(\.fault) == ["Sources/A.sql is not there"])
    #expect(Rules.missingFiles(text, isThere: { _ in true }).isEmpty)
  }

  @Test("a word that was given up is found as a part of a name, and a name that was given up in code alone")
  func glossary() {
    let page = "| `kept` | a |\n## Given up\n\n| given up | instead |\n| `gadget`, `Thing` | `x` |\n"
    let words = Glossary.givenUp(page)
    #expect(words == ["gadget", "Thing"])
    for line in ["let a = myGadgets(1)", "// Two gadgets.", "GADGET", "\"a gadget\"", "let a: Thing"] {
      #expect(Glossary.check(words, file(line)).count == 1, "\(line)")
    }
    for line in ["gadgetry", "// A Thing.", "let thing = SomeThing()", "x"] {
      #expect(Glossary.check(words, file(line)).isEmpty, "\(line)")
    }
    #expect(Glossary.check(words, file("Thing gadget", path: "docs/a.md")).count == 1)
    #expect(Glossary.check(words, file("gadget", path: Glossary.page)).isEmpty)
  }

  @Test("a word that was given up in names may be in texts and comments, and in no name")
  func glossaryOfNames() {
    let page =
      "## Given up\n\n| `x` | a |\n\n## Given up in names\n\n| given up | instead |\n| `gadget` | `b` |\n"
    let words = Glossary.givenUp(page, below: "Given up in names")
    #expect(words == ["gadget"] && Glossary.givenUp(page) == ["x"])
    for line in ["let gadget = 1", "myGadgets(1)", "f(in: a.lastGadget)", "struct Gadget {}"] {
      #expect(Glossary.checkNames(words, file(line)).count == 1, "\(line)")
    }
    for line in [
      "// A gadget.", "\"gadget\"", "gadgetry", "inspectorgadget()", "c_gadget_t()", "m(#/a\"gadget\"/#)",
      "m(#/a\"/#, \"gadget\")",
    ] {
      #expect(Glossary.checkNames(words, file(line)).isEmpty, "\(line)")
    }
    #expect(Glossary.checkNames(words, file("gadget", path: "docs/a.md")).isEmpty)
  }

  @Test("operations are read from the contract and from routes")
  func operations() {
    let yaml = "paths:\n  /a/{b}:\n    get:\n      operationId: getB\n    post:\n      operationId: makeB\n"
    #expect(Operations.contract(yaml) == ["getB": "GET /a/{b}", "makeB": "POST /a/{b}"])
    let route = file(
      "[\n Route(\n  .get, \"/a/{b}\", operation: \"getB\"\n ) { _ in },\n Route(.post, path) ]")
    #expect(Operations.routes(route) == ["getB": "GET /a/{b}"])
  }
}
