import Testing

/// Checks the whole repository against the house rules. CheckTests tries each check on bad examples.
@Suite struct ArchitectureTests {
  private func expectNone(_ findings: [Finding], _ location: SourceLocation = #_sourceLocation) {
    for finding in findings { Issue.record("\(finding)", sourceLocation: location) }
  }

  @Test("targets import each other only along the arrows of docs/architecture.md")
  func arrows() {
    let arrows = Arrows(document: Repository.text("docs/architecture.md"))
    #expect(arrows.targets.isSuperset(of: ["ChatModel", "ChatCache", "MicroHTTP", "perch"]))
    expectNone(Repository.sources.flatMap(arrows.check))
  }

  @Test("files, functions and lines keep to their sizes")
  func sizes() {
    expectNone((Repository.sources + Repository.tests).flatMap(Sizes.check))
    let lengths = Repository.sources.map(\.lines.count).sorted()
    let median = lengths[lengths.count / 2]
    print("source files: \(lengths.count), median \(median) lines (aim: \(Sizes.medianLines))")
  }

  @Test(
    "the files of a target refer to each other in small circles only",
    arguments: [
      "ChatAPI", "ChatCollections", "ChatModel", "ChatSync", "JSON", "MicroHTTP", "Platform", "SQLite",
      "perch",
    ])
  func circles(_ target: String) {
    let files = Repository.sources.filter { $0.target == target }
    #expect(!files.isEmpty)
    expectNone(Circles.check(files))
  }

  @Test("no word that hides a meaning, and a reason beside what needs one")
  func words() { expectNone(Repository.sources.flatMap(Words.check)) }

  @Test("what changes messages tells it to the counts that the writer keeps")
  func messageRows() { expectNone(Repository.sources.flatMap(MessageRows.check)) }

  @Test("no code that threads for clients run waits for a commit")
  func waits() { expectNone(Repository.sources.flatMap(Waits.check)) }

  @Test("B1: no id is a key as a plain String, and held requests are parked where rights are looked at again")
  func identity() {
    expectNone(Repository.sources.flatMap(Keys.check))
    expectNone(Repository.sources.flatMap(Parkings.check))
  }

  @Test("every symbol that crosses targets has a doc comment")
  func docComments() { expectNone(Repository.sources.flatMap(DocComments.check)) }

  @Test("the bounds that docs/security.md names are in the sources, with these values")
  func securityTable() {
    let rows = SecurityTable.rows(Repository.text("docs/security.md"))
    #expect(rows.count >= 25)
    for row in rows {
      guard let source = Repository.sources.first(where: { $0.path == "Sources/" + row.path }) else {
        Issue.record("docs/security.md names a file that is not there: \(row.path)")
        continue
      }
      expectNone(SecurityTable.check(row, in: source))
    }
  }

  @Test("each decision has a number, a title, a date, and a row of the index")
  func decisions() {
    let pages = Repository.files(below: "docs/decisions", suffix: ".md")
      .filter { !$0.hasSuffix("/README.md") }
    let index = Repository.text("docs/decisions/README.md")
    #expect(pages.count >= 24)
    for page in pages { expectNone(Decisions.check(page, Repository.text(page), index: index)) }
  }

  @Test("every mutant breaks a line that is there")
  func mutants() {
    let list = Repository.text("Tests/Mutants/mutants.txt")
    #expect(Mutants.count(list) >= Mutants.fewest)
    expectNone(Mutants.check(list, text: Repository.text))
  }

  @Test("docs/rules.md has each rule that is named; tests name each that is built; its files are there")
  func rules() {
    let text = Repository.text(Rules.page)
    let rules = Rules.read(text)
    #expect(rules.count >= 69 && Set(rules.map(\.number)).count == rules.count)
    for folder in ["Sources", "Tests", "docs"] {
      for suffix in [".swift", ".sql", ".py", ".txt", ".md"] {
        for path in Repository.files(below: folder, suffix: suffix) {
          expectNone(Rules.unknown(Repository.text(path), path: path, rules))
        }
      }
    }
    expectNone(Rules.untested(rules, Repository.tests))
    expectNone(Rules.missingFiles(text, isThere: { !Repository.text($0).isEmpty }))
  }

  @Test("the files of docs/words.md are there, and nothing uses a word that was given up")
  func glossary() {
    let page = Repository.text(Glossary.page)
    let words = Glossary.givenUp(page)
    #expect(words.count >= 15)
    let isThere = { !Repository.text($0).isEmpty }
    expectNone(Rules.missingFiles(page, of: Glossary.page, isThere: isThere))
    var files = Repository.sources + Repository.tests
    for (folder, suffixes) in [
      ("Sources", [".sql", ".c", ".h", ".cpp"]), ("Tests", [".py", ".txt", ".c", ".h"]), ("docs", [".md"]),
      (".ci", [""]),
    ] {
      for path in suffixes.flatMap({ Repository.files(below: folder, suffix: $0) }) {
        files.append(SourceFile(path: path, text: Repository.text(path)))
      }
    }
    expectNone(files.flatMap { Glossary.check(words, $0) })
    let names = Glossary.givenUp(page, below: "Given up in names")
    #expect(names.count >= 3)
    expectNone(files.flatMap { Glossary.checkNames(names, $0) })
  }

  @Test("docs/architecture.md and docs/changing.md name files that are there")
  func namedFiles() {
    for page in ["docs/architecture.md", "docs/changing.md"] {
      let text = Repository.text(page)
      #expect(text.split(separator: "`").contains { $0.hasSuffix(".swift") }, "\(page)")
      expectNone(Rules.missingFiles(text, of: page, isThere: { !Repository.text($0).isEmpty }))
    }
  }

  @Test("the routes and the contract have the same operations on the same paths")
  func operations() {
    let contract = Operations.contract(Repository.text("openapi.yaml"))
    let served = Repository.sources.filter { ["ChatAPI", "perch"].contains($0.target) }
    let routes = served.map(Operations.routes)
      .reduce(into: [:]) { $0.merge($1) { first, _ in first } }
    #expect(contract.count >= 4 && routes.count >= 4)
    for (operation, route) in contract where routes[operation] != route {
      Issue.record("openapi.yaml: \(operation) is \(route); the routes: \(routes[operation] ?? "none")")
    }
    for (operation, route) in routes where contract[operation] == nil {
      Issue.record("\(operation), \(route), is not in openapi.yaml")
    }
  }

  @Test("the chat page's script has every module of its folder")
  func chatPageModules() {
    let list = Repository.text("Sources/ChatAPI/Operator/ChatPage.swift")
    let modules = Repository.files(below: "Sources/ChatAPI/ChatPage", suffix: ".js")
    #expect(modules.count > 10)
    for module in modules {
      let name = module.split(separator: "/").last!.replacing(".js", with: "_js")
      #expect(list.matches(of: try! Regex("PackageResources\\.\(name)\\b")).count == 1, "\(module)")
    }
  }
}
