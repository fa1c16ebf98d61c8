import ChatCache
import ChatModel
import Platform

// Lists a channel's members from the beginning to the end when a client asks for them or filters by them.
// Afterwards webhook notes keep the list in step.
extension SyncWorker {
  /// The members in a page.
  static let memberPage = 100
  /// The most pages listed for one request. The next request goes on with the rest.
  static let memberPagesAtOnce = 50
  /// The first of these pages, which go ahead of other work.
  static let memberPagesAhead = 3
  /// The most members absent from a listing that are asked for by their ids before all absent ones are
  /// removed.
  static let absentAsked = 5
  /// The most users of a note who are asked for by their ids. If a note names more, the members are listed
  /// again when a client asks for them.
  static let membersNamed = 20
  /// How long after a listing that proved nothing the members are not listed again (ms).
  static let unprovenPause: Int64 = 10_000

  /// Fetches the members of these channels, all at once.
  package func fetchMembers(of urls: [ChannelURL]) async -> SyncOutcome {
    await withTaskGroup(of: SyncOutcome.self) { group in
      for url in urls { group.addTask { await self.fetchMembers(of: url) } }
      var all = SyncOutcome.stored
      for await fetched in group where fetched != .stored { all = fetched }
      return all
    }
  }

  private func fetchMembers(of url: ChannelURL) async -> SyncOutcome {
    unprovenMembers = unprovenMembers.filter { $0.value > now }
    if unprovenMembers[url] != nil {
      return .failed(.failed(reason: "the last listing of the members was not complete"))
    }
    return await read(.members(url)) {
      do { try await self.listMembers(of: url) } catch let error as UpstreamError {
        if error.isRefusal { self.unprovenMembers[url] = self.now + SyncWorker.unprovenPause }
        throw error
      }
    }
  }

  /// Lists the members, and once more if that proves nothing because members came or went meanwhile.
  private func listMembers(of url: ChannelURL) async throws {
    var pages = 0
    for attempt in 1...2 {
      guard var listing = try await store.beginMembers(of: url, anew: attempt > 1) else { return }
      do {
        repeat {
          guard pages < SyncWorker.memberPagesAtOnce else { return }
          let page = try await upstream.members(
            of: url, limit: SyncWorker.memberPage, after: listing.token,
            pages < SyncWorker.memberPagesAhead ? .foreground : .background)
          pages += 1
          // A page whose next token is its own would be requested for ever.
          let next = page.next == listing.token ? nil : page.next
          guard try await store.store(page.items, of: url, in: listing, next: next) else { return }
          listing.token = next
        } while listing.token != nil
        if try await end(listing, of: url) { return }
      } catch let error as UpstreamError {
        guard listing.token != nil, error.deniesToken, !error.isNotFound else { throw error }
      }
    }
    unprovenMembers[url] = now + SyncWorker.unprovenPause
  }

  /// Ends a complete listing. A page may have been stale or cut, so the first few members whom it did not
  /// show are asked for by their ids. If one of them is there, the listing was wrong, and only those known to
  /// be gone are removed. Returns whether the list is whole.
  private func end(_ listing: MemberListing, of url: ChannelURL) async throws -> Bool {
    let shown = try store.shownMembers(of: url, by: listing)
    let asked = shown.absent.prefix(SyncWorker.absentAsked)
    var gone: [UserID] = []
    for user in asked where try await upstream.memberState(user, of: url, .background) == .outside {
      gone.append(user)
    }
    let counted = try await upstream.channel(url, as: nil, .background).memberCount
    // Whether each stored member was shown, or asked for by the id.
    var isEachKnown = asked.count == shown.absent.count
    if !isEachKnown, gone.count == asked.count, counted == shown.present {
      gone = shown.absent
      isEachKnown = true
    }
    return try await store.endMembers(of: url, listing, gone: gone, counted: isEachKnown ? counted : nil)
  }

  /// Brings a whole list in step with a note: asks for each user whom the note names. If that fails, the list
  /// stays incomplete, and is listed again when a client asks for it.
  func settleMembers(of url: ChannelURL, _ news: Int64, _ note: Webhook.Note) async throws {
    let list = try store.memberList(of: url)
    guard list.isWhole, list.settled < news, !note.users.isEmpty, note.users.count <= SyncWorker.membersNamed
    else { return }
    do {
      var came: [MemberRecord] = []
      var gone: [UserID] = []
      for user in note.users {
        switch try await upstream.memberState(user, of: url, .open) {
        case .outside: gone.append(user)
        case let state: came.append(try await member(user, state, of: url))
        }
      }
      try await store.settleMembers(of: url, news: news, came: came, gone: gone, note.source)
    } catch let error as UpstreamError {
      guard error.concernsOneItem else { throw error }
    }
  }

  /// The record of a member who was asked for by the id: the state and, if the member is new here, the user's
  /// fields.
  private func member(
    _ user: UserID, _ state: MembershipRecord.State, of url: ChannelURL
  ) async throws -> MemberRecord {
    var fields = Array("\"state\":\"\(state.rawValue)\"".utf8)
    var nickname: String?
    if try !store.hasMember(user, in: url) {
      let record = try await upstream.user(user, .open)
      fields = record.body.dropFirst().dropLast() + [UInt8(ascii: ",")] + fields
      nickname = record.nickname
    }
    var member = MemberRecord(userID: user.text, nickname: nickname, state: state, body: fields)
    member.isWhole = false
    return member
  }
}
