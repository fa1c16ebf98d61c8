#pragma once

/* SQLite copies each row out of a page that is mapped from the file. The processor loads the page line by line as the
 * copies come to it, and waits for nearly every line: the rows of a page lie in it from its end to its beginning, and
 * the processor's own prefetching does not recognise that order. A thread that is going to read many rows of a page
 * says so, and the whole page is prefetched while SQLite still looks for the first row. */

struct sqlite3;

/* Prepares the database file of a connection that was just opened. Nothing changes where SQLite cannot map its pages. */
void sqlite_may_prefetch(struct sqlite3 *connection);

/* Says whether this thread prefetches the pages that it comes to. */
void sqlite_prefetch(int whether);

/* The number of pages that this thread has prefetched. */
long sqlite_pages_prefetched(void);

/* A page that is mapped from a file and cannot be read (the disk fails, or the file was cut short) is a SIGBUS for the
 * thread that touches it, and the end of the process. A thread that reads a database says so; then such a page reads as
 * zeros, and the thread is told afterwards. What it made of the zeros must not be used, and its connection must be
 * closed: the zeros stay in the connection's mapping until then. */

/* Takes SIGBUS over, once a process. Faults outside a read go to what was there before. */
void sqlite_survive_unreadable_pages(void);

/* This thread begins to read mapped pages, and ends. A read inside a read is part of it. */
void sqlite_begin_mapped_read(void);
void sqlite_end_mapped_read(void);

/* Whether the read of this thread, running or last, met such a page. */
int sqlite_met_unreadable_page(void);
