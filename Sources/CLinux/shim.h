#pragma once
#include <sys/epoll.h>
#include <sys/types.h>

/* Declared here, because <fcntl.h> declares it only with _GNU_SOURCE, which Swift's Glibc module does not set. */
extern int sync_file_range(int file, __off64_t offset, __off64_t count, unsigned int flags);

/* Has the kernel begin to write these bytes of a file to the disk. Does not wait for the disk, and tells no error of it:
   the next fsync does. */
static inline void begin_writing_back(int file, long long offset, long long count) {
  const unsigned int write = 2; /* SYNC_FILE_RANGE_WRITE */
  sync_file_range(file, offset, count, write);
}
