/* Preloaded into a service. Logs, in order, each write to the write-ahead log, each sync of it, each answer 202, and of
 * files in the folder `spool` each write ("write-file"), each order to begin writing it to the disk ("begin-file"), each
 * sync ("sync-file") and each sync of the folder ("sync-folder"). Writes to the database file are not logged: only the checkpointer makes them, at any moment.
 *
 * SYNC_SHIM_LOG is the file that gets a line for each: "write", "sync" or "202", and "failed" for a call that was made
 * to fail. SYNC_SHIM_SWALLOW=1 skips syncs, like a disk that only claims to sync. SYNC_SHIM_FAIL names a
 * file: while it is there and holds the name of a call, an error number and an ordinal of four digits, such as
 * "sync-file 5 0003", the third such call fails once with it, and the file is removed; without an ordinal the first.
 * SYNC_SHIM_MICROSECONDS makes each sync take at least so long. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static int log_file = -1;
static int swallows;
static long least;
static const char *fail;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("SYNC_SHIM_LOG");
  if (path) log_file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  fail = getenv("SYNC_SHIM_FAIL");
  swallows = getenv("SYNC_SHIM_SWALLOW") != NULL;
  if (getenv("SYNC_SHIM_MICROSECONDS")) least = atol(getenv("SYNC_SHIM_MICROSECONDS"));
}

static void note(const char *line) {
  if (log_file >= 0) syscall(SYS_write, log_file, line, strlen(line));
}

/* The name of a call on a file, if it is a logged one; `word` is "write" or "sync". */
static const char *call(int file, const char *word) {
  char link[64], path[512];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return NULL;
  path[length] = 0;
  int is_write = word[0] == 'w';
  if (strstr(path, "perch.db-wal")) return is_write ? "write" : "sync";
  if (strstr(path, "/spool/")) return is_write ? "write-file" : "sync-file";
  if (length > 6 && strcmp(path + length - 6, "/spool") == 0) return is_write ? NULL : "sync-folder";
  return NULL;
}

/* The error with which a call must fail, or 0. The ordinal in the file counts down, one call at a time. */
static int failure(const char *name) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  if (!fail || !name) return 0;
  pthread_mutex_lock(&lock);
  int result = 0, code = 0, ordinal = 1;
  int file = open(fail, O_RDWR | O_CLOEXEC);
  if (file >= 0) {
    char text[64] = "", wanted[32] = "";
    ssize_t length = read(file, text, sizeof text - 1);
    if (length > 0 && sscanf(text, "%31s %d %d", wanted, &code, &ordinal) >= 2 && strcmp(wanted, name) == 0) {
      if (ordinal > 1) {
        length = snprintf(text, sizeof text, "%s %d %04d", wanted, code, ordinal - 1);
        syscall(SYS_pwrite64, file, text, (size_t)length, 0L);
      } else {
        unlink(fail);
        note("failed\n");
        result = code;
      }
    }
    close(file);
  }
  pthread_mutex_unlock(&lock);
  return result;
}

static void note_call(const char *name) {
  if (!name) return;
  char line[32];
  snprintf(line, sizeof line, "%s\n", name);
  note(line);
}

static void note_answer(const void *bytes, size_t count) {
  if (count >= 12 && memcmp(bytes, "HTTP/1.1 202", 12) == 0) note("202\n");
}

#define REAL(name) \
  static __typeof__(&name) real; \
  if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t place) {
  REAL(pwrite64);
  const char *name = log_file >= 0 ? call(file, "write") : NULL;
  int code = failure(name);
  if (code) {
    errno = code;
    return -1;
  }
  ssize_t done = real(file, bytes, count, place);
  note_call(name);
  return done;
}

ssize_t pwrite(int file, const void *bytes, size_t count, off_t place) { return pwrite64(file, bytes, count, place); }

static double now(void) {
  struct timespec moment;
  clock_gettime(CLOCK_MONOTONIC, &moment);
  return moment.tv_sec * 1e6 + moment.tv_nsec / 1e3;
}

static int synced(int file, int (*real)(int)) {
  const char *name = log_file >= 0 ? call(file, "sync") : NULL;
  int code = failure(name);
  if (code) {
    errno = code;
    return -1;
  }
  double began = now();
  int done = real(file);
  while (least && now() - began < least) usleep(100);
  if (!swallows) note_call(name);
  return done;
}

int fdatasync(int file) {
  REAL(fdatasync);
  return synced(file, real);
}

int fsync(int file) {
  REAL(fsync);
  return synced(file, real);
}

int sync_file_range(int file, off64_t offset, off64_t count, unsigned int flags) {
  REAL(sync_file_range);
  const char *name = log_file >= 0 ? call(file, "sync") : NULL;
  if (name && strcmp(name, "sync-file") == 0) note_call("begin-file");
  return real(file, offset, count, flags);
}

ssize_t send(int socket, const void *bytes, size_t count, int flags) {
  REAL(send);
  note_answer(bytes, count);
  return real(socket, bytes, count, flags);
}

ssize_t sendmsg(int socket, const struct msghdr *message, int flags) {
  REAL(sendmsg);
  if (message->msg_iovlen) note_answer(message->msg_iov[0].iov_base, message->msg_iov[0].iov_len);
  return real(socket, message, flags);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
  REAL(writev);
  if (count) note_answer(parts[0].iov_base, parts[0].iov_len);
  return real(file, parts, count);
}

ssize_t write(int file, const void *bytes, size_t count) {
  REAL(write);
  note_answer(bytes, count);
  const char *name = log_file >= 0 && file != log_file ? call(file, "write") : NULL;
  int code = failure(name);
  if (code) {
    errno = code;
    return -1;
  }
  note_call(name);
  return real(file, bytes, count);
}
