#pragma once

/* Works round faults of libmicrohttpd by defining functions that the library calls through the dynamic linker. Each fault
 * has one file, which is named after it and says which versions have it:
 *
 *   html_error_pages.c   the library answers requests that it refuses with HTML pages
 */

/* Makes the response (a struct MHD_Response *, owned by the caller) for a refusal on a struct MHD_Connection *. */
typedef void *(*mhd_refusal_maker)(void *connection, unsigned status);

/* Sets the maker for the whole process; without one the library's pages stay as they are. */
void mhd_set_refusal_maker(mhd_refusal_maker maker);

/* The number of the library's refusals that arrived here. It stays 0 if the library is linked so that its calls bypass
 * this target. */
long mhd_refusals_seen(void);

/* Calls the library's own MHD_queue_response. Returns 1 if the response is queued. */
int mhd_queue(void *connection, unsigned status, void *response);
