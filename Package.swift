// swift-tools-version: 6.1
import PackageDescription

let package = Package(
  name: "perch",
  products: [.executable(name: "perch", targets: ["perch"])],
  targets: [
    // Debian's libraries, as they are.
    .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
    .systemLibrary(name: "CMicroHTTPD", pkgConfig: "libmicrohttpd", providers: [.apt(["libmicrohttpd-dev"])]),
    .systemLibrary(name: "CCurl", pkgConfig: "libcurl", providers: [.apt(["libcurl4-openssl-dev"])]),
    .systemLibrary(name: "CSodium", pkgConfig: "libsodium", providers: [.apt(["libsodium-dev"])]),
    .systemLibrary(name: "CLinux"),
    .systemLibrary(name: "CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),
    .target(name: "CSimdjson", linkerSettings: [.linkedLibrary("simdjson")]),

    // Tamed libraries: nothing here knows of chat.
    .target(name: "Platform"),
    .target(name: "JSON", dependencies: ["CSimdjson", "Platform"]),
    .target(name: "CSQLitePrefetch", linkerSettings: [.linkedLibrary("sqlite3")]),
    .target(name: "SQLite", dependencies: ["CSQLite", "CSQLitePrefetch", "Platform"]),
    .target(name: "CMicroHTTPDPatches", linkerSettings: [.linkedLibrary("microhttpd")]),
    .target(name: "MicroHTTP", dependencies: ["CMicroHTTPD", "CMicroHTTPDPatches", "Platform"]),

    // Perch.
    .target(name: "ChatModel", dependencies: ["Platform"]),
    .target(
      name: "ChatCache",
      dependencies: ["ChatModel", "JSON", "SQLite", "CLinux", "CSodium", "Platform"],
      resources: [.embedInCode("Schema")]),
    .target(name: "ChatCollections", dependencies: ["ChatModel", "ChatCache", "JSON", "Platform"]),
    .target(name: "ChatSync", dependencies: ["ChatModel", "ChatCache", "JSON", "CCurl", "Platform"]),
    .target(
      name: "ChatAPI",
      dependencies: [
        "ChatModel", "ChatCache", "ChatCollections", "MicroHTTP", "JSON", "CSodium", "CZlib", "Platform",
      ],
      resources: [
        .embedInCode("Contract"), .embedInCode("Clients"), .embedInCode("ChatPage"),
        .embedInCode("Reference"),
      ]),
    .target(name: "Load", dependencies: ["CLinux", "JSON", "Platform"]),
    .target(name: "Origin", dependencies: ["SQLite", "MicroHTTP", "JSON", "CSodium", "CCurl", "Platform"]),
    .executableTarget(
      name: "perch",
      dependencies: [
        "ChatModel", "ChatCache", "ChatCollections", "ChatSync", "ChatAPI", "Origin", "Load", "MicroHTTP",
        "JSON", "Platform",
      ]),
    .executableTarget(
      name: "Benchmarks",
      dependencies: [
        "ChatModel", "ChatCache", "ChatCollections", "ChatSync", "ChatAPI", "MicroHTTP", "SQLite", "JSON",
        "Platform",
      ]),

    // Folders and stand-ins that several test targets share.
    .target(name: "TestFolders", path: "Tests/Folders"),
    .target(
      name: "TestSupport", dependencies: ["ChatModel", "ChatCache", "Platform"], path: "Tests/Support"),
    .testTarget(name: "PlatformTests", dependencies: ["Platform", "TestFolders"]),
    .testTarget(
      name: "SQLiteTests", dependencies: ["SQLite", "CSQLite", "CSQLitePrefetch", "Platform", "TestFolders"]),
    .testTarget(name: "JSONTests", dependencies: ["JSON"]),
    .testTarget(name: "LoadTests", dependencies: ["Load"]),
    .testTarget(
      name: "MicroHTTPTests", dependencies: ["MicroHTTP", "Platform", "TestFolders"]),
    .testTarget(name: "ChatModelTests", dependencies: ["ChatModel"]),
    .target(name: "FaultyDisk", path: "Tests/FaultyDisk", linkerSettings: [.linkedLibrary("sqlite3")]),
    .executableTarget(
      name: "KilledWriter", dependencies: ["ChatCache", "ChatModel", "JSON", "Platform", "TestSupport"],
      path: "Tests/KilledWriter"),
    .testTarget(
      name: "ChatCacheTests",
      dependencies: [
        "ChatCache", "SQLite", "CSQLite", "FaultyDisk", "KilledWriter", "TestFolders", "TestSupport",
      ]),
    .testTarget(
      name: "ChatCollectionsTests",
      dependencies: [
        "ChatCollections", "ChatCache", "ChatModel", "JSON", "Platform", "TestFolders", "TestSupport",
      ]),
    .testTarget(
      name: "ChatSyncTests",
      dependencies: [
        "ChatSync", "ChatCache", "ChatModel", "MicroHTTP", "Origin", "Platform", "SQLite", "TestFolders",
        "TestSupport",
      ]),
    .testTarget(
      name: "ChatAPITests",
      dependencies: [
        "ChatAPI", "ChatCache", "ChatCollections", "ChatModel", "JSON", "MicroHTTP", "Platform", "SQLite",
        "TestFolders", "TestSupport",
      ]),
    .testTarget(
      name: "OriginTests",
      dependencies: ["Origin", "MicroHTTP", "Platform", "SQLite", "TestFolders", "TestSupport"]),
    .testTarget(
      name: "PerchTests",
      dependencies: [
        "perch", "ChatCache", "ChatModel", "JSON", "MicroHTTP", "Platform", "TestFolders", "TestSupport",
      ]),
    fuzzTarget(
      sources: Context.environment["PERCH_FUZZ"] == nil ? nil : ["Fuzzer", "Harnesses"],
      dependencies: [
        "ChatAPI", "ChatCache", "ChatCollections", "ChatModel", "ChatSync", "JSON", "MicroHTTP", "Platform",
      ]),
    .testTarget(name: "ArchitectureTests", dependencies: ["ChatCache", "SQLite", "TestFolders"]),
  ],
  swiftLanguageModes: [.v6],
  cxxLanguageStandard: .cxx17
)

/// The harnesses: a test target that feeds them the corpus, or, for `make fuzz`, the program that libFuzzer drives.
func fuzzTarget(sources: [String]?, dependencies: [Target.Dependency]) -> Target {
  guard let sources else {
    return .testTarget(name: "FuzzTests", dependencies: dependencies, exclude: ["Corpus", "Fuzzer"])
  }
  return .executableTarget(
    name: "Fuzzer", dependencies: dependencies, path: "Tests/FuzzTests",
    exclude: ["Corpus", "CorpusTests.swift"],
    sources: sources)
}
