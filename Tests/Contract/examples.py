"""Every JSON body that the contract describes has an example, and every example is what its schema says."""

import unittest

from openapi_schema_validator import OAS31Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from service import CONTRACT, DOCUMENT, resolved

REGISTRY = Registry().with_resource("contract:", Resource.from_contents(DOCUMENT, default_specification=DRAFT202012))


def anchored(value):
    """A schema whose references are read within the contract, wherever it stands."""
    if isinstance(value, dict):
        return {name: "contract:" + content if name == "$ref" else anchored(content)
                for name, content in value.items()}
    return [anchored(item) for item in value] if isinstance(value, list) else value


def bodies():
    """Name, schema and examples of every body."""
    for operation in CONTRACT.operations.values():
        places = {"request": operation.document.get("requestBody", {})}
        places |= {status: resolved(response) for status, response in operation.document["responses"].items()
                   if status.startswith("2") or operation.id == "getReadiness" and status == "503"}
        for place, body in places.items():
            media = body.get("content", {}).get("application/json")
            if media is not None and operation.id != "getOpenapiJson":
                examples = [media["example"]] if "example" in media else []
                examples += [resolved(example)["value"] for example in media.get("examples", {}).values()]
                yield f"{operation.id} {place}", media["schema"], examples


class Examples(unittest.TestCase):
    def test_every_body_has_an_example_that_its_schema_allows(self):
        count = 0
        for name, schema, examples in bodies():
            with self.subTest(body=name):
                self.assertTrue(examples)
                for example in examples:
                    count += 1
                    OAS31Validator(anchored(schema), registry=REGISTRY).validate(example)
        self.assertGreater(count, 30)

    def test_an_example_that_its_schema_does_not_allow_is_found(self):
        with self.assertRaises(Exception):
            OAS31Validator(anchored({"$ref": "#/components/schemas/Message"}), registry=REGISTRY).validate({"type": "x"})


if __name__ == "__main__":
    unittest.main(verbosity=0)
