import Glibc

// KilledWriter DIRECTORY SEED: does the schedule's writes that the directory's cache lacks, and prints the
// number of each on a line of stdout once it is answered. It goes on until it is killed.
//
// KilledWriter DIRECTORY evict: stores and evicts without end, and prints a number after each round.
//
// KilledWriter DIRECTORY open:STEP: opens the cache and kills itself before that step of its migration.

guard CommandLine.arguments.count == 3 else { exit(2) }
if CommandLine.arguments[2] == "evict" { exit(Evicting(directory: CommandLine.arguments[1]).run()) }
if CommandLine.arguments[2].hasPrefix("open:") {
  guard let step = Int(CommandLine.arguments[2].dropFirst(5)) else { exit(2) }
  exit(Opening(directory: CommandLine.arguments[1], step: step).run())
}
guard let seed = UInt64(CommandLine.arguments[2]) else { exit(2) }
exit(Writer(directory: CommandLine.arguments[1], schedule: Schedule(seed: seed)).run())
