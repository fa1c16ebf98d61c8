/* libmicrohttpd fetches up to 128 events at a time and asks again when it got that many, but with the time-out of the
 * first call, which may be endless. When exactly 128 connections (or a multiple) become ready and nothing else happens,
 * their events stay unserved until something does.
 *
 * Versions: seen in 0.9.75.
 *
 * The library's threads wait by calling epoll_wait through the dynamic linker, so their calls arrive here. The wait that
 * follows a full batch returns at once. There is no start-up check: every caller has to ask again after a wait that ended
 * early, so this is correct in every version. */
#define _GNU_SOURCE
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The queue whose batch was the last that this thread fetched, and whether that was full. */
static _Thread_local int last_queue = -1;
static _Thread_local int last_was_full;

int epoll_wait(int queue, struct epoll_event *events, int most, int timeout) {
  if (last_was_full && last_queue == queue) timeout = 0;
  int count = (int)syscall(SYS_epoll_pwait, queue, events, most, timeout, NULL, 8);
  last_queue = queue;
  last_was_full = count == most;
  return count;
}
