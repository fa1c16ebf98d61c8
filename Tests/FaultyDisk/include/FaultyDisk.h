// A disk under SQLite that fails on request.
//
// `faulty_disk_install` puts a layer over SQLite's own file system and makes it the default. Operations on
// files without a fault are passed on. A fault names a folder, a kind of operation and a number: the
// operation of that number fails, and so do all later ones if the fault stays. Faults of different folders
// are independent, so tests may run side by side.

#ifndef FAULTY_DISK_H
#define FAULTY_DISK_H

enum faulty_operation {
  FAULTY_READ = 1,
  FAULTY_WRITE = 2,
  FAULTY_TRUNCATE = 4,
  FAULTY_SYNC = 8,
  // A lock on a file or on the WAL's index.
  FAULTY_LOCK = 16,
  // The WAL's index is made or grown.
  FAULTY_MAP = 32,
};

// Call it once per process, before a database is opened. Returns SQLite's code.
int faulty_disk_install(void);

// The `number`th operation (1: the next) whose kind is among `operations`, on a file in `folder`, returns the
// SQLite `code`; with `stays` so does every later one. A failing write leaves half of its bytes. Returns the
// fault's number, or -1 when there are too many.
int faulty_disk_arm(const char *folder, int operations, long number, int code, int stays);

// Ends the fault. Returns whether it had struck; its number may be given to another fault from now on.
int faulty_disk_heal(int fault);

#endif
