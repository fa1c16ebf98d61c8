#include "CSQLiteAhead.h"

#include <pthread.h>
#include <sqlite3.h>

/* The first byte of a page that holds rows (SQLite's file format, 1.6). */
enum { leaf_of_index = 0x0A, leaf_of_table = 0x0D };

/* What the processor fetches at once. */
enum { line = 64 };

static _Thread_local int reads_ahead;
static _Thread_local long pages;

/* How the library reads database files, and how they are read here: the same, but for the pages that are mapped. */
static const sqlite3_io_methods *of_library;
static sqlite3_io_methods ahead;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void sqlite_read_ahead(int whether) { reads_ahead = whether; }

long sqlite_pages_read_ahead(void) { return pages; }

static void bring_near(const char *page, int size) {
  if (*page != leaf_of_index && *page != leaf_of_table) return;
  pages++;
  /* Where the rows are is told at the beginning; the rows themselves begin at the end. */
  __builtin_prefetch(page + line);
  for (int place = size - line; place > line; place -= line) __builtin_prefetch(page + place);
}

static int fetch(sqlite3_file *file, sqlite3_int64 offset, int size, void **page) {
  int code = of_library->xFetch(file, offset, size, page);
  if (reads_ahead && code == SQLITE_OK && *page) bring_near(*page, size);
  return code;
}

void sqlite_may_read_ahead(sqlite3 *connection) {
  sqlite3_file *file = NULL;
  if (sqlite3_file_control(connection, "main", SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK) return;
  if (!file || !file->pMethods || file->pMethods->iVersion < 3 || !file->pMethods->xFetch) return;
  pthread_mutex_lock(&lock);
  if (!of_library) {
    of_library = file->pMethods;
    ahead = *of_library;
    ahead.xFetch = fetch;
  }
  /* Another file system's files stay as they are. */
  if (file->pMethods == of_library) file->pMethods = &ahead;
  pthread_mutex_unlock(&lock);
}
