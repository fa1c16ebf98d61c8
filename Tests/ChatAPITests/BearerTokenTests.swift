import ChatAPI
import Glibc
import Platform
import TestFolders
import Testing

@Suite("Bearer tokens")
struct BearerTokenTests {
  let secrets: SigningSecrets
  let now: Int64 = 1_700_000_000

  init() throws { secrets = try SigningSecrets("0123456789abcdef0123456789abcdef") }

  func check(_ text: String, _ secrets: SigningSecrets? = nil) throws(BearerToken.Refusal) -> BearerToken {
    var text = text
    // withUTF8 rethrows untyped, so the outcome is carried out as a value.
    let outcome: Result<BearerToken, BearerToken.Refusal> = text.withUTF8 { bytes in
      do throws(BearerToken.Refusal) {
        let bytes = UnsafeRawBufferPointer(bytes)
        return .success(try BearerToken(checking: bytes, against: secrets ?? self.secrets, now: now))
      } catch {
        return .failure(error)
      }
    }
    return try outcome.get()
  }

  func forge(header: String, claims: String) -> String {
    let content = Base64URL.encode(Array(header.utf8)) + "." + Base64URL.encode(Array(claims.utf8))
    return content + "." + Base64URL.encode(Array(content.utf8).withUnsafeBytes { secrets.sign($0) })
  }

  @Test("B61: a token signed here names its user, scopes and end")
  func roundTrip() throws {
    let token = BearerToken(user: "al\"ice 🌊", scopes: [.chat, .admin], expires: now + 10)
    #expect(try check(token.signed(with: secrets)) == token)
  }

  @Test("B61: the signature is the one every JWT library makes")
  func knownVector() throws {
    let text =
      "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbGljZSIsImV4cCI6MTgwMDAwMDAwMCwic2NvcGUiOiJjaGF0In0"
      + ".vM9loeQpnVKr50UTsRLdi0geWNBobXL4udfkSBPU10w"
    #expect(BearerToken(user: "alice", scopes: .chat, expires: 1_800_000_000).signed(with: secrets) == text)
  }

  @Test(
    "B61: a header that is not exactly HS256 is refused even when it is signed",
    arguments: [
      #"{"alg":"none","typ":"JWT"}"#, #"{"alg":"hs256"}"#, #"{"alg":"HS512"}"#, #"{"typ":"JWT"}"#,
      #"["HS256"]"#,
      #"{"alg":"HS256","typ":"JWE"}"#, #"{"alg":"HS256","crit":["exp"]}"#, "not json", "",
    ])
  func badHeaders(header: String) throws {
    #expect(throws: BearerToken.Refusal.self) {
      try check(forge(header: header, claims: #"{"sub":"a","exp":1800000000,"scope":"chat"}"#))
    }
  }

  @Test(
    "B61: claims that lack or mistype one of sub, exp and scope are refused",
    arguments: [
      #"{"exp":1800000000,"scope":"chat"}"#, #"{"sub":"","exp":1800000000,"scope":"chat"}"#,
      #"{"sub":7,"exp":1800000000,"scope":"chat"}"#, #"{"sub":"a","scope":"chat"}"#,
      #"{"sub":"a","exp":"1800000000","scope":"chat"}"#, #"{"sub":"a","exp":1800000000.5,"scope":"chat"}"#,
      #"{"sub":"a","exp":1800000000}"#, #"{"sub":"a","exp":1800000000,"scope":["chat"]}"#,
      #"{"sub":"a","exp":1800000000,"scope":"chat","nbf":1750000000}"#, "[]", "",
    ])
  func badClaims(claims: String) throws {
    #expect(throws: BearerToken.Refusal.self) {
      try check(forge(header: #"{"alg":"HS256"}"#, claims: claims))
    }
  }

  @Test("B61: claims at the ends of Int64 and beyond are read or refused, and overflow nothing")
  func ends() throws {
    for end in [
      "-9223372036854775809", "-9223372036854775808", "-1", "0", "9223372036854775807", "9223372036854775808",
      "1e308", "-0.0", "null",
    ] {
      let isLast = end == "9223372036854775807"
      for claims in [
        #"{"sub":"a","exp":\#(end),"scope":"chat"}"#,
        #"{"sub":"a","exp":9223372036854775807,"nbf":\#(end),"iat":\#(end),"scope":"chat"}"#,
      ] {
        let token = forge(header: #"{"alg":"HS256"}"#, claims: claims)
        let isWhole = end.dropFirst(end.first == "-" ? 1 : 0).allSatisfy(\.isNumber) && Int64(end) != nil
        let isGood = claims.contains("nbf") ? isWhole && !isLast : isLast
        let expires = try? check(token).expires  // a refused token has no end
        #expect((expires == .max) == isGood, "\(claims)")
      }
    }
  }

  @Test("B61: a token that ended says so, and one second before its end it is good")
  func expiry() throws {
    let ended = BearerToken(user: "a", scopes: .chat, expires: now).signed(with: secrets)
    #expect(throws: BearerToken.Refusal.expired) { try check(ended) }
    let good = BearerToken(user: "a", scopes: .chat, expires: now + 1).signed(with: secrets)
    #expect(try check(good).user == "a")
  }

  @Test("B61: any byte changed anywhere makes a token invalid")
  func tampering() throws {
    let good = Array(BearerToken(user: "alice", scopes: .chat, expires: now + 60).signed(with: secrets).utf8)
    for index in good.indices {
      var bad = good
      bad[index] = bad[index] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
      #expect(throws: BearerToken.Refusal.self) { try check(String(decoding: bad, as: UTF8.self)) }
    }
    let text = String(decoding: good, as: UTF8.self)
    for bad in [
      "", ".", "..", "a.b", text + ".", text + "=", text + "A", String(repeating: "a", count: 5000),
    ] {
      #expect(throws: BearerToken.Refusal.self) { try check(bad) }
    }
  }

  @Test("B61: two secrets are good at a time, the first one signs")
  func rotation() throws {
    let newer = "ffffffffffffffffffffffffffffffff"
    let both = try SigningSecrets(text: "# rotating\n\(newer)\n0123456789abcdef0123456789abcdef\n")
    let old = BearerToken(user: "a", scopes: .chat, expires: now + 60)
    #expect(try check(old.signed(with: secrets), both) == old)
    #expect(try check(old.signed(with: both), SigningSecrets(newer)) == old)
    #expect(throws: BearerToken.Refusal.self) { try check(old.signed(with: both), secrets) }
  }

  @Test("B61: a secret shorter than HS256 wants, three secrets, and none are refused")
  func badSecrets() {
    for text in ["", "short", "0123456789abcdef 0123456789abcdef", String(repeating: "x", count: 257)] {
      #expect(throws: SigningSecrets.Malformed.self) { try SigningSecrets(text: text) }
    }
    let line = String(repeating: "k", count: 32) + "\n"
    #expect(throws: SigningSecrets.Malformed.self) { try SigningSecrets(text: line + line + line) }
  }

  @Test("B61: the secret is made once, with 0600, and read again on request")
  func secretFile() throws {
    let directory = TestFolder.make("secret")
    let file = SecretFile(inDataDirectory: directory)
    defer {
      unlink(file.path)
      rmdir(directory)
    }
    let keyring = try Keyring(file: file)
    var status = stat()
    #expect(stat(file.path, &status) == 0 && status.st_mode & 0o777 == 0o600)
    #expect(try Keyring(file: file).now.secrets == keyring.now.secrets)

    let handle = try #require(fopen(file.path, "w"))
    fputs(SigningSecrets.makeText(), handle)
    fclose(handle)
    let before = keyring.now
    try keyring.reread()
    #expect(keyring.now.secrets != before.secrets && keyring.now.generation == before.generation + 1)
    unlink(file.path)
    let kept = keyring.now
    #expect(throws: SecretFile.Failure.self) { try keyring.reread() }
    #expect(keyring.now.secrets == kept.secrets)
  }

  @Test("a ticket is good for its user and path until its token ends, and nowhere else")
  func tickets() throws {
    let ticket = StreamTicket(user: "alice", issued: now * 1000, expires: now + 60)
    let text = ticket.signed(for: "/v1/events", with: secrets)
    #expect(StreamTicket(checking: text, for: "/v1/events", against: secrets, now: now) == ticket)
    #expect(StreamTicket(checking: text, for: "/v1/event", against: secrets, now: now) == nil)
    #expect(StreamTicket(checking: text, for: "/v1/events", against: secrets, now: now + 60) == nil)
    #expect(StreamTicket(checking: text + "A", for: "/v1/events", against: secrets, now: now) == nil)
    let other = try SigningSecrets("ffffffffffffffffffffffffffffffff")
    #expect(StreamTicket(checking: text, for: "/v1/events", against: other, now: now) == nil)
  }
}
