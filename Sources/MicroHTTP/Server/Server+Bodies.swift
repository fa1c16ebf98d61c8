import Platform

extension Server {
  /// Takes the next bytes of a request's body, or waits until there is room for them.
  func take(_ piece: UnsafeRawBufferPointer, of request: Request) -> BodyProgress {
    guard let body = request.intake else { return .taken }
    let wanted = body.intake.wantedBytes(piece.count)
    if var reason = body.waiter?.takeReason() {
      // When several bodies' waits end together, refusing one body makes room for the next.
      if reason == .deadline, body.laterWaits > 0, bodyRoom.bytes + wanted <= bodyRoom.most {
        body.laterWaits -= 1
        reason = .woken
      }
      if let end = goOn(after: reason, request) { return end }
    }
    while !bodyRoom.take(wanted) {
      if let end = waitForRoom(wanted, body, request) { return end }
    }
    let isTaken = body.intake.take(piece, overrun: configuration.limits.overrunBytes)
    if body.pace?.came(piece.count, of: configuration.limits.uploadPaceBytes, now: lot.now()) ?? false {
      lot.setDeadline(request.client, bodyEnd(of: request))
    }
    let holds = body.intake.heldBytes
    bodyRoom.give(back: body.held + wanted - holds)
    body.held = holds
    if !isTaken {
      counters.refused(.body)
      if body.pace != nil, let fault = body.intake.fault { refuse(request, fault) }
    }
    return isTaken ? .taken : .cut
  }

  /// Parks the request until there may be room. Nil if there may be room now.
  private func waitForRoom(_ wanted: Int, _ body: PendingBody, _ request: Request) -> BodyProgress? {
    guard let connection = request.connection else { return .cut }
    let waiter = body.waiter ?? Waiter(lot: lot)
    body.waiter = waiter
    bodyRoom.wait(waiter)
    if bodyRoom.bytes + wanted <= bodyRoom.most { return nil }
    let milliseconds = configuration.limits.bodyRoomSeconds * 1000
    switch lot.park(waiter, connection, request.client, milliseconds: milliseconds, .alone) {
    case nil: return .waiting
    case .woken: return nil
    case .deadline, .shutdown, .hungUp: return goOn(after: .shutdown, request)
    }
  }

  /// Continues a request that waited for room. Nil: it goes on; otherwise it is over.
  private func goOn(after reason: Wake, _ request: Request) -> BodyProgress? {
    switch reason {
    case .woken:
      request.intake?.pace?.restart(lot.now())
      lot.awaitClient(request.client, until: bodyEnd(of: request))
      return nil
    case .hungUp: return .cut
    case .deadline:
      counters.refused(.unadmittedBodies)
      admitBody(of: request)
      refuse(
        request,
        Problem(
          503, "busy", detail: "too many bodies are being sent at once: send it again after Retry-After",
          headers: [("Retry-After", "2")]))
      return .cut
    case .shutdown:
      refuse(
        request,
        Problem(
          503, "stopping", detail: "the service is stopping: send it again", headers: [("Retry-After", "1")]))
      return .cut
    }
  }

  /// The tick by which the body, or its present stretch, must have come.
  func bodyEnd(of request: Request) -> UInt32 {
    let limits = configuration.limits
    guard let pace = request.intake?.pace else {
      return lot.tick(at: request.startedAt, plusSeconds: limits.bodySeconds)
    }
    return min(
      lot.tick(at: pace.since, plusSeconds: limits.uploadPaceSeconds),
      lot.tick(at: request.startedAt, plusSeconds: limits.uploadSeconds))
  }

  /// Gives the body's room back, because its handler was called or never will be.
  func admitBody(of request: Request) {
    guard let body = request.intake else { return }
    if let waiter = body.waiter {
      waiter.end()
      bodyRoom.leave(waiter)
      body.waiter = nil
    }
    guard body.held > 0 else { return }
    let held = body.held
    body.held = 0
    bodyRoom.give(back: held)
  }
}
