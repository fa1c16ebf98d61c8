import ChatCache
import JSON
import MicroHTTP

/// The form of a message with a file: `params` and one `file`, in either order. The file goes to the spool
/// while it comes.
final class UploadForm: FormIntake {
  private let spool: Spool
  /// The room that the head asked for.
  private let announced: Int
  /// The name of the message that the form brings; nil: it brings another file for one that is here.
  private let name: RequestName?
  /// Whether the request was accepted before: its file is only compared.
  private let isRepeated: Bool
  private var file: IncomingFile?
  private var part: PartHead?
  private var hasParams = false

  /// A form whose file may have `announced` bytes at most, where its size is known.
  init(_ spool: Spool, announced: Int?, _ name: RequestName?, isRepeated: Bool) {
    self.spool = spool
    self.announced = min(announced ?? 0, UploadLimit.fileBytes)
    self.name = name
    self.isRepeated = isRepeated
  }

  func begin(_ head: PartHead) throws(Problem) -> Bool {
    switch head.name {
    case "params" where name != nil:
      guard !hasParams else { throw .invalid("params", "Give it once.") }
      hasParams = true
      return false
    case "file":
      guard part == nil else { throw .invalid("file", "Give one file.") }
      part = head
      do throws(SpoolError) {
        file = isRepeated ? spool.beginRepeated() : try spool.begin(announced: announced)
      } catch { throw Problem(error).naming(name) }
      return true
    default: throw .invalid(UploadForm.shown(head.name), "The form has no such part.")
    }
  }

  func write(_ bytes: UnsafeRawBufferPointer) throws(Problem) {
    guard let file else { return }
    guard file.size + bytes.count <= UploadLimit.fileBytes else {
      self.file = nil
      throw Problem(
        413, "content_too_large", detail: "Send a file of at most \(UploadLimit.fileBytes) bytes.")
    }
    do throws(SpoolError) { try file.write(bytes) } catch {
      self.file = nil
      throw Problem(error).naming(name)
    }
  }

  func end() throws(Problem) -> String? {
    do throws(SpoolError) { try file?.end() } catch {
      file = nil
      throw Problem(error).naming(name)
    }
    return nil
  }

  /// The file that came, and the client's words for it. Throws where none came, or it is empty.
  func whole() throws(Problem) -> ReceivedFile {
    guard let file, let part else { throw .invalid("file", "Give a file.") }
    guard file.size > 0 else { throw .invalid("file", "Give a file that is not empty.") }
    return ReceivedFile(
      incoming: file, name: FileLabel.name(part.fileName ?? ""), mime: FileLabel.type(part.contentType ?? ""))
  }

  /// A part's name, cut to what fits into a problem.
  private static func shown(_ name: String) -> String { String(name.prefix(64)) }
}

/// A file that came with a request and that nobody has stored yet.
struct ReceivedFile {
  let incoming: IncomingFile
  let name: String
  let mime: String
}

extension Problem {
  /// The spool or the disk is full, or the disk fails: nothing of the file is kept.
  init(_ error: SpoolError) {
    switch error {
    case .full:
      self.init(
        507, "upload_not_stored",
        detail: "The files of unsent messages take all the room there is: send it again later.",
        headers: [("Retry-After", "60")])
    case .disk:
      self.init(
        507, "upload_not_stored", detail: "The disk did not take the file: send it again later.",
        headers: [("Retry-After", "60")])
    }
  }
}
