import Platform

// A form is judged when the request's head is complete. By then libmicrohttpd has sent no `100 Continue` and
// read nothing of the body. A judge that parks suspends the connection; the library calls again when it is
// resumed.

extension Server {
  /// Asks the route whether the form may be read. A refusal closes the connection, because the body will not
  /// be read.
  func judge(_ request: Request, _ judge: Route.Handler) -> Bool {
    do { return settleJudgement(try judge(request), request) } catch {
      return queue(render(error, request), request, closes: true)
    }
  }

  /// Continues a judge that parked.
  func goOnJudging(_ request: Request) -> Bool {
    guard let reason = request.waiter?.takeReason() else { return true }
    guard let resume = request.resume else { return false }
    request.resume = nil
    if reason == .hungUp {
      giveUp(resume, reason)
      return false
    }
    do { return settleJudgement(try resume(reason), request) } catch {
      return queue(render(error, request), request, closes: true)
    }
  }

  private func settleJudgement(_ outcome: consuming Outcome, _ request: Request) -> Bool {
    var outcome = outcome
    while true {
      switch consume outcome {
      case .respond(let response): return queue(response, request, closes: true)
      case .receive(let files):
        // The handler gets a new waiter, because it would take a late wake of this one for its own.
        request.waiter?.end()
        request.waiter = nil
        request.receive(files, configuration.limits, at: lot.now())
        request.phase = .body
        lot.awaitClient(request.client, until: bodyEnd(of: request))
        return true
      case .park(let parking):
        request.phase = .judging
        guard let reason = park(request, parking) else { return true }
        do { outcome = try parking.resume(reason) } catch {
          return queue(render(error, request), request, closes: true)
        }
      }
    }
  }
}
