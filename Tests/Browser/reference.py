#!/usr/bin/env python3
"""The reference at /docs: each operation can be tried there, with the token that is set."""

import json
import re
import subprocess
import tempfile
import unittest

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from live_clients import bearer
from page_world import NARROW, PageTest, operations, world


class Reference(PageTest):
    def reference(self, **options):
        page = self.page_of(**options)
        page.goto(f"{self.world.base}/docs")
        page.locator("#token").wait_for()
        return page

    def open(self, page, operation, **values):
        """The form of an operation, with values in its fields."""
        page.get_by_role("button", name=f"Try {operation}", exact=True).click()
        form = page.locator(f"form[aria-label={operation}]")
        for name, value in values.items():
            form.locator(f"[id={operation}-{name.replace('__', '-')}]").fill(value)
        return form

    def answered(self, form, status):
        """Sends the form; the answer's text."""
        form.get_by_role("button", name=re.compile("^Send ")).click()
        expect(form.locator(".result p").last).to_contain_text(f"{status} after")
        expect(form.get_by_role("button", name="Stop")).to_have_count(0)
        return form.locator(".result pre").last.text_content()

    def test_each_operation_can_be_tried(self):
        page = self.reference()
        expect(page.get_by_role("button", name=re.compile("^Try "))).to_have_count(len(operations()))

    def test_a_message_is_sent_read_and_told_by_a_stream(self):
        room = self.world.channel(("alice", "bob"), name="Tried")
        page = self.reference()
        expect(page.locator("form.try [role=status]").first).to_contain_text("as alice")
        send = self.open(page, "sendMessage", path__channel_url=room, body=json.dumps({"message": "it's tried"}))
        self.assertIn('"sending_status"', self.answered(send, 202))
        self.world.until(lambda: "it's tried" in self.world.texts(room))
        # The line for a shell does the same.
        line = send.locator(".result pre").first.text_content()
        self.assertNotIn("eyJ", line)
        token = bearer(self.world.secret, "alice")
        answer = subprocess.run(["sh", "-c", line], env={"T": token, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True)
        self.assertIn('"request_id"', answer.stdout)
        self.world.until(lambda: self.world.texts(room).count("it's tried") == 2)
        # A query, a stream that is stopped, and a problem.
        read = self.open(page, "listMessages", path__channel_url=room, query__limit="1")
        self.assertEqual(self.answered(read, 200).count('"message_id"'), 1)
        edit = self.open(page, "editMessage", path__channel_url=room, path__message_ref="1", body='{"wrong": 1}')
        self.assertIn('"field": "wrong"', self.answered(edit, 400))
        gone = self.open(page, "getChannel", path__channel_url="..")
        gone.get_by_role("button", name="Send GET").click()
        expect(gone.locator(".result p")).to_have_count(0)
        gone.locator("input").first.fill("no/such channel")
        self.assertIn("channel_not_found", self.answered(gone, 404))

    def test_a_file_is_sent_as_a_form(self):
        room = self.world.channel(("alice", "bob"), name="Tried with files")
        page = self.reference()
        send = self.open(page, "sendMessage", path__channel_url=room, body="{}")
        send.locator("input[type=file]").set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"abc"})
        self.assertIn('"a.txt"', self.answered(send, 202))
        # The line for a shell sends the same form, whatever its texts have.
        send.locator("textarea").fill('{"data": "x; y=\\"z\\", w"}')
        send.locator("input[type=file]").set_input_files({"name": 'a;b,"c.txt', "mimeType": "text/plain", "buffer": b"abc"})
        self.answered(send, 202)
        line = send.locator(".result pre").first.text_content()
        with tempfile.TemporaryDirectory() as place:
            with open(place + '/a;b,"c.txt', "w") as file:
                file.write("abc")
            environment = {"T": bearer(self.world.secret, "alice"), "PATH": "/usr/bin:/bin"}
            said = subprocess.run(["sh", "-c", line], env=environment, cwd=place, capture_output=True, text=True).stdout
        self.assertEqual(json.loads(said)["data"], 'x; y="z", w')

    def test_a_stream_is_shown_until_it_is_stopped(self):
        room = self.world.channel(("alice", "bob"), name="Streamed")
        page = self.reference()
        cursor = self.world.here("alice", "GET", "/v1/connection")[1]["cursor"]
        form = self.open(page, "pollEvents", query__since=cursor, query__user_feed="true", header__Accept="text/event-stream")
        form.get_by_role("button", name=re.compile("^Send ")).click()
        self.world.say(room, "t0 told")
        expect(form.locator(".result pre").last).to_contain_text("t0 told")
        form.get_by_role("button", name="Stop").click()
        expect(form.locator(".result pre").last).to_contain_text("Stopped.")

    def test_a_token_can_be_set_there(self):
        page = self.reference()
        page.locator("#token").fill("nonsense")
        page.get_by_role("button", name="Use it").click()
        expect(page.locator("form.try [role=status]").first).to_contain_text("This is no token")
        expect(page.locator("form.try [role=status]").first).to_contain_text("as alice")
        page.locator("#token").fill("")
        page.get_by_role("button", name="Use it").click()
        expect(page.locator("form.try [role=status]").first).to_contain_text("without a token")
        self.assertIn("unauthorized", self.answered(self.open(page, "listChannels"), 401))
        page.locator("#token").fill(bearer(self.world.secret, "bob"))
        page.get_by_role("button", name="Use it").click()
        expect(page.locator("form.try [role=status]").first).to_contain_text("as bob")
        self.assertIn('"bob"', self.answered(self.open(page, "getConnection"), 200))

    def test_everybody_can_use_it(self):
        page = self.reference()
        self.open(page, "listChannels")
        self.answered(page.locator("form[aria-label=listChannels]"), 200)
        found = [one for one in Axe().run(page).response["violations"] if one["impact"] in ("serious", "critical")]
        self.assertEqual([(one["id"], one["nodes"][0]["html"][:200]) for one in found], [])
        self.shot(page, "reference")


class NarrowReference(PageTest):
    size, scheme = NARROW, "dark"
    reference, open, answered = Reference.reference, Reference.open, Reference.answered
    test_everybody_can_use_it = Reference.test_everybody_can_use_it


def tearDownModule():
    world().end()


if __name__ == "__main__":
    unittest.main(verbosity=2)
