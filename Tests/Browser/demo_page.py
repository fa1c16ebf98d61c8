#!/usr/bin/env python3
"""The chat page of `perch demo`, as somebody meets it who has never seen Perch: a user to pick, and a switch."""

import tempfile
import unittest

from playwright.sync_api import expect

from live_clients import Program
from network import free_port
from page_world import NARROW, PageTest, world

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc0000003010100c9fe92ef"
    "0000000049454e44ae426082")


class Demo(PageTest):
    def setUp(self):
        super().setUp()
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        log = open(place.name + "/log", "w")
        self.addCleanup(log.close)
        address = f"127.0.0.1:{free_port()}"
        demo = Program(log, "demo", "--listen", address, "--origin-listen", f"127.0.0.1:{free_port()}",
                       "--data", place.name + "/data")
        self.addCleanup(demo.kill)
        self.base = f"http://{address}"

    def tearDown(self):
        self.hosts.discard(self.base.split("/")[2])
        super().tearDown()

    def test_somebody_picks_a_user_and_pulls_the_plug(self):
        page = self.new_page()
        page.goto(self.base)
        page.locator("#sign-in-list button").first.wait_for()
        self.shot(page, "demo-users")
        self.press(page, "#sign-in-list button")
        self.press(page, "[data-url=general]")
        self.write(page, "t300 hello from the demo")
        self.sees(page, "t300 hello")
        expect(page.locator("#chat .message.pending")).to_have_count(0)
        # A picture is shown once it was sent, from the demo's own address.
        page.locator("#chat input[type=file]").set_input_files({"name": "dot.png", "mimeType": "image/png", "buffer": PIXEL})
        page.locator("#chat .composer-note").wait_for()
        self.press(page, "#chat .send")
        expect(page.locator("#chat img[src*='/demo/files/']").last).to_be_visible()
        self.press(page, "#inspector-button")
        if self.by_keyboard:
            expect(page.locator("#tab-requests")).to_be_focused()
            page.keyboard.press("ArrowLeft")
        else:
            page.locator("#tab-cache").click()
        self.press(page, "#demo-switch")
        expect(page.locator("#demo-switch")).to_have_attribute("aria-checked", "false")
        expect(page.locator("#banner")).to_contain_text("chat server")
        self.shot(page, "demo-switch")
        page.keyboard.press("Escape")
        self.write(page, "t301 while it is away")
        expect(page.locator("#chat .message.pending")).to_have_count(1)
        self.press(page, "#inspector-button")
        self.press(page, "#demo-switch")
        expect(page.locator("#banner")).to_be_hidden()
        expect(page.locator("#chat .message.pending")).to_have_count(0)


class NarrowDemo(Demo):
    size, by_keyboard, scheme = NARROW, True, "dark"


def tearDownModule():
    world().end()


if __name__ == "__main__":
    unittest.main(verbosity=2)
