/* Preloaded into a service: writes down, in order, each write to its write-ahead log, each sync of it, each answer 202.
 * The database file itself is written by the checkpointer, at any moment; a commit is in the log.
 *
 * SYNC_SHIM_LOG is the file that gets a line for each: "write", "sync" or "202". SYNC_SHIM_SWALLOW=1 leaves syncs out, as
 * a disk would that only says that it synced. SYNC_SHIM_MICROSECONDS makes each sync take at least so long. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
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

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("SYNC_SHIM_LOG");
  if (path) log_file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  swallows = getenv("SYNC_SHIM_SWALLOW") != NULL;
  if (getenv("SYNC_SHIM_MICROSECONDS")) least = atol(getenv("SYNC_SHIM_MICROSECONDS"));
}

static void note(const char *line) {
  if (log_file >= 0) syscall(SYS_write, log_file, line, strlen(line));
}

static int is_log(int file) {
  char link[64], path[512];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return 0;
  path[length] = 0;
  return strstr(path, "perch.db-wal") != NULL;
}

static void note_answer(const void *bytes, size_t count) {
  if (count >= 12 && memcmp(bytes, "HTTP/1.1 202", 12) == 0) note("202\n");
}

#define REAL(name) \
  static __typeof__(&name) real; \
  if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t place) {
  REAL(pwrite64);
  ssize_t done = real(file, bytes, count, place);
  if (log_file >= 0 && is_log(file)) note("write\n");
  return done;
}

ssize_t pwrite(int file, const void *bytes, size_t count, off_t place) { return pwrite64(file, bytes, count, place); }

static double now(void) {
  struct timespec moment;
  clock_gettime(CLOCK_MONOTONIC, &moment);
  return moment.tv_sec * 1e6 + moment.tv_nsec / 1e3;
}

int fdatasync(int file) {
  REAL(fdatasync);
  double began = now();
  int done = real(file);
  while (least && now() - began < least) usleep(100);
  if (log_file >= 0 && !swallows && is_log(file)) note("sync\n");
  return done;
}

int fsync(int file) {
  REAL(fsync);
  double began = now();
  int done = real(file);
  while (least && now() - began < least) usleep(100);
  if (log_file >= 0 && !swallows && is_log(file)) note("sync\n");
  return done;
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
  return real(file, bytes, count);
}
