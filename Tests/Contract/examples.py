"""Every JSON body that the contract describes has an example, and every example is what its schema says."""

import unittest

from service import CONTRACT, DOCUMENT, check_event, resolved, validator, validator_of


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
                    validator(schema).validate(example)
        self.assertGreater(count, 30)

    def test_every_event_type_has_an_example_that_its_schema_and_no_other_allows(self):
        mapping = DOCUMENT["components"]["schemas"]["Event"]["discriminator"]["mapping"]
        for kind, reference in mapping.items():
            with self.subTest(type=kind):
                example = resolved({"$ref": reference})["example"]
                self.assertEqual(example["type"], kind)
                validator_of("Event").validate(example)
        self.assertGreater(len(mapping), 20)

    def test_an_event_that_its_schema_does_not_allow_is_found(self):
        event = resolved({"$ref": "#/components/schemas/MessageDeleted"})["example"]
        check_event(event)
        short = {field: value for field, value in event.items() if field != "channel_url"}
        for wrong in (short, event | {"type": "messages.vanished"}, event | {"unknown": 1}, event | {"is_realtime": 1}):
            with self.subTest(event=wrong), self.assertRaises(Exception):
                check_event(wrong)

    def test_an_example_that_its_schema_does_not_allow_is_found(self):
        with self.assertRaises(Exception):
            validator_of("Message").validate({"type": "x"})


if __name__ == "__main__":
    unittest.main(verbosity=0)
