/// One part of a multipart form.
package struct MultipartPart: Sendable {
  /// The field's name.
  package let name: String
  /// The client's name for the file; nil where it gave none.
  package let fileName: String?
  /// The media type that the client gave; nil for none.
  package let contentType: String?
  /// The bytes of a plain field.
  package let value: [UInt8]
  /// The file the bytes were streamed into. A handler keeps it by renaming it; otherwise the request removes
  /// it.
  package let path: String?
  /// Bytes of the part.
  package let byteCount: Int
}
