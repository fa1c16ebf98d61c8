import CMicroHTTPD
import Platform

extension Response {
  /// A stream of server-sent events.
  package static func events(_ stream: EventStream, blockBytes: Int = 1024) -> Response {
    let reader = EventStream.Reader(stream)
    let handle = MHD_create_response_from_callback(
      UInt64.max, blockBytes, readStream, Unmanaged.passRetained(reader).toOpaque(), freeStream)
    guard let handle else { preconditionFailure("out of memory") }
    var response = Response(status: 200, handle: handle, byteCount: 0, content: .stream(reader))
    response.add("Content-Type", "text/event-stream")
    response.add("Cache-Control", "no-store")
    response.add("X-Accel-Buffering", "no")
    return response
  }
}

private let readStream: MHD_ContentReaderCallback = { context, _, block, room in
  guard let context, let block else { return -1 }
  return Unmanaged<EventStream.Reader>.fromOpaque(context).takeUnretainedValue().read(into: block, room: room)
}

private let freeStream: MHD_ContentReaderFreeCallback = { context in
  if let context { Unmanaged<EventStream.Reader>.fromOpaque(context).release() }
}
