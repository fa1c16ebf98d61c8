extension Task where Success == Never, Failure == Never {
  /// Waits for that time. False: the task was canceled meanwhile.
  static func hasSlept(milliseconds: Int64) async -> Bool {
    // The sleep has no other error than that the task was canceled.
    do { try await sleep(for: .milliseconds(milliseconds)) } catch { return false }
    return true
  }
}
