#pragma once

/* Rows that lie together are read one after the other, each a copy out of a page that is mapped from the file. The
 * processor fetches a page's memory line by line as the copies come to it, and waits for nearly every one: the rows of
 * a page lie in it from its end to its beginning, which the processor does not expect. So whoever is going to read a
 * page's rows says so, and the page is fetched as a whole, while SQLite still looks for the first row in it. */

struct sqlite3;

/* Lets the database file of a connection that was just opened do so. Where its file system has no mapped pages,
 * nothing changes. */
void sqlite_may_read_ahead(struct sqlite3 *connection);

/* Whether this thread is going to read the rows of the pages that it comes to. */
void sqlite_read_ahead(int whether);

/* How many pages this thread has fetched so. */
long sqlite_pages_read_ahead(void);

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
