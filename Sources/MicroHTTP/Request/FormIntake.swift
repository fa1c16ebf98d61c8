/// The headers of one part of a form.
package struct PartHead: Sendable {
  /// The field's name.
  package let name: String
  /// The client's name for the file; nil where it gave none.
  package let fileName: String?
  /// The media type that the client gave; nil for none.
  package let contentType: String?
}

/// Takes the files of a multipart form while they arrive. The request keeps the intake until its answer was
/// sent. When the intake is freed, it removes the files that no handler kept.
///
/// All calls come from the worker thread of the connection, one after the other.
package protocol FormIntake: AnyObject {
  /// A part begins. True: its bytes are passed to `write`. False: its bytes are kept in memory as a field.
  /// Throws a problem to refuse the form.
  func begin(_ part: PartHead) throws(Problem) -> Bool

  /// The next bytes of the part that began last.
  func write(_ bytes: UnsafeRawBufferPointer) throws(Problem)

  /// The part that was passed to `write` is whole. Returns the path of its file, if handlers may know it.
  func end() throws(Problem) -> String?
}
