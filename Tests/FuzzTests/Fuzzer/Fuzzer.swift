import Glibc

/// The harness that PERCH_FUZZ_TARGET names.
private let target: FuzzTarget = {
  let name = getenv("PERCH_FUZZ_TARGET").map { String(cString: $0) } ?? ""
  if let target = FuzzTarget.all.first(where: { $0.name == name }) { return target }
  print("PERCH_FUZZ_TARGET is one of \(FuzzTarget.all.map(\.name).joined(separator: ", "))")
  exit(2)
}()

/// libFuzzer calls this with each input. A finding ends the process, as a crash does.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzOneInput(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> Int32 {
  do {
    try target.run(UnsafeRawBufferPointer(start: bytes, count: count))
  } catch {
    let text = "finding: \(error)\n"
    write(2, text, text.utf8.count)
    abort()
  }
  return 0
}
