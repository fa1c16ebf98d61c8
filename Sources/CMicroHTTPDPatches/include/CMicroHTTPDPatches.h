#pragma once

/* Works round faults of libmicrohttpd by defining functions that the library calls through the dynamic linker. Each fault
 * has one file, which is named after it and says which versions have it:
 *
 *   html_error_pages.c   the library answers what it refuses with pages of HTML
 */

/* Makes the response (a struct MHD_Response *, given away) for a refusal on a struct MHD_Connection *. */
typedef void *(*mhd_refusal_maker)(void *connection, unsigned status);

/* Sets the maker for the whole process; without one the library's pages stay as they are. */
void mhd_set_refusal_maker(mhd_refusal_maker maker);

/* The number of refusals of the library's that arrived here. It stays 0 where the library is linked in such a way that
 * its calls go past this target. */
long mhd_refusals_seen(void);

/* MHD_queue_response, past the interposition: 1 when queued. */
int mhd_queue(void *connection, unsigned status, void *response);
