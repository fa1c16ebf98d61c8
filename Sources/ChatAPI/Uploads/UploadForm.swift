import ChatCache
import JSON
import MicroHTTP

/// The form of a message with a file: the parts `params` and `file`, in either order. The file is written to
/// the spool while it arrives.
final class UploadForm: FormIntake {
  private let spool: Spool
  /// The bytes that are reserved in the spool, from the request's head.
  private let announced: Int
  /// The request id of the message in the form. Nil: the form has only a new file for a stored message.
  private let name: RequestName?
  /// Whether the request was accepted before. Its file is then only compared with the stored one.
  private let isRepeated: Bool
  private var file: IncomingFile?
  private var part: PartHead?
  private var hasParams = false

  /// A form whose file has at most `announced` bytes; nil: its size is unknown.
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

  /// The received file, with the name and media type that the client gave. Throws if there is no file or it
  /// is empty.
  func whole() throws(Problem) -> ReceivedFile {
    guard let file, let part else { throw .invalid("file", "Give a file.") }
    guard file.size > 0 else { throw .invalid("file", "Give a file that is not empty.") }
    return ReceivedFile(
      incoming: file, name: FileLabel.name(part.fileName ?? ""), mime: FileLabel.type(part.contentType ?? ""))
  }

  /// A part's name, cut to what fits into a problem.
  private static func shown(_ name: String) -> String { String(name.prefix(64)) }
}

/// A file that came with a request and that no row names yet.
struct ReceivedFile {
  let incoming: IncomingFile
  let name: String
  let mime: String
}

extension Problem {
  /// The problem for a file that could not be stored: the spool is full, or the disk failed.
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
    case .forgotten:
      self.init(
        507, "upload_not_stored",
        detail: "The request's id was forgotten while the file came: send it again.",
        headers: [("Retry-After", "1")])
    }
  }
}
