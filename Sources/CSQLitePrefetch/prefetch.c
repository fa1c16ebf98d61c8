#include "CSQLitePrefetch.h"

#include <pthread.h>
#include <sqlite3.h>

/* The first byte of a page that holds rows (SQLite's file format, 1.6). */
enum { leaf_of_index = 0x0A, leaf_of_table = 0x0D };

/* The bytes of a cache line. */
enum { line = 64 };

static _Thread_local int prefetches;
static _Thread_local long pages;

/* The library's methods for database files, and the same with our xFetch. */
static const sqlite3_io_methods *of_library;
static sqlite3_io_methods prefetching;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void sqlite_prefetch(int whether) { prefetches = whether; }

long sqlite_pages_prefetched(void) { return pages; }

static void prefetch_page(const char *page, int size) {
  if (*page != leaf_of_index && *page != leaf_of_table) return;
  pages++;
  /* The page begins with the offsets of its rows; the rows fill it from its end. */
  __builtin_prefetch(page + line);
  for (int offset = size - line; offset > line; offset -= line) __builtin_prefetch(page + offset);
}

static int fetch_page(sqlite3_file *file, sqlite3_int64 offset, int size, void **page) {
  int code = of_library->xFetch(file, offset, size, page);
  if (prefetches && code == SQLITE_OK && *page) prefetch_page(*page, size);
  return code;
}

void sqlite_may_prefetch(sqlite3 *connection) {
  sqlite3_file *file = NULL;
  if (sqlite3_file_control(connection, "main", SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK) return;
  if (!file || !file->pMethods || file->pMethods->iVersion < 3 || !file->pMethods->xFetch) return;
  pthread_mutex_lock(&lock);
  if (!of_library) {
    of_library = file->pMethods;
    prefetching = *of_library;
    prefetching.xFetch = fetch_page;
  }
  /* Files of another VFS stay as they are. */
  if (file->pMethods == of_library) file->pMethods = &prefetching;
  pthread_mutex_unlock(&lock);
}
