/* libmicrohttpd fetches up to 128 events at a time and asks again when it got that many, but with the time-out of the
 * first call, which may be endless. When exactly 128 connections (or a multiple) become ready and nothing else happens,
 * their events stay unserved until something does.
 *
 * Versions: seen in 0.9.75.
 *
 * The library's threads wait by calling epoll_wait through the dynamic linker, so their calls arrive here. The wait that
 * follows a full batch returns at once. There is no start-up check: every caller has to ask again after a wait that ended
 * early, so this is correct in every version.
 *
 * Before a thread sleeps it lets other threads run once (decision 0019): the next requests often come just then, and
 * falling asleep and being woken costs more than answering one. If the thread gets the processor back late, another
 * thread computed. That thread may have been a client, which shows by the events that all threads fetched meanwhile. If
 * it was no client, this thread sleeps without yielding for 50 ms, so that its own clients wait no longer than they
 * must. */
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
  late_nanoseconds = 1000000,   /* a client or a worker gives the processor up sooner */
  busy_nanoseconds = 50000,     /* a thread that serves clients fetches an event at least this often */
  usual_nanoseconds = 50000000, /* how long a thread sleeps without yielding after another one computed */
};

/* How many events all threads fetched. */
static _Atomic int64_t events_fetched;

static _Thread_local struct {
  int queue;           /* the queue of the thread's last batch */
  int count;           /* the events of that batch */
  int64_t usual_until; /* until then the thread does not yield */
} last = {-1, 0, 0};

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int fetch(int queue, struct epoll_event *events, int most, int timeout) {
  return (int)syscall(SYS_epoll_pwait, queue, events, most, timeout, NULL, 8);
}

/* Lets other threads run once, and fetches what came meanwhile. */
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
