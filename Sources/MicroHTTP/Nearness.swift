import CMicroHTTPD
import CMicroHTTPDRefusals

/// Many parked requests are resumed at once, and what they keep was not touched since they were parked: a
/// worker would wait for memory at each step of each. Where a step leads is known only when the one before it
/// is there, so whenever a worker comes to one request, it has one step fetched of each of the next four.
///
/// Nothing here counts references: that would wait for the very memory that is to be fetched.
enum Nearness {
  /// About so large is what the library keeps of a connection, as far as answers need it.
  private static let ofConnection = 512
  private static let ofLink = 128
  private static let ofRequest = 256
  /// At both ends of a connection's block of memory: the request's head is at its beginning.
  private static let ofMemory = 512
  private static let ofWaiter = 64
  private static let ofFollower = 192

  /// Brings near what is needed next of the requests that this worker comes to after that connection's.
  static func bringNear(after connection: OpaquePointer) {
    guard let first = mhd_ready_after(UnsafeMutableRawPointer(connection)) else { return }
    request(on: first)?._withUnsafeGuaranteedRef(bringNearWhatItKeeps)
    guard let second = mhd_ready_after(first) else { return }
    mhd_bring_near(request(on: second)?.toOpaque(), ofRequest)
    guard let third = mhd_ready_after(second) else { return }
    mhd_bring_near(mhd_socket_context(OpaquePointer(third)), ofLink)
    guard let fourth = mhd_ready_after(third) else { return }
    mhd_bring_near(fourth, ofConnection)
  }

  private static func request(on connection: UnsafeMutableRawPointer) -> Unmanaged<Request>? {
    guard let context = mhd_socket_context(OpaquePointer(connection)) else { return nil }
    return Unmanaged<Link>.fromOpaque(context)._withUnsafeGuaranteedRef { $0.request }
  }

  private static func bringNearWhatItKeeps(_ request: Request) {
    mhd_bring_near(request.target.start, ofWaiter)
    withUnsafeBytes(of: &request.waiter) { mhd_bring_near($0.load(as: UnsafeRawPointer?.self), ofWaiter) }
    // A closure is its code and what it keeps.
    withUnsafeBytes(of: &request.resume) {
      mhd_bring_near($0.load(fromByteOffset: 8, as: UnsafeRawPointer?.self), ofFollower)
    }
    guard let head = request.head else { return }
    mhd_bring_near(head, ofMemory)
    let bytes = request.server.configuration.limits.connectionMemoryBytes
    mhd_bring_near(head + bytes - ofMemory, ofMemory)
  }
}
