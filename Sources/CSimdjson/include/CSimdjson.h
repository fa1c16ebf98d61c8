#pragma once
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* A parsed document owns its tape and strings; a value points into it and is valid until the document's next parse.
 * Everything is checked by simdjson's DOM parser: nothing is skipped unread. */
typedef struct perch_json perch_json;
typedef struct { const void *document; size_t index; } perch_json_value;
typedef struct { perch_json_value at, end; } perch_json_walk; /* over an array's values or an object's fields */

enum { PERCH_JSON_OBJECT, PERCH_JSON_ARRAY, PERCH_JSON_STRING, PERCH_JSON_INTEGER, PERCH_JSON_DOUBLE, PERCH_JSON_BOOL, PERCH_JSON_NULL };

perch_json *perch_json_new(void);
void perch_json_free(perch_json *);
/* 0, or simdjson's error code. The bytes are copied; simdjson's default depth bounds nesting. */
int perch_json_parse(perch_json *, const char *bytes, size_t length, perch_json_value *root);
const char *perch_json_error(int code);
/* Whether a number is malformed or does not fit into 64 bits. */
int perch_json_is_number_error(int code);

int perch_json_kind(perch_json_value);
int perch_json_int64(perch_json_value, int64_t *);   /* 0, or an error: another kind, or out of range */
int perch_json_double(perch_json_value, double *);
int perch_json_bool(perch_json_value, int *);
int perch_json_string(perch_json_value, const char **utf8, size_t *length);
int perch_json_field(perch_json_value object, const char *name, size_t length, perch_json_value *); /* the first of that name */

int perch_json_walk_array(perch_json_value, perch_json_walk *);
int perch_json_walk_object(perch_json_value, perch_json_walk *);
int perch_json_next(perch_json_walk *, perch_json_value *);                      /* 1 if there was a next value */
int perch_json_next_field(perch_json_walk *, const char **name, size_t *length, perch_json_value *);
#ifdef __cplusplus
}
#endif
