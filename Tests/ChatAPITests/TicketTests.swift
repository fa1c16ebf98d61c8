import ChatModel
import MicroHTTP
import Platform
import Synchronization
import Testing

@testable import ChatAPI

/// Tickets for event streams: valid for one path in any spelling, until they expire, also after restarts
/// (B51).
@Suite struct TicketTests {
  private final class Time: Sendable {
    let now = Atomic<Int64>(Clock.system.wallMilliseconds())
    func pass(seconds: Int64) { now.add(seconds * 1000, ordering: .relaxed) }
    var seconds: Int64 { now.load(ordering: .relaxed) / 1000 }
    var clock: Clock {
      Clock(
        wallMilliseconds: { self.now.load(ordering: .relaxed) },
        monotonicNanoseconds: Clock.system.monotonicNanoseconds)
    }
  }

  /// A service with tokens that last an hour.
  private struct Setting {
    let time = Time()
    let secrets: SigningSecrets
    let world: CollectionWorld

    init() throws {
      secrets = try SigningSecrets("0123456789abcdef0123456789abcdef")
      world = try CollectionWorld(
        gate: Gate(.tokens(Keyring(secrets)), clock: time.clock), clock: time.clock)
      try world.join("alice", "general", name: "General")
      try world.list([1, 2], in: "general")
    }

    /// Restarts the service, which loses what it had in memory.
    func restart() throws {
      try world.restart(gate: Gate(.tokens(Keyring(secrets)), clock: time.clock))
    }

    var headers: [String: String] {
      let token = BearerToken(user: "alice", scopes: .chat, expires: time.seconds + 3600)
      return ["Authorization": "Bearer \(token.signed(with: secrets))", "Content-Type": "application/json"]
    }

    func ticket(for path: String) -> Answer {
      ask(
        world.server, "/v1/events/ticket", method: "POST", headers: headers, body: #"{"path":"\#(path)"}"#)
    }

    func follow(_ path: String, _ ticket: String) -> Answer {
      ask(world.server, "\(path)?wait=0&since=now&ticket=\(ticket)")
    }

    func view() -> String {
      ask(
        world.server, "/v1/message-collections", method: "POST", headers: headers,
        body: #"{"channel_url":"general"}"#
      ).text("id")
    }
  }

  @Test("B51: a ticket that was used in time is good after a start; one that was not used in time never is")
  func restart() throws {
    let setting = try Setting()
    defer { setting.world.stop() }
    let path = "/v1/message-collections/\(setting.view())/events"
    let (used, unused) = (setting.ticket(for: path).text("ticket"), setting.ticket(for: path).text("ticket"))
    // At another time, because tickets of one time are equal.
    setting.time.pass(seconds: 1)
    let other = setting.ticket(for: path).text("ticket")
    #expect(setting.follow(path, used).status == 200 && used == unused && used != other)
    setting.time.pass(seconds: 120)
    #expect(setting.follow(path, used).status == 200)
    for _ in 0..<2 {
      try setting.restart()
      for _ in 0..<2 { #expect(setting.follow(path, used).status == 200) }
      #expect(setting.follow(path, other).status == 401)
      #expect(setting.follow("/v1/events", used).status == 401)
    }
    setting.time.pass(seconds: 3600)
    #expect(setting.follow(path, used).status == 401)
  }

  @Test("B51: a first use is answered when it is durable, and a stream comes back after a start")
  func durable() throws {
    let setting = try Setting()
    defer { setting.world.stop() }
    let ticket = setting.ticket(for: "/v1/events").text("ticket")
    // Once the first use is answered, the ticket survives a restart, which keeps only the database.
    #expect(setting.follow("/v1/events", ticket).status == 200)
    try setting.restart()
    setting.time.pass(seconds: 61)
    let gone = ask(
      setting.world.server, "/v1/events?ticket=\(ticket)",
      headers: ["Accept": "text/event-stream", "Last-Event-ID": "0000000000000001.1.1"])
    #expect(gone.status == 200 && gone.body.contains("event: reset"))
  }

  @Test("B51: all spellings of a path are one path, for the ticket and for the poll")
  func spellings() throws {
    let setting = try Setting()
    defer { setting.world.stop() }
    let view = setting.view()
    let encoded = view.utf8.map { "%" + String($0, radix: 16) }.joined()
    let spellings = [
      "/v1/message-collections/\(view)/events", "/v1/message-collections/\(encoded)/events",
      "/v1/message%2Dcollections/\(view)/%65vents",
    ]
    for given in spellings {
      let ticket = setting.ticket(for: given)
      #expect(ticket.status == 201, "\(given)")
      for asked in spellings {
        #expect(setting.follow(asked, ticket.text("ticket")).status == 200, "\(given) \(asked)")
      }
      #expect(setting.follow("/v1/events", ticket.text("ticket")).status == 401)
    }
    for path in [
      "/v1/message-collections/\(view)%2Fevents", "/v1/message-collections/a%2Fb/events", "/v1/events/",
      "/v1/message-collections//events", "/v1/message-collections/%zz/events", "/v1/channels", "",
      "/v1/message-collections/a%00b/events", "/v1/message-collections/%FF/events",
    ] {
      let answer = setting.ticket(for: path)
      #expect(answer.status == 400 && answer.body.contains(#""field":"path""#), "\(path)")
    }
  }

  @Test("B51: of each user so many tickets are remembered; nobody pushes out another's")
  func bound() throws {
    let tickets = UsedTickets()
    let secrets = try SigningSecrets("0123456789abcdef0123456789abcdef")
    let now: Int64 = 1_000_000
    func ticket(_ user: String, _ number: Int64) throws -> StreamTicket {
      let made = StreamTicket(user: user, issued: now * 1000 + number, expires: now + 3600)
      return try #require(
        StreamTicket(
          checking: made.signed(for: "/v1/events", with: secrets), for: "/v1/events", against: secrets,
          now: now))
    }
    #expect(try tickets.use(ticket("bob", 0), now: now * 1000))
    for number in 0..<150 { #expect(try tickets.use(ticket("Karl", Int64(number)), now: now * 1000)) }
    #expect(try tickets.use(ticket("\u{212A}arl", 0), now: now * 1000))
    #expect(tickets.count(of: UserID("Karl")) == UsedTickets.mostPerUser)
    #expect(tickets.count(of: UserID("\u{212A}arl")) == 1 && tickets.count(of: UserID("bob")) == 1)
    let late = (now + 100) * 1000
    #expect(try tickets.use(ticket("bob", 0), now: late) && tickets.use(ticket("Karl", 149), now: late))
    #expect(try !tickets.use(ticket("Karl", 0), now: late), "the one used longest ago is forgotten")
  }
}
