#define _GNU_SOURCE
#include "CMicroHTTPDPatches.h"

#include <dlfcn.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

typedef enum MHD_Result (*queue_function)(struct MHD_Connection *, unsigned, struct MHD_Response *);

static _Atomic(mhd_refusal_maker) current_maker;
static queue_function library_queue;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find_library_queue(void) {
  library_queue = (queue_function)dlsym(RTLD_NEXT, "MHD_queue_response");
}

void mhd_set_refusal_maker(mhd_refusal_maker maker) { atomic_store(&current_maker, maker); }

int mhd_queue(void *connection, unsigned status, void *response) {
  pthread_once(&once, find_library_queue);
  return library_queue(connection, status, response) == MHD_YES;
}

enum MHD_Result MHD_queue_response(struct MHD_Connection *connection, unsigned status, struct MHD_Response *response) {
  mhd_refusal_maker maker = atomic_load(&current_maker);
  struct MHD_Response *ours = maker ? maker(connection, status) : NULL;
  if (!ours) return mhd_queue(connection, status, response) ? MHD_YES : MHD_NO;
  int queued = mhd_queue(connection, status, ours);
  MHD_destroy_response(ours);
  return queued ? MHD_YES : MHD_NO;
}
