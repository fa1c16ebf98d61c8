#!/usr/bin/env python3
"""The chat page for everybody: axe finds nothing serious in any state, light and dark, and it can be enlarged."""

import unittest

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from page_world import NARROW, PageTest, world

AXE = Axe()


class Accessible(PageTest):
    def check(self, page, name):
        """No finding that is serious, and a picture of the state."""
        found = AXE.run(page).response["violations"]
        serious = [(one["id"], [node["html"][:160] + str(node["any"][:1])[:300] for node in one["nodes"][:3]])
                   for one in found if one["impact"] in ("serious", "critical")]
        self.assertEqual(serious, [], name)
        self.shot(page, name)

    def test_no_state_has_a_serious_finding(self):
        room = self.world.channel(("alice", "bob"), messages=4, name="Room with everything")
        self.world.say(room, "t5 look @Alice at https://example.org/x", mention_type="users", mentioned_user_ids=["alice"])
        page = self.page_of(channel=room)
        self.sees(page, "t5 look")
        page.locator("#chat .field").fill("t6 own")
        page.keyboard.press("Enter")
        self.sees(page, "t6 own")
        expect(page.locator("#chat .message.pending")).to_have_count(0)
        page.locator("#chat article", has_text="t1 from bob").hover()
        page.locator("#chat article .text", has_text="t1 from bob").click()
        page.locator("[data-act=react]").click()
        self.check(page, "reactions")
        page.locator(".picker button").first.click()
        page.locator("#chat .reaction").wait_for()
        self.check(page, "actions")
        page.locator("[data-act=info]").click()
        self.check(page, "details")
        page.keyboard.press("Escape")
        page.locator("#chat article", has_text="t6 own").hover()
        page.locator("#chat article .text", has_text="t6 own").click()
        page.locator("[data-act=delete]").click()
        self.check(page, "delete")
        page.keyboard.press("Escape")
        page.locator("[data-act=edit]").click()
        self.check(page, "edit")
        page.keyboard.press("Escape")
        page.locator("[data-act=reply]").click()
        page.locator("#thread .field").fill("t7 reply")
        page.keyboard.press("Enter")
        self.sees(page, "t7 reply", "#thread")
        self.check(page, "thread-open")
        page.keyboard.press("Escape")
        page.locator("#inspector-button").click()
        for tab in ("requests", "events", "line", "outbox", "cache"):
            page.locator(f"#tab-{tab}").click()
            page.locator("#drawer-panel > *").first.wait_for()
            self.check(page, f"inspector-{tab}")
        page.keyboard.press("Escape")
        self.world.cut()
        expect(page.locator("#banner")).to_be_visible()
        page.locator("#chat .field").fill("t8 waits")
        page.keyboard.press("Enter")
        expect(page.locator("#chat .message.pending")).to_have_count(1)
        self.check(page, "chat-server-gone")
        page.locator("#chat .message.pending [data-act=cancel]").click()
        expect(page.locator("#chat .message.canceled")).to_have_count(1)
        self.check(page, "canceled")
        self.world.mend()

    def test_the_sign_in_and_the_list_have_no_serious_finding(self):
        page = self.page_of()
        page.locator("#channels .channel").first.wait_for()
        page.locator("#filters summary").click()
        self.check(page, "channels")
        page.locator("#filters [type=search]").fill("no such channel")
        page.locator("#channels-end .empty", has_text="No channels").wait_for()
        self.check(page, "no-channels")
        page.locator("#sign-out").click()
        fresh = self.new_context().new_page()
        fresh.goto(self.world.base)
        fresh.locator("#first-token").wait_for()
        self.check(fresh, "sign-in")

    def test_an_invited_user_is_told_why_nothing_can_be_read(self):
        room = self.world.channel(("bob",), name="Invited room")
        self.world.there("POST", f"/v3/group_channels/{room}/invite", {
            "user_ids": ["alice"], "inviter_id": "bob", "invitation_status": {"alice": "invited_by_friend"}})
        page = self.page_of()
        page.locator(f"[data-url={room}]").click()
        expect(page.locator("#chat .empty")).to_contain_text("invited you")
        expect(page.locator(f"[data-url={room}] .flag")).to_have_text("Invited")
        expect(page.locator("#chat .composer")).to_have_count(0)
        self.check(page, "invited")

    def test_text_of_twice_the_size_fits(self):
        room = self.world.channel(("alice", "bob"), messages=3)
        half = {"width": self.size["width"] // 2, "height": self.size["height"] // 2}
        page = self.page_of(channel=room)
        page.set_viewport_size({"width": max(320, half["width"]), "height": half["height"]})
        self.sees(page, "t2 from bob")
        self.assertEqual(page.evaluate("document.documentElement.scrollWidth <= innerWidth"), True)
        self.shot(page, "enlarged")

    def test_nothing_moves_where_less_motion_is_wanted(self):
        context = self.new_context(reduced_motion="reduce")
        page = self.page_of(channel="general", context=context)
        page.locator("#chat article").first.wait_for()
        self.assertEqual(page.evaluate("document.getAnimations().length"), 0)


class NarrowDark(Accessible):
    size, scheme = NARROW, "dark"


def tearDownModule():
    world().end()


if __name__ == "__main__":
    unittest.main(verbosity=2)
