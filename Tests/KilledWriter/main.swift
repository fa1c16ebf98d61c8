import Glibc

// KilledWriter DIRECTORY SEED: does the schedule's writes from where the directory's cache stands, and says
// the number of each on a line of stdout once it is answered. It goes on until it is killed.

guard CommandLine.arguments.count == 3, let seed = UInt64(CommandLine.arguments[2]) else { exit(2) }
exit(Writer(directory: CommandLine.arguments[1], schedule: Schedule(seed: seed)).run())
