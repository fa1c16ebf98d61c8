#pragma once
#include <curl/curl.h>

/* curl_easy_setopt, curl_easy_getinfo and curl_multi_setopt are variadic, which Swift cannot call. */
typedef size_t (*perch_curl_sink)(char *, size_t, size_t, void *);
static inline CURLcode perch_curl_string(CURL *h, CURLoption o, const char *v) { return curl_easy_setopt(h, o, v); }
static inline CURLcode perch_curl_long(CURL *h, CURLoption o, long v) { return curl_easy_setopt(h, o, v); }
static inline CURLcode perch_curl_size(CURL *h, CURLoption o, curl_off_t v) { return curl_easy_setopt(h, o, v); }
static inline CURLcode perch_curl_pointer(CURL *h, CURLoption o, void *v) { return curl_easy_setopt(h, o, v); }
static inline CURLcode perch_curl_on_body(CURL *h, perch_curl_sink f) { return curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, f); }
static inline CURLcode perch_curl_on_header(CURL *h, perch_curl_sink f) { return curl_easy_setopt(h, CURLOPT_HEADERFUNCTION, f); }
static inline CURLcode perch_curl_on_progress(CURL *h, curl_xferinfo_callback f) { return curl_easy_setopt(h, CURLOPT_XFERINFOFUNCTION, f); }
static inline CURLcode perch_curl_on_ready(CURL *h, curl_prereq_callback f) { return curl_easy_setopt(h, CURLOPT_PREREQFUNCTION, f); }
static inline CURLcode perch_curl_status(CURL *h, long *out) { return curl_easy_getinfo(h, CURLINFO_RESPONSE_CODE, out); }
static inline CURLcode perch_curl_owner(CURL *h, void **out) { return curl_easy_getinfo(h, CURLINFO_PRIVATE, out); }
static inline CURLMcode perch_curl_multi_long(CURLM *m, CURLMoption o, long v) { return curl_multi_setopt(m, o, v); }
static inline CURLcode perch_curl_message_result(CURLMsg *m) { return m->data.result; }
static inline CURLcode perch_curl_number(CURL *h, CURLINFO i, long *out) { return curl_easy_getinfo(h, i, out); }
