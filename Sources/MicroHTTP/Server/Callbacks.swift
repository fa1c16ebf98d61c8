import CMicroHTTPD
import CMicroHTTPDPatches
import Glibc

// The callbacks that libmicrohttpd calls on the worker threads. Each finds its object and calls that.

let noticeConnection: MHD_NotifyConnectionCallback = { pointer, connection, context, event in
  guard let pointer, let connection, let context else { return }
  let daemon = Unmanaged<Daemon>.fromOpaque(pointer).takeUnretainedValue()
  let me = daemon.worker.server
  if event == .CONNECTION_NOTIFY_STARTED {
    let seconds = me.configuration.limits.headSeconds
    context.pointee = me.lot.open(socket: mhd_fd(connection), owner: daemon, headSeconds: seconds).toOpaque()
  } else if let client = context.pointee {
    context.pointee = nil
    me.closing(Unmanaged<ClientConnection>.fromOpaque(client).takeUnretainedValue())
    me.lot.close(Unmanaged.fromOpaque(client))
    daemon.noteClosed()
  }
}

let beginRequest:
  @convention(c) (
    UnsafeMutableRawPointer?, UnsafePointer<CChar>?, OpaquePointer?
  ) -> UnsafeMutableRawPointer? =
    {
      server, target, connection in
      guard let server, let target, let connection else { return nil }
      return Unmanaged<Server>.fromOpaque(server).takeUnretainedValue().begin(connection, target)
    }

/// Keeps libmicrohttpd from decoding, because the router decodes segment by segment.
let leaveEscaped:
  @convention(c) (UnsafeMutableRawPointer?, OpaquePointer?, UnsafeMutablePointer<CChar>?) -> Int = {
    _, _, text in
    text.map { strlen($0) } ?? 0
  }

let handleAccess: MHD_AccessHandlerCallback = {
  server, connection, url, method, version, bytes, count, context in
  guard let server, let connection, let url, let method, let version, let count,
    let context = context?.pointee
  else { return .NO }
  let line = RequestGuard.Line(method: method, target: url, version: version)
  // The library's context owns the request until it is completed.
  return Unmanaged<Server>.fromOpaque(server)._withUnsafeGuaranteedRef { server in
    Unmanaged<Request>.fromOpaque(context)._withUnsafeGuaranteedRef { request in
      switch request.phase {
      case .head: return server.accept(request, connection, line) ? .YES : .NO
      case .judging: return server.goOnJudging(request) ? .YES : .NO
      case .body:
        guard count.pointee > 0, let bytes else { return server.run(request, head: method) ? .YES : .NO }
        switch server.take(UnsafeRawBufferPointer(start: bytes, count: count.pointee), of: request) {
        case .taken: count.pointee = 0
        case .waiting: break
        case .cut: return .NO
        }
        return .YES
      case .parked: return server.goOn(request) ? .YES : .NO
      case .goneOn: return server.answer(request) ? .YES : .NO
      case .running, .answered: return .YES
      }
    }
  }
}

let noticeCompleted: MHD_RequestCompletedCallback = { server, _, context, reason in
  guard let server, let context, let pointer = context.pointee else { return }
  context.pointee = nil
  let request = Unmanaged<Request>.fromOpaque(pointer)
  Unmanaged<Server>.fromOpaque(server).takeUnretainedValue().completed(
    request.takeUnretainedValue(), reason)
  request.release()
}

let makeRefusal: mhd_refusal_maker = { connection, status in
  guard let connection else { return nil }
  guard let context = mhd_socket_context(OpaquePointer(connection)) else { return nil }
  let client = Unmanaged<ClientConnection>.fromOpaque(context).takeUnretainedValue()
  return client.worker.server.refusal(OpaquePointer(connection), client, status: Int(status)).map {
    UnsafeMutableRawPointer($0)
  }
}
