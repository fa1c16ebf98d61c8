import Glibc
import Platform

let code = CommandLineCall(Array(CommandLine.arguments.dropFirst())).run()
Log.queue.flush()
exit(code)
