/// Limits of files that come with messages.
enum UploadLimit {
  /// Bytes of a file.
  static let fileBytes = 26_214_400
  /// Bytes of a whole form: a file, its `params` of 256 KiB, and what stands between them.
  static let formBytes = fileBytes + 262_144 + 16_384
  /// Characters of a file's name as it is kept.
  static let nameCharacters = 255
  /// Characters of a media type.
  static let typeCharacters = 127
  /// Bytes of a name in a header before they are percent-encoded.
  static let headerNameBytes = 120
  /// How long a request waits until its file and its row are on the disk, in milliseconds.
  static let storingMilliseconds = 60_000
}
