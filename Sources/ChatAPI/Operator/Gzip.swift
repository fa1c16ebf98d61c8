import CZlib
import MicroHTTP

/// The service's own files, compressed.
enum Gzip {
  /// The bytes as gzip, made as small as zlib can; nil where zlib has no memory for it.
  static func compressed(_ bytes: [UInt8]) -> [UInt8]? {
    var stream = z_stream()
    let asGzip = MAX_WBITS + 16
    guard
      deflateInit2_(
        &stream, Z_BEST_COMPRESSION, Z_DEFLATED, asGzip, MAX_MEM_LEVEL, Z_DEFAULT_STRATEGY, ZLIB_VERSION,
        Int32(MemoryLayout<z_stream>.size)) == Z_OK
    else { return nil }
    defer { deflateEnd(&stream) }
    var input = bytes
    var output = [UInt8](repeating: 0, count: Int(deflateBound(&stream, UInt(bytes.count))))
    let isWhole = input.withUnsafeMutableBufferPointer { input in
      output.withUnsafeMutableBufferPointer { output in
        stream.next_in = input.baseAddress
        stream.avail_in = UInt32(input.count)
        stream.next_out = output.baseAddress
        stream.avail_out = UInt32(output.count)
        return deflate(&stream, Z_FINISH) == Z_STREAM_END
      }
    }
    return isWhole ? Array(output.prefix(Int(stream.total_out))) : nil
  }

  /// Whether the client takes gzip, as its `Accept-Encoding` says.
  static func isTaken(by request: Request) -> Bool {
    guard let accepted = request.headerText("Accept-Encoding") else { return false }
    return accepted.lowercased().split(separator: ",").contains { coding in
      let words = coding.split(separator: ";").map { $0.filter { $0 != " " && $0 != "\t" } }
      return words.first == "gzip"
        && !words.dropFirst().contains { $0.hasPrefix("q=") && Double($0.dropFirst(2)) == 0 }
    }
  }
}
