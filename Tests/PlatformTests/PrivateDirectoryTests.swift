import Glibc
import TestFolders
import Testing

@testable import Platform

/// Only its owner can use a data directory, whatever its rights were before (B65).
@Suite struct PrivateDirectoryTests {
  private static func mode(_ path: String) -> mode_t {
    var status = stat()
    return lstat(path, &status) == 0 ? status.st_mode & 0o7777 : 0
  }

  private static func make(_ path: String, _ mode: mode_t = 0o644) {
    close(open(path, O_WRONLY | O_CREAT, 0o600))
    chmod(path, mode)
  }

  private static func refusal(_ path: String) -> String {
    do throws(PrivateDirectory.Refusal) {
      try PrivateDirectory.prepare(path)
      return ""
    } catch { return error.description }
  }

  @Test("B65: one that is missing is made 0700, and the second time is the same")
  func made() throws {
    let path = TestFolder.make("private") + "/data"
    try PrivateDirectory.prepare(path)
    try PrivateDirectory.prepare(path)
    #expect(Self.mode(path) == 0o700)
  }

  @Test("B65: one with wider rights is tightened with everything below it, and links are left alone")
  func tightened() throws {
    let folder = TestFolder.make("private")
    let (path, outside) = (folder + "/data", folder + "/outside")
    mkdir(path, 0o700)
    mkdir(path + "/origin", 0o700)
    Self.make(outside)
    Self.make(path + "/perch.db", 0o664)
    Self.make(path + "/origin/origin.db")
    Self.make(path + "/origin/origin.db-wal", 0o666)
    symlink(outside, path + "/link")
    chmod(path + "/origin", 0o755)
    chmod(path, 0o755)
    try PrivateDirectory.prepare(path)
    for name in ["", "/origin"] { #expect(Self.mode(path + name) == 0o700, "\(name)") }
    for name in ["/perch.db", "/origin/origin.db", "/origin/origin.db-wal"] {
      #expect(Self.mode(path + name) == 0o600, "\(name)")
    }
    #expect(Self.mode(outside) == 0o644)
  }

  @Test("B65: files with wider rights in a directory that is private already are tightened")
  func tightenedFiles() throws {
    let path = TestFolder.make("private")
    Self.make(path + "/perch.db")
    try PrivateDirectory.prepare(path)
    #expect(Self.mode(path + "/perch.db") == 0o600)
  }

  @Test("an empty directory with wider rights is tightened")
  func empty() throws {
    let path = TestFolder.make("private")
    chmod(path, 0o777)
    try PrivateDirectory.prepare(path)
    #expect(Self.mode(path) == 0o700)
  }

  @Test("a directory that others use too is refused in words and left as it was")
  func shared() throws {
    let path = TestFolder.make("private")
    chmod(path, 0o1777)
    #expect(Self.refusal(path).contains("shared by all users"))
    #expect(Self.mode(path) == 0o1777)
    chmod(path, 0o755)
    Self.make(path + "/letter.txt")
    #expect(Self.refusal(path).contains("not Perch's"))
    #expect(Self.mode(path) == 0o755 && Self.mode(path + "/letter.txt") == 0o644)
  }

  @Test("what is no directory, or cannot be made, is refused in words")
  func none() throws {
    let path = TestFolder.make("private")
    Self.make(path + "/file")
    #expect(Self.refusal(path + "/file").contains("Not a directory"))
    #expect(Self.refusal(path + "/no/such").contains("cannot make the data directory"))
  }

  @Test("the locks that a process has on a database outlast a second look at its directory")
  func locks() throws {
    let path = TestFolder.make("private")
    Self.make(path + "/perch.db", 0o600)
    let (file, other) = (open(path + "/perch.db", O_RDWR), open(path + "/perch.db", O_RDWR))
    defer {
      close(file)
      close(other)
    }
    var lock = flock()
    lock.l_type = Int16(F_WRLCK)
    #expect(fcntl(file, F_SETLK, &lock) == 0)
    chmod(path + "/perch.db", 0o644)
    try PrivateDirectory.prepare(path)
    var seen = flock()
    seen.l_type = Int16(F_WRLCK)
    let getLockOfDescription: Int32 = 36  // F_OFD_GETLK: it also finds the locks of this process
    #expect(fcntl(other, getLockOfDescription, &seen) == 0)
    #expect(seen.l_type == Int16(F_WRLCK), "it is still locked")
    #expect(Self.mode(path + "/perch.db") == 0o600)
  }
}
