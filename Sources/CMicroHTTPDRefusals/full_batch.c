/* libmicrohttpd 0.9.75 fetches up to 128 events at a time and asks again when it got that many, but with the time-out
 * of the first call, which may be endless: when exactly 128 connections (or a multiple) become ready and nothing else
 * happens, they lie there until something does. So the wait that follows a full batch returns at once. Ending a wait
 * early is always allowed; every caller has to ask again anyway. */
#define _GNU_SOURCE
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Thread_local int full_queue = -1;

int epoll_wait(int queue, struct epoll_event *events, int most, int timeout) {
  if (full_queue == queue) timeout = 0;
  int count = (int)syscall(SYS_epoll_pwait, queue, events, most, timeout, NULL, 8);
  full_queue = count == most ? queue : -1;
  return count;
}
