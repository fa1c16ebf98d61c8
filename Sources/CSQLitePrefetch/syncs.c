#include "CSQLitePrefetch.h"

#include <sqlite3.h>
#include <stdlib.h>

/* The methods of one WAL file. A file's `pMethods` point to the first member, so they lead to the others. */
struct wal_methods {
  sqlite3_io_methods methods;
  const sqlite3_io_methods *of_library;
  /* Whether this connection has synced the file and written nothing to it since. */
  int is_synced;
};

static struct wal_methods *of(sqlite3_file *file) { return (struct wal_methods *)file->pMethods; }

static int write_wal(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 offset) {
  of(file)->is_synced = 0;
  return of(file)->of_library->xWrite(file, bytes, count, offset);
}

static int truncate_wal(sqlite3_file *file, sqlite3_int64 size) {
  of(file)->is_synced = 0;
  return of(file)->of_library->xTruncate(file, size);
}

static int sync_wal(sqlite3_file *file, int flags) {
  if (of(file)->is_synced) return SQLITE_OK;
  int code = of(file)->of_library->xSync(file, flags);
  of(file)->is_synced = code == SQLITE_OK;
  return code;
}

static int close_wal(sqlite3_file *file) {
  struct wal_methods *ours = of(file);
  file->pMethods = ours->of_library;
  int code = ours->of_library->xClose(file);
  free(ours);
  return code;
}

int sqlite_sync_wal_once(sqlite3 *connection) {
  sqlite3_file *file = NULL;
  int code = sqlite3_file_control(connection, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file);
  if (code != SQLITE_OK || !file || !file->pMethods || file->pMethods->xSync == sync_wal) return code;
  struct wal_methods *ours = malloc(sizeof *ours);
  if (!ours) return SQLITE_NOMEM;
  *ours = (struct wal_methods){.methods = *file->pMethods, .of_library = file->pMethods, .is_synced = 0};
  ours->methods.xWrite = write_wal;
  ours->methods.xTruncate = truncate_wal;
  ours->methods.xSync = sync_wal;
  ours->methods.xClose = close_wal;
  file->pMethods = &ours->methods;
  return SQLITE_OK;
}
