#pragma once

/* SQLite copies each row out of a page that is mapped from the file. The processor loads the page line by line as the
 * copies come to it, and waits for nearly every line: the rows of a page lie in it from its end to its beginning, and
 * the processor's own prefetching does not recognise that order. A thread that will read many rows of a page calls
 * sqlite_prefetch, and the whole page is prefetched while SQLite still looks for the first row. */

struct sqlite3;

/* Prepares the file of a newly opened connection for prefetching. Does nothing if SQLite cannot map its pages. */
void sqlite_may_prefetch(struct sqlite3 *connection);

/* Sets whether this thread prefetches the pages that it fetches. */
void sqlite_prefetch(int whether);

/* The number of pages that this thread has prefetched. */
long sqlite_pages_prefetched(void);

/* A page that is mapped from a file and cannot be read (the disk fails, or the file was cut short) raises SIGBUS in the
 * thread that touches it, and ends the process. Between sqlite_begin_mapped_read and sqlite_end_mapped_read such a page
 * reads as zeros instead, and sqlite_met_unreadable_page tells the thread. It must not use what it read, and must close
 * its connection, because the zeros stay in the connection's mapping until then. */

/* Installs a handler for SIGBUS, once per process. Faults outside a read go to the previous handler. */
void sqlite_survive_unreadable_pages(void);

/* This thread begins and ends a read of mapped pages. A nested read is part of the outer one. */
void sqlite_begin_mapped_read(void);
void sqlite_end_mapped_read(void);

/* Whether this thread's current or last read met such a page. */
int sqlite_met_unreadable_page(void);

/* A checkpoint syncs the WAL before it copies it into the database file, also where each commit has synced it already.
 * After this call such a sync is left out: one of a file that this connection has synced and not written to since. The
 * connection must be the only one that writes, and must have read the file, so that its WAL is open. Returns SQLite's
 * code. */
int sqlite_sync_wal_once(struct sqlite3 *connection);
