/* The wait of libmicrohttpd's threads for their connections: their calls of epoll_wait arrive here.
 *
 * Version 0.9.75 fetches up to 128 events at a time and asks again when it got that many, but with the time-out of the
 * first call, which may be endless: when exactly 128 connections (or a multiple) become ready and nothing else happens,
 * they lie there until something does. So the wait that follows a full batch returns at once. Ending a wait early is
 * always allowed; every caller has to ask again anyway. */
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
