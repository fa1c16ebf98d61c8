#include "CSimdjson.h"

#include <cstring>
#include <new>
#include <simdjson.h>
#include <type_traits>

using namespace simdjson;

struct perch_json {
  dom::parser parser;
};

namespace {

/* A value crosses the border to C as the two words it is made of. */
template <class T> T open(const perch_json_value &value) {
  static_assert(sizeof(T) == sizeof(perch_json_value) && std::is_trivially_copyable<T>::value, "two plain words");
  T result;
  std::memcpy(static_cast<void *>(&result), &value, sizeof result);
  return result;
}

template <class T> perch_json_value close(const T &value) {
  static_assert(sizeof(T) == sizeof(perch_json_value) && std::is_trivially_copyable<T>::value, "two plain words");
  perch_json_value result;
  std::memcpy(&result, static_cast<const void *>(&value), sizeof result);
  return result;
}

} // namespace

extern "C" {

perch_json *perch_json_new(void) { return new (std::nothrow) perch_json; }
void perch_json_free(perch_json *json) { delete json; }
const char *perch_json_error(int code) { return error_message(static_cast<error_code>(code)); }
int perch_json_is_number_error(int code) { return code == NUMBER_ERROR; }

int perch_json_parse(perch_json *json, const char *bytes, size_t length, perch_json_value *root) {
  dom::element element;
  if (auto error = json->parser.parse(bytes, length, true).get(element)) return error;
  *root = close(element);
  return SUCCESS;
}

int perch_json_kind(perch_json_value value) {
  switch (open<dom::element>(value).type()) {
  case dom::element_type::OBJECT: return PERCH_JSON_OBJECT;
  case dom::element_type::ARRAY: return PERCH_JSON_ARRAY;
  case dom::element_type::STRING: return PERCH_JSON_STRING;
  case dom::element_type::INT64:
  case dom::element_type::UINT64: return PERCH_JSON_INTEGER;
  case dom::element_type::DOUBLE: return PERCH_JSON_DOUBLE;
  case dom::element_type::BOOL: return PERCH_JSON_BOOL;
  case dom::element_type::NULL_VALUE: return PERCH_JSON_NULL;
  }
  return PERCH_JSON_NULL;
}

int perch_json_int64(perch_json_value value, int64_t *out) { return open<dom::element>(value).get_int64().get(*out); }
int perch_json_double(perch_json_value value, double *out) { return open<dom::element>(value).get_double().get(*out); }

int perch_json_bool(perch_json_value value, int *out) {
  bool flag = false;
  auto error = open<dom::element>(value).get_bool().get(flag);
  *out = flag;
  return error;
}

int perch_json_string(perch_json_value value, const char **utf8, size_t *length) {
  std::string_view text;
  auto error = open<dom::element>(value).get_string().get(text);
  *utf8 = text.data();
  *length = text.size();
  return error;
}

int perch_json_field(perch_json_value object, const char *name, size_t length, perch_json_value *out) {
  dom::object fields;
  if (auto error = open<dom::element>(object).get_object().get(fields)) return error;
  dom::element found;
  if (auto error = fields.at_key(std::string_view(name, length)).get(found)) return error;
  *out = close(found);
  return SUCCESS;
}

int perch_json_walk_array(perch_json_value value, perch_json_walk *walk) {
  dom::array items;
  if (auto error = open<dom::element>(value).get_array().get(items)) return error;
  walk->at = close(items.begin());
  walk->end = close(items.end());
  return SUCCESS;
}

int perch_json_walk_object(perch_json_value value, perch_json_walk *walk) {
  dom::object fields;
  if (auto error = open<dom::element>(value).get_object().get(fields)) return error;
  walk->at = close(fields.begin());
  walk->end = close(fields.end());
  return SUCCESS;
}

int perch_json_next(perch_json_walk *walk, perch_json_value *value) {
  auto at = open<dom::array::iterator>(walk->at);
  if (!(at != open<dom::array::iterator>(walk->end))) return 0;
  *value = close(*at);
  walk->at = close(++at);
  return 1;
}

int perch_json_next_field(perch_json_walk *walk, const char **name, size_t *length, perch_json_value *value) {
  auto at = open<dom::object::iterator>(walk->at);
  if (!(at != open<dom::object::iterator>(walk->end))) return 0;
  auto key = at.key();
  *name = key.data();
  *length = key.size();
  *value = close(at.value());
  walk->at = close(++at);
  return 1;
}
}
