/* The wait of libmicrohttpd's threads for their connections: their calls of epoll_wait arrive here.
 *
 * Version 0.9.75 fetches up to 128 events at a time and asks again when it got that many, but with the time-out of the
 * first call, which may be endless: when exactly 128 connections (or a multiple) become ready and nothing else happens,
 * they lie there until something does. So the wait that follows a full batch returns at once. Ending a wait early is
 * always allowed; every caller has to ask again anyway.
 *
 * Between two batches of several events each a thread lets others run before it sleeps: the next requests often come
 * just then, and falling asleep and being woken costs more than answering one. Where somebody else computes, what is let
 * go comes back late; then the thread sleeps as usual for a while. */
#define _GNU_SOURCE
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
  several = 2,                  /* events of one batch: more than one client at work */
  late_nanoseconds = 1000000,   /* nobody who only answers or asks runs for so long */
  usual_nanoseconds = 50000000, /* for so long nothing is let go after that */
};

static _Thread_local struct {
  int queue;           /* whose batch was the last */
  int count;           /* its events */
  int64_t usual_until; /* no others are let run before */
} last = {-1, 0, 0};

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int fetch(int queue, struct epoll_event *events, int most, int timeout) {
  return (int)syscall(SYS_epoll_pwait, queue, events, most, timeout, NULL, 8);
}

/* What has come after others were let run. */
static int fetch_after_others(int queue, struct epoll_event *events, int most) {
  int64_t began = now();
  if (began < last.usual_until) return 0;
  sched_yield();
  int64_t ended = now();
  if (ended - began > late_nanoseconds) last.usual_until = ended + usual_nanoseconds;
  return fetch(queue, events, most, 0);
}

int epoll_wait(int queue, struct epoll_event *events, int most, int timeout) {
  int before = last.queue == queue ? last.count : 0;
  int count = 0;
  if (before == most) timeout = 0;
  else if (before >= several && timeout != 0) count = fetch_after_others(queue, events, most);
  if (count == 0) count = fetch(queue, events, most, timeout);
  last.queue = queue;
  last.count = count;
  return count;
}
