import MicroHTTP

/// A value that was read.
enum SettingValue: Sendable, Equatable {
  case text(String)
  case list([String])
  case address(ListenAddress)
  /// A number, milliseconds or bytes.
  case number(Int)
}

/// The values of a command's settings, each of the kind its table says.
///
/// Asking for a name or a kind that the table does not have is a mistake in the program.
struct SettingValues: Sendable {
  private let values: [String: SettingValue]

  /// Reads the same words, files and environment again.
  let again: @Sendable () throws -> SettingValues

  init(_ values: [String: SettingValue], again: @escaping @Sendable () throws -> SettingValues) {
    self.values = values
    self.again = again
  }

  /// Text; "" where it was left out.
  func text(_ name: String) -> String {
    if case .text(let text)? = values[name] { text } else { wrong(name) }
  }

  /// A list; empty where it was left out.
  func list(_ name: String) -> [String] {
    if case .list(let list)? = values[name] { list } else { wrong(name) }
  }

  /// A number, milliseconds or bytes.
  func number(_ name: String) -> Int {
    if case .number(let number)? = values[name] { number } else { wrong(name) }
  }

  /// An address.
  func address(_ name: String) -> ListenAddress {
    if case .address(let address)? = values[name] { address } else { wrong(name) }
  }

  /// An address; nil where it was left out.
  func optionalAddress(_ name: String) -> ListenAddress? {
    switch values[name] {
    case .address(let address)?: address
    case .text("")?: nil
    default: wrong(name)
    }
  }

  private func wrong(_ name: String) -> Never {
    preconditionFailure("no setting of that kind in the table: \(name)")
  }
}
