"""Every parameter and every field that the contract names has a description."""

import unittest

from service import CONTRACT, DOCUMENT, resolved


def is_described(value):
    """Whether it says itself what it is, or what it refers to does."""
    return bool(value.get("description") or resolved(value).get("description"))


def bare_fields(schema, name):
    """The fields without a description, at any depth. What is referred to is looked at by itself."""
    if "$ref" in schema:
        return
    for field, content in schema.get("properties", {}).items():
        if not is_described(content):
            yield f"{name}.{field}"
        yield from bare_fields(content, f"{name}.{field}")
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            yield from bare_fields(schema[inner], f"{name}[]")
    for several in ("allOf", "anyOf", "oneOf"):
        for one in schema.get(several, []):
            yield from bare_fields(one, name)


def bodies():
    """Name and schema of every body that is not a component."""
    for operation in CONTRACT.operations.values():
        yield f"{operation.id} request", operation.document.get("requestBody", {})
        for status, response in operation.document["responses"].items():
            yield f"{operation.id} {status}", response
    for name, response in DOCUMENT["components"]["responses"].items():
        yield name, response


class Descriptions(unittest.TestCase):
    def test_every_parameter_has_one(self):
        parameters = [(f"{operation.id} {resolved(parameter)['name']}", parameter)
                      for operation in CONTRACT.operations.values()
                      for parameter in operation.document.get("parameters", [])]
        self.assertEqual([name for name, parameter in parameters if not is_described(parameter)], [])
        self.assertGreater(len(parameters), 100)

    def test_every_field_has_one(self):
        schemas = DOCUMENT["components"]["schemas"]
        bare = [field for name, schema in schemas.items() for field in bare_fields(schema, name)]
        bare += [field for name, body in bodies() for media in body.get("content", {}).values()
                 for field in bare_fields(media.get("schema", {}), name)]
        self.assertEqual(bare, [])

    def test_a_field_without_one_is_found(self):
        word, bare = {"type": "string", "description": "A word."}, {"type": "string"}
        deep = {"type": "array", "description": "Words.", "items": {"properties": {"word": word, "bare": bare}}}
        time = {"$ref": "#/components/schemas/Time"}
        schema = {"properties": {"word": word, "deep": deep, "bare": bare, "time": time}}
        self.assertEqual(list(bare_fields(schema, "X")), ["X.deep[].bare", "X.bare"])


if __name__ == "__main__":
    unittest.main(verbosity=0)
