#!/usr/bin/env python3
"""Nothing that somebody wrote runs in the chat page, breaks its layout or becomes a link that it should not be."""

import unittest

from playwright.sync_api import Error, expect

from page_world import NARROW, PageTest, world

MARKS = "Z" + "".join(chr(0x300 + number % 0x70) for number in range(300))
TEXTS = [
    "<script>window.ran = 1</script>", "<img src=x onerror='window.ran = 1'>", "<svg/onload=window.ran=1>",
    "<a href='javascript:window.ran=1'>x</a>", "javascript:window.ran=1", "data:text/html,<script>window.ran=1</script>",
    "https://example.org/\"onmouseover=window.ran=1", "[x](javascript:window.ran=1)", "{{constructor.constructor('window.ran=1')()}}",
    "x" * 5000, "https://example.org/" + "y" * 1500, MARKS, "\u202egnirts desrever \u202e\u2066 end", "\u200f\u202b mixed \u05d0\u05d1 123",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467" * 300, "\ufdfd" * 60, "\x01\x02 controls \x7f", "many\n" * 150,
]
NAMES = ["\U0001f600" * 300, "<b onclick=window.ran=1>bold</b>", MARKS, "\u202eecila", "n" * 80]
FILES = [("page.html", "text/html", b"<script>window.ran = 1</script>"),
         ("draw.svg", "image/svg+xml", b"<svg xmlns='http://www.w3.org/2000/svg' onload='window.ran=1'><script>window.ran=1</script></svg>"),
         ("\u202egnp.exe", "image/png", b"no picture"), ("f" * 200 + ".txt", "text/plain", b"words")]
# A message is not taller than its text needs, and does not paint over its neighbours.
STACKED = """() => [...document.querySelectorAll("#chat .text, #chat .name")]
  .filter((one) => !/clip|hidden/.test(getComputedStyle(one).overflowY) && !getComputedStyle(one).contain.includes("paint")).length"""


class HostileText(PageTest):
    def test_nothing_runs(self):
        users = []
        for number, name in enumerate(NAMES):
            users.append(f"hostile-{self.size['width']}-{number}")
            self.world.there("POST", "/v3/users", {"user_id": users[-1], "nickname": name[:80], "profile_url": ""})
        room = self.world.channel(["alice", *users], name=NAMES[0][:180])
        for number, text in enumerate(TEXTS):
            self.world.say(room, text, users[number % len(users)])
        page = self.page_of(channel=room)
        self.world.say(room, "t1 the last", users[0])
        self.sees(page, "t1 the last")
        self.shot(page, "hostile")
        page.locator("#chat .text", has_text=MARKS[:5]).scroll_into_view_if_needed()
        self.shot(page, "hostile-marks")
        links = page.eval_on_selector_all("#chat a, #thread a", "all => all.map((one) => one.protocol + one.rel)")
        self.assertTrue(links)
        self.assertEqual({link for link in links if not link.startswith("http")}, set())
        self.assertEqual(page.evaluate(STACKED), 0)
        page.locator("#chat .field").fill("@")
        page.locator("#chat .mentions li").first.wait_for()
        page.locator("#chat .field").fill("")
        for name, kind, data in FILES:
            page.locator("#chat input[type=file]").set_input_files({"name": name, "mimeType": kind, "buffer": data})
            page.locator("#chat .composer-note").wait_for()
            page.locator("#chat .send").click()
        expect(page.locator("#chat .attachment")).to_have_count(len(FILES))
        expect(page.locator("#chat .message.pending")).to_have_count(0)
        page.locator("#inspector-button").click()
        page.locator("#tab-events").click()
        page.locator("#inspector details summary").first.click()
        self.shot(page, "hostile-events")
        for text in [TEXTS[0], TEXTS[9], MARKS]:
            page.locator("#filters [type=search]").fill(text[:90], force=True)
        page.locator("#filters [type=search]").fill("", force=True)
        self.assertIsNone(page.evaluate("window.ran ?? null"))
        expect(page.locator("#channels .channel").first).to_be_attached()

    def test_a_file_that_is_too_large_or_empty_is_refused_before_it_is_sent(self):
        room = self.world.channel(("alice", "bob"), messages=1)
        page = self.page_of(channel=room)
        with open(self.world.place.name + "/large.bin", "wb") as file:
            file.truncate(26 * 1024 * 1024 + 1)
        page.locator("#chat input[type=file]").set_input_files(file.name)
        expect(page.locator("#alerts")).to_contain_text("at most")
        self.shot(page, "too-large")
        page.locator("#chat input[type=file]").set_input_files({"name": "none.txt", "mimeType": "text/plain", "buffer": b""})
        expect(page.locator("#alerts")).to_contain_text("is empty")
        expect(page.locator("#chat .composer-note")).to_be_hidden()
        unsent = self.world.here("alice", "GET", f"/v1/outbox?channel_url={room}")[1]["items"]
        self.assertEqual([row for row in unsent if row["kind"] != "read"], [])

    def test_an_upload_shows_its_progress_and_can_be_canceled(self):
        room = self.world.channel(("alice", "bob"), messages=1)
        page = self.page_of(channel=room)
        page.route("**/messages", lambda route: None if "multipart" in route.request.headers.get("content-type", "") else route.continue_())
        page.locator("#chat input[type=file]").set_input_files(
            {"name": "slow.bin", "mimeType": "application/octet-stream", "buffer": b"x" * 500_000})
        page.locator("#chat .composer-note").wait_for()
        page.locator("#chat .send").click()
        page.locator("#chat .message.pending [data-act=cancel]").click()
        expect(page.locator("#chat .attachment")).to_have_count(0)
        page.unroute("**/messages")
        self.assertEqual(self.world.texts(room), ["t0 from bob"])

    def test_events_that_the_page_does_not_know_are_passed_over(self):
        room = self.world.channel(("alice", "bob"), messages=1)
        unknown = '{"type":"poll.voted","is_realtime":true,"votes":[]}'

        def add(route):
            try:
                answer = route.fetch()
                body = answer.text().replace('"events":[', f'"events":[{unknown},').replace(f"{unknown},]", f"{unknown}]")
                route.fulfill(response=answer, body=body)
            except Error:
                # The page was closed before the answer came.
                pass
        self.context.route("**/v1/events?*wait=0", add)
        page = self.page_of(channel=room)
        self.world.say(room, "t1 still alive")
        self.sees(page, "t1 still alive")

    def test_each_refusal_has_words_for_people(self):
        room = self.world.channel(("alice", "bob"), messages=1)
        page = self.page_of(channel=room)
        words = {400: "understand", 403: "may not", 404: "gone", 409: "cannot be done now", 413: "too large", 422: "refused"}
        for status, word in words.items():
            problem = {"type": "/problems/other", "title": "x", "status": status, "code": "other", "detail": f"Detail {status}.",
                       "x_request_id": "x"}
            page.route("**/messages", lambda route: route.fulfill(status=status, json=problem, content_type="application/problem+json")
                       if route.request.method == "POST" else route.continue_())
            page.locator("#chat .field").fill(f"t{status} refused")
            page.keyboard.press("Enter")
            expect(page.locator("#chat .message.failed .state").last).to_contain_text(word)
            expect(page.locator("#chat .message.failed .state").last).to_contain_text(f"Detail {status}.")
            page.unroute("**/messages")
        for status in (429, 503):
            problem = {"status": status, "code": "other", "detail": "Wait.", "type": "", "title": "", "x_request_id": ""}
            page.route("**/messages", lambda route: route.fulfill(status=status, json=problem, headers={"Retry-After": "1"}), times=1)
            page.locator("#chat .field").fill(f"t{status} later")
            page.keyboard.press("Enter")
            expect(page.locator("#chat .message:not(.pending) .text", has_text=f"t{status} later")).to_be_visible()
        self.shot(page, "refusals")


class NarrowHostileText(HostileText):
    size = NARROW


def tearDownModule():
    world().end()


if __name__ == "__main__":
    unittest.main(verbosity=2)
