import Glibc

/// The methods that routes can have.
package enum Method: UInt8, Sendable, CaseIterable {
  case get, head, post, put, patch, delete, options

  /// As it is written on the wire.
  package var name: StaticString {
    switch self {
    case .get: "GET"
    case .head: "HEAD"
    case .post: "POST"
    case .put: "PUT"
    case .patch: "PATCH"
    case .delete: "DELETE"
    case .options: "OPTIONS"
    }
  }

  init?(wire: UnsafePointer<CChar>) {
    for method in Method.allCases where strcmp(wire, method.name.cString) == 0 {
      self = method
      return
    }
    return nil
  }
}

extension StaticString {
  /// The literal as C text; literals end with a zero byte.
  var cString: UnsafePointer<CChar> { UnsafeRawPointer(utf8Start).assumingMemoryBound(to: CChar.self) }

  /// The literal's bytes.
  package var bytes: UnsafeRawBufferPointer {
    UnsafeRawBufferPointer(start: utf8Start, count: utf8CodeUnitCount)
  }
}
