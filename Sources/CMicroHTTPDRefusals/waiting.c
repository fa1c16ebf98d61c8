/* The wait of libmicrohttpd's threads for their connections: their calls of epoll_wait arrive here.
 *
 * Version 0.9.75 fetches up to 128 events at a time and asks again when it got that many, but with the time-out of the
 * first call, which may be endless: when exactly 128 connections (or a multiple) become ready and nothing else happens,
 * they lie there until something does. So the wait that follows a full batch returns at once. Ending a wait early is
 * always allowed; every caller has to ask again anyway.
 *
 * Before it sleeps a thread lets others run once: the next requests often come just then, and falling asleep and being
 * woken costs more than answering one. If it comes back late, whoever ran instead may have been a client that another
 * thread kept busy: then all is well. If nobody was answered meanwhile, somebody else computes; then the thread sleeps
 * as usual for a while, so that its clients wait no longer than they have to. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
  late_nanoseconds = 1000000,   /* nobody who only answers or asks runs for so long at a stretch */
  busy_nanoseconds = 50000,     /* a thread at work has an event in so long */
  usual_nanoseconds = 50000000, /* for so long nobody is let run after one who computed */
};

/* Events of all threads. */
static _Atomic int64_t events_fetched;

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
  int64_t fetched = atomic_load_explicit(&events_fetched, memory_order_relaxed);
  sched_yield();
  int64_t took = now() - began;
  if (took > late_nanoseconds) {
    fetched = atomic_load_explicit(&events_fetched, memory_order_relaxed) - fetched;
    if (fetched < took / busy_nanoseconds) last.usual_until = began + took + usual_nanoseconds;
  }
  return fetch(queue, events, most, 0);
}

int epoll_wait(int queue, struct epoll_event *events, int most, int timeout) {
  int before = last.queue == queue ? last.count : 0;
  int count = 0;
  if (before == most) timeout = 0;
  else if (before > 0 && timeout != 0) count = fetch_after_others(queue, events, most);
  if (count == 0) count = fetch(queue, events, most, timeout);
  last.queue = queue;
  last.count = count;
  if (count > 0) atomic_fetch_add_explicit(&events_fetched, count, memory_order_relaxed);
  return count;
}
