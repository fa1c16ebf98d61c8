/* libmicrohttpd answers requests that it refuses by itself (400, 413, 414, 431, 505) with HTML pages, and has no option
 * for other bodies. After a Content-Length that it cannot read it sends the head of its answer twice.
 *
 * Versions: seen in 0.9.75. Later ones answer with HTML too.
 *
 * The library queues its pages by calling MHD_queue_response through the dynamic linker, as any program would. This file
 * defines that symbol: a call that arrives here is the library's own, and its response is replaced by one that the maker
 * builds. Perch's own responses are queued with mhd_queue, which calls the library directly.
 *
 * LibraryCheck tests at the start whether the calls arrive here. If they do not, the pages stay HTML. */
#define _GNU_SOURCE
#include "CMicroHTTPDPatches.h"

#include <dlfcn.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

typedef enum MHD_Result (*queue_function)(struct MHD_Connection *, unsigned, struct MHD_Response *);

static _Atomic(mhd_refusal_maker) current_maker;
static atomic_long refusals_seen;
static queue_function library_queue;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find_library_queue(void) { library_queue = (queue_function)dlsym(RTLD_NEXT, "MHD_queue_response"); }

void mhd_set_refusal_maker(mhd_refusal_maker maker) { atomic_store(&current_maker, maker); }

long mhd_refusals_seen(void) { return atomic_load(&refusals_seen); }

int mhd_queue(void *connection, unsigned status, void *response) {
  pthread_once(&once, find_library_queue);
  return library_queue(connection, status, response) == MHD_YES;
}

enum MHD_Result MHD_queue_response(struct MHD_Connection *connection, unsigned status, struct MHD_Response *response) {
  atomic_fetch_add(&refusals_seen, 1);
  mhd_refusal_maker maker = atomic_load(&current_maker);
  struct MHD_Response *ours = maker ? maker(connection, status) : NULL;
  if (!ours) return mhd_queue(connection, status, response) ? MHD_YES : MHD_NO;
  int queued = mhd_queue(connection, status, ours);
  MHD_destroy_response(ours);
  return queued ? MHD_YES : MHD_NO;
}
