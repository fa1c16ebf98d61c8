/// What the head of a form's part says.
package struct PartHead: Sendable {
  /// The field's name.
  package let name: String
  /// The client's name for the file; nil where it gave none.
  package let fileName: String?
  /// The media type given; nil when none was.
  package let contentType: String?
}

/// Takes the files of a multipart form while they arrive. The request has it until its answer was sent, so an
/// intake that is let go of removes what nobody kept.
///
/// All calls come from the worker thread of the connection, one after the other.
package protocol FormIntake: AnyObject {
  /// A part begins. True: its bytes are given to `write`. False: they are kept in memory as a field. A
  /// problem refuses the form.
  func begin(_ part: PartHead) throws(Problem) -> Bool

  /// The next bytes of the part that began last.
  func write(_ bytes: UnsafeRawBufferPointer) throws(Problem)

  /// The part that was given to `write` is whole. Answers the path of its file, where it is in one that
  /// handlers may know.
  func end() throws(Problem) -> String?
}
