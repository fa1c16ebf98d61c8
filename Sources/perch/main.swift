import Glibc

exit(CommandLineCall(Array(CommandLine.arguments.dropFirst())).run())
