import Glibc
import JSON
import MicroHTTP
import Platform
import SQLite

/// A message's file: its url and the other fields that answers show of it.
struct StoredFile {
  /// Empty: there is no file. Begins with /: this server serves it.
  var url = ""
  var fields = Value.object([:])

  init() {}

  init(url: String, name: String, type: String, size: Int64, data: String = "") {
    self.url = url
    fields = .object([
      "name": .string(name), "type": .string(type), "size": .integer(size), "data": .string(data),
    ])
  }
}

/// Uploaded files. They are rows, so that a file is as safe as the message that shows it, and a database in
/// memory leaves nothing behind.
enum Uploads {
  static let typeFallback = "application/octet-stream"

  /// `POST /v3/storage/file`
  static func upload(_ call: inout Call, _ json: inout JSONWriter) throws {
    guard call.capabilities.areSeparateUploadsOn else {
      throw Refusal(400108, "Not allowed.", status: 403)
    }
    guard let part = call.arguments.parts.first(where: { $0.path != nil }) else {
      throw Refusal.missing("file")
    }
    let file = try keep(part, call)
    var fields = file.fields.fields
    fields["url"] = .string(call.base + file.url)
    Value.object(fields).write(to: &json)
  }

  /// The file of a new message: uploaded with it, or elsewhere already.
  static func file(of call: Call) throws -> StoredFile {
    let arguments = call.arguments
    if let part = arguments.parts.first(where: { $0.path != nil }) { return try keep(part, call) }
    // The published client sends `files` as one object.
    let given = arguments.value("files").map { $0.items.first ?? $0 }
    let url = try arguments.text("url") ?? arguments.text("file_url") ?? given?["url"]?.string
    guard let url, !url.isEmpty else { throw Refusal.missing("url") }
    return StoredFile(
      url: url.hasPrefix(call.base + "/") ? String(url.dropFirst(call.base.count)) : url,
      name: try arguments.text("file_name") ?? given?["name"]?.string ?? "",
      type: try arguments.text("file_type") ?? given?["type"]?.string ?? "",
      size: try arguments.number("file_size") ?? given?["size"]?.integer ?? 0,
      data: try arguments.text("custom_field") ?? given?["data"]?.string ?? "")
  }

  private static func keep(_ part: MultipartPart, _ call: Call) throws -> StoredFile {
    let type = part.contentType ?? typeFallback
    let bytes = try call.arguments.heldFile ?? contents(part)
    try bytes.withUnsafeBytes { bytes in
      try insert(call.stamp, name: part.fileName ?? "", type: type, bytes, call.db)
    }
    return StoredFile(
      url: "/files/\(call.stamp)", name: part.fileName ?? "", type: type, size: Int64(part.byteCount))
  }

  static func insert(
    _ id: Int64, name: String, type: String, _ bytes: UnsafeRawBufferPointer, _ db: WriteAccess
  ) throws {
    try db.run("INSERT INTO upload (id, name, type, bytes) VALUES (?1, ?2, ?3, ?4)") {
      $0.bind(1, id)
      $0.bind(2, name)
      $0.bind(3, type)
      $0.bind(4, blob: bytes)
    }
  }

  /// Reads the bytes of a form's file, and removes the file from the disk.
  static func contents(_ part: MultipartPart) throws -> [UInt8] {
    guard let path = part.path, let file = fopen(path, "re") else {
      throw Refusal(500901, "The file could not be read.", status: 500)
    }
    // Removed at once: a row is to hold the bytes, and a process that ends here leaves no file.
    unlink(path)
    defer { fclose(file) }
    return [UInt8](unsafeUninitializedCapacity: part.byteCount) { room, count in
      count = fread(room.baseAddress, 1, room.count, file)
    }
  }

  /// Serves a file or a range of it. Scripts in it do not run.
  static func serve(_ name: String, _ store: Store, for request: Request) throws -> Response {
    guard let found = try find(name, store) else {
      return Refusal(400201, "No such file.", status: 404).response
    }
    let size = found.bytes.count
    guard let range = ByteRange(of: request, size: size) else {
      var response = whole(found)
      response.add("Accept-Ranges", "bytes")
      return response
    }
    if range == .unsatisfiable { return Refusal(400113, "No such bytes.", status: 416).response }
    let last = range.first + range.count - 1
    var response = answer(206, found.type, found.bytes[range.first...last])
    response.add("Accept-Ranges", "bytes")
    response.add("Content-Range", "bytes \(range.first)-\(last)/\(size)")
    return response
  }

  /// A file's type and bytes; nil: there is no such file.
  static func find(_ name: String, _ store: Store) throws -> (type: String, bytes: [UInt8])? {
    try store.read { db, _ in
      try db.first("SELECT type, bytes FROM upload WHERE id = ?1", { $0.bind(1, Int64(name) ?? -1) }) {
        (type: $0.string(0), bytes: [UInt8]($0.bytes(1)))
      }
    }
  }

  /// The answer with all bytes.
  static func whole(_ found: (type: String, bytes: [UInt8])) -> Response {
    answer(200, found.type, found.bytes[...])
  }

  private static func answer(_ status: Int, _ type: String, _ bytes: ArraySlice<UInt8>) -> Response {
    var body = ByteBuffer(capacity: bytes.count + 1)
    bytes.withUnsafeBytes { body.append($0) }
    var response = Response(status: status, type: known(type), body: body)
    response.add("Content-Security-Policy", "sandbox; default-src 'none'; style-src 'unsafe-inline'")
    return response
  }

  private static func known(_ type: String) -> StaticString {
    switch type {
    case "image/svg+xml": "image/svg+xml"
    case "image/png": "image/png"
    case "image/jpeg": "image/jpeg"
    case "image/gif": "image/gif"
    case "image/webp": "image/webp"
    case "text/plain": "text/plain; charset=utf-8"
    case "application/pdf": "application/pdf"
    default: "application/octet-stream"
    }
  }
}
