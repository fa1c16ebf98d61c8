#pragma once

/* Faults of libmicrohttpd 0.9.75 mended from outside. waiting.c has the other one.
 *
 * It answers what it refuses by itself (400, 413, 414, 431, 505) with pages of HTML and has no option
 * for other bodies. It queues them by calling MHD_queue_response through the dynamic linker, as anybody would. This
 * target defines that symbol: a call that arrives here is the library's own, and its response is replaced by one
 * that the maker builds. Perch's own responses are queued with mhd_queue, which calls the library directly. */

/* Makes the response (a struct MHD_Response *, given away) for a refusal on a struct MHD_Connection *. */
typedef void *(*mhd_refusal_maker)(void *connection, unsigned status);

/* Sets the maker for the whole process; without one the library's pages stay as they are. */
void mhd_set_refusal_maker(mhd_refusal_maker maker);

/* MHD_queue_response, past the interposition: 1 when queued. */
int mhd_queue(void *connection, unsigned status, void *response);
