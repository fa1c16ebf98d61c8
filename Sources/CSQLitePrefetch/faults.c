#include "CSQLitePrefetch.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* The signal handler uses these on the thread that faulted. */
static _Thread_local volatile sig_atomic_t is_reading;
static _Thread_local volatile sig_atomic_t has_faulted;

static struct sigaction before;
static uintptr_t page_bytes;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void on_bus_error(int signal, siginfo_t *info, void *context) {
  if (is_reading) {
    void *page = (void *)((uintptr_t)info->si_addr & ~(page_bytes - 1));
    /* Maps zeros over the unreadable page, so that the read ends. mmap is a plain system call here. */
    if (mmap(page, page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page) {
      has_faulted = 1;
      return;
    }
  }
  /* The fault is not ours: the previous handler decides. If there was none, the instruction faults again and ends the
   * process. */
  if (before.sa_flags & SA_SIGINFO) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  } else {
    sigaction(SIGBUS, &before, NULL);
  }
}

static void install(void) {
  page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
  struct sigaction action = {0};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, &before);
}

void sqlite_survive_unreadable_pages(void) { pthread_once(&once, install); }

void sqlite_begin_mapped_read(void) {
  if (is_reading++ == 0) has_faulted = 0;
}

void sqlite_end_mapped_read(void) { is_reading--; }

int sqlite_met_unreadable_page(void) { return has_faulted; }
