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
