// A disk under SQLite that fails when it is told to.
//
// `faulty_disk_install` puts a layer over SQLite's own file system and makes it the default. Files of which no
// fault speaks go through untouched. A fault names a folder, a kind of operation and a number: the operation of
// that number fails, and so do all later ones where the fault stays. Faults of different folders know nothing
// of each other, so tests may run side by side.

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

// Once a process, before anything is opened. Answers SQLite's code.
int faulty_disk_install(void);

// The `number`th operation (1: the next) whose kind is among `operations`, on a file in `folder`, answers the
// SQLite `code`; with `stays` so does every one after it. A failing write leaves half of its bytes.
// Answers the fault's name, or -1 when there are too many.
int faulty_disk_arm(const char *folder, int operations, long number, int code, int stays);

// The disk is well again. Answers whether the fault had struck; its name may be given to another from now on.
int faulty_disk_heal(int fault);

#endif
