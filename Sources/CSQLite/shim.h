#pragma once
#include <sqlite3.h>

/* sqlite3_config and sqlite3_db_config are variadic, which Swift cannot call. */
static inline int perch_sqlite_config_multithread(void) { return sqlite3_config(SQLITE_CONFIG_MULTITHREAD); }
static inline int perch_sqlite_config_memstatus(int on) { return sqlite3_config(SQLITE_CONFIG_MEMSTATUS, on); }
static inline int perch_sqlite_keep_plans(sqlite3 *db) {
  return sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_QPSG, 1, (int *)0);
}

/* Casts that Swift's importer drops. */
static inline sqlite3_destructor_type perch_sqlite_static(void) { return SQLITE_STATIC; }
static inline sqlite3_destructor_type perch_sqlite_transient(void) { return SQLITE_TRANSIENT; }
