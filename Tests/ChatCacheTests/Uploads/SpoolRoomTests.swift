import TestSupport
import Testing

@testable import ChatCache

/// The spool's counts, against a plain model over random schedules.
@Suite struct SpoolRoomTests {
  /// The model: every file with its promised size, its size, and whether a row names it.
  private struct Model {
    enum Stage { case coming, whole, settled }
    struct File {
      let name: SpoolName
      var stage = Stage.coming
      var promised: Int
      var size = 0
    }
    let most: Int
    var files: [File] = []

    var bytes: Int { files.reduce(0) { $0 + ($1.stage == .coming ? $1.promised : $1.size) } }
    func some(_ stage: Stage, _ random: inout SeededRandom) -> Int? {
      let found = files.indices.filter { files[$0].stage == stage }
      return found.isEmpty ? nil : random.one(of: found)
    }
  }

  @Test("B45: over random files the room is what they hold and were promised, never more than there is")
  func schedules() {
    for seed in 1...1000 as ClosedRange<UInt64> {
      var random = SeededRandom(seed: seed)
      var (room, model) = (SpoolRoom(most: 1000), Model(most: 1000))
      for _ in 0..<60 { step(&room, &model, &random) }
      for file in model.files where file.stage == .coming { room.giveBack(file.promised) }
      for file in model.files { room.removed(file.name) }
      #expect(room.bytes == 0 && room.count == 0 && room.open.isEmpty, "seed \(seed)")
    }
  }

  private func step(_ room: inout SpoolRoom, _ model: inout Model, _ random: inout SeededRandom) {
    let count = Int.random(in: 0...300, using: &random)
    switch Int.random(in: 0..<6, using: &random) {
    case 0:
      let arriving = model.files.reduce(0) { $0 + ($1.stage == .coming ? $1.promised : 0) }
      let left = Int.random(in: 0...1500, using: &random)
      let isTaken = room.promise(count, free: SpoolRoom.leftFree + left)
      #expect(isTaken == (model.bytes + count <= model.most && arriving + count <= left))
      guard isTaken else { break }
      let name = SpoolName.made()
      room.opened(name)
      model.files.append(Model.File(name: name, promised: count))
    case 1:
      guard let index = model.some(.coming, &random), room.promise(count, free: .max) else { break }
      model.files[index].promised += count
    case 2:
      guard let index = model.some(.coming, &random) else { break }
      let promised = model.files[index].promised
      let size = Int.random(in: 0...promised, using: &random)
      room.filled(model.files[index].name, size: size, promised: promised)
      model.files[index].stage = .whole
      model.files[index].size = size
    case 3:
      guard let index = model.some(.whole, &random) else { break }
      room.settled(model.files[index].name)
      model.files[index].stage = .settled
    case 4:
      guard let index = model.some(.coming, &random) else { break }
      room.giveBack(model.files[index].promised)
      room.removed(model.files.remove(at: index).name)
    default:
      guard let index = model.some(.settled, &random) else { break }
      room.removed(model.files.remove(at: index).name)
    }
    #expect(room.bytes == model.bytes && room.bytes <= model.most)
    #expect(room.count == model.files.count { $0.stage != .coming })
    #expect(room.open == Set(model.files.filter { $0.stage != .settled }.map(\.name)))
  }

  @Test("B45: a file is nobody's where neither is it open nor does a row name it")
  func orphans() {
    let names = (0..<4).map { _ in SpoolName.made() }
    let orphans = SpoolRoom.orphans(listed: names, open: [names[0]], rows: [names[1]])
    #expect(orphans == [names[2], names[3]])
  }

  @Test("B45: a file of an earlier run counts once, also where it was found before")
  func found() {
    var room = SpoolRoom(most: 10)
    let name = SpoolName.made()
    for _ in 0..<2 { room.found(name, size: 8) }
    let (isMuch, isLittle) = (room.promise(3, free: .max), room.promise(2, free: .max))
    #expect(room.bytes == 10 && !isMuch && isLittle)
    room.removed(name)
    #expect(room.bytes == 2)
  }

  @Test("names of the spool are 32 hexadecimal digits, whatever else is in the folder")
  func names() {
    #expect(SpoolName(SpoolName.made().text) != nil)
    for text in ["", "..", "../x", String(repeating: "a", count: 31), String(repeating: "A", count: 32)] {
      #expect(SpoolName(text) == nil, "\(text)")
    }
  }
}
