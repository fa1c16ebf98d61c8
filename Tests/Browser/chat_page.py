#!/usr/bin/env python3
"""The stories of the chat page, in a real Chromium on a real service: wide and narrow, by pointer and by keyboard."""

import os
import subprocess
import unittest

from playwright.sync_api import expect

from live_clients import bearer
from page_world import NARROW, PageTest, world


class Stories:
    """Each story runs wide by pointer, and narrow by keyboard alone."""

    def test_somebody_gives_a_token_and_opens_a_channel(self):
        room = self.world.channel(("alice", "bob"), messages=3)
        fresh = self.new_page()
        fresh.goto(self.world.base)
        fresh.locator("#first-token").fill("nonsense")
        fresh.keyboard.press("Enter")
        expect(fresh.locator("#sign-in .wrong")).to_contain_text("no token")
        self.shot(fresh, "sign-in")
        fresh.locator("#first-token").fill(bearer(self.world.secret, "alice"))
        fresh.keyboard.press("Enter")
        self.press(fresh, f"[data-url={room}]")
        self.sees(fresh, "t2 from bob")
        self.shot(fresh, "chat")
        self.assertNotIn("eyJ", fresh.url + fresh.evaluate("JSON.stringify(localStorage)"))

    def test_what_one_can_do_with_a_message(self):
        room = self.world.channel(("alice", "bob"), messages=3)
        page = self.page_of(channel=room)
        self.sees(page, "t2 from bob")
        self.write(page, "t10 hello")
        self.sees(page, "t10 hello")
        self.world.until(lambda: "t10 hello" in self.world.texts(room))
        expect(page.locator("#chat .state.read")).to_be_visible()
        self.focus_message(page, "t10 hello")
        self.press(page, "[data-act=edit]")
        page.keyboard.type(" again")
        page.keyboard.press("Enter")
        self.sees(page, "t10 hello again")
        self.world.until(lambda: "t10 hello again" in self.world.texts(room))
        self.focus_message(page, "t1 from bob")
        self.press(page, "[data-act=react]")
        self.press(page, ".picker button")
        expect(page.locator("#chat .reaction:not(.waiting)")).to_have_text("👍 1")
        self.focus_message(page, "t1 from bob")
        self.press(page, ".reaction")
        expect(page.locator("#chat .reaction")).to_have_count(0)
        self.focus_message(page, "t10 hello again")
        self.press(page, "[data-act=delete]")
        self.press(page, "dialog .danger")
        self.misses(page, "t10 hello")
        self.world.until(lambda: self.world.texts(room) == [f"t{n} from bob" for n in range(3)])

    def test_replies_stand_in_a_thread(self):
        room = self.world.channel(("alice", "bob"), messages=2)
        page = self.page_of(channel=room)
        self.focus_message(page, "t1 from bob")
        self.press(page, "[data-act=reply]")
        page.locator("#thread .field").wait_for()
        self.write(page, "t20 a reply", "#thread")
        self.sees(page, "t20 a reply", "#thread")
        self.shot(page, "thread")
        expect(page.locator("#chat .thread-link")).to_have_text("1 reply")
        self.assertEqual(page.locator("#chat .text", has_text="t20").count(), 0)
        page.keyboard.press("Escape")
        expect(page.locator("#thread")).to_be_hidden()

    def test_a_mention_names_a_member(self):
        room = self.world.channel(("alice", "bob"), messages=1)
        page = self.page_of(channel=room)
        self.reach(page, "#chat .field") if self.by_keyboard else page.locator("#chat .field").click()
        page.keyboard.type("t30 @bo")
        # While one types there are others in the list.
        expect(page.locator("#chat .mentions li").first).to_contain_text("Bob")
        self.shot(page, "mention")
        page.keyboard.press("Enter")
        page.keyboard.type("look")
        page.keyboard.press("Enter")
        self.sees(page, "look")
        expect(page.locator("#chat .mention")).to_contain_text("@Bob")
        status, unread = self.world.until(lambda: (found := self.world.here("bob", "GET", f"/v1/channels/{room}"))[0] == 200
                                          and found[1]["unread_mention_count"] and found)
        self.assertEqual(unread["unread_mention_count"], 1)

    def test_the_chat_server_is_gone_for_a_while(self):
        room = self.world.channel(("alice", "bob"), messages=3)
        page = self.page_of(channel=room)
        self.write(page, "t40 before")
        # Cut before Perch has the answer, it could not know the message's id, and the message could not be edited.
        expect(page.locator("#chat .message.own:not(.pending)", has_text="t40 before")).to_be_visible()
        self.world.cut()
        expect(page.locator("#banner")).to_contain_text("chat server")
        self.write(page, "t41 offline")
        page.locator("#chat input[type=file]").set_input_files(
            {"name": "t42 note.txt", "mimeType": "text/plain", "buffer": b"some words"})
        page.locator("#chat .composer-note").wait_for()
        self.press(page, "#chat .send")
        # A new row moves the others from under the pointer, and unsent rows have a button to edit them, too.
        expect(page.locator("#chat .message.pending")).to_have_count(2)
        self.focus_message(page, "t40 before")
        self.press(page, "#chat .message:not(.pending) [data-act=edit]")
        page.keyboard.type(" edited")
        page.keyboard.press("Enter")
        self.sees(page, "t40 before edited")
        expect(page.locator("#chat .message.pending")).to_have_count(2)
        self.shot(page, "offline")
        page.reload()
        expect(page.locator("#chat .message.pending")).to_have_count(2)
        self.sees(page, "t40 before edited")
        self.world.mend()
        expect(page.locator("#chat .message.pending")).to_have_count(0)
        wanted = ["t40 before edited", "t41 offline", "t42 note.txt"]
        self.world.until(lambda: sorted(self.world.texts(room))[-3:] == wanted)
        expect(page.locator("#banner")).to_be_hidden()

    def test_perch_is_gone_for_a_while(self):
        room = self.world.channel(("alice", "bob"), messages=3)
        page = self.page_of(channel=room)
        self.sees(page, "t2 from bob")
        self.world.service.kill()
        self.addCleanup(lambda: self.world.service.process.poll() is None or self.world.start())
        expect(page.locator("#banner")).to_contain_text("Perch does not answer")
        for number in (50, 51):
            self.write(page, f"t{number} without Perch")
        page.locator("#chat input[type=file]").set_input_files(
            {"name": "t52 note.txt", "mimeType": "text/plain", "buffer": b"some words"})
        page.locator("#chat .composer-note").wait_for()
        self.press(page, "#chat .send")
        expect(page.locator("#chat .message.pending")).to_have_count(3)
        self.shot(page, "perch-gone")
        self.world.start()
        page.reload()
        expect(page.locator("#banner")).to_be_hidden()
        wanted = [f"t{n} from bob" for n in range(3)] + ["t50 without Perch", "t51 without Perch", "t52 note.txt"]
        self.world.until(lambda: sorted(self.world.texts(room)) == wanted)
        expect(page.locator("#chat .message.pending")).to_have_count(0)
        expect(page.locator("#chat .text", has_text="without Perch")).to_have_count(2)

    def test_a_message_that_is_refused_is_sent_again_or_removed(self):
        room = self.world.channel(("alice", "bob"), messages=1)
        page = self.page_of(channel=room)
        self.addCleanup(self.world.there, "DELETE", "/_faults")
        self.world.there("PUT", "/_faults", {"faults": [
            {"path": f"/v3/group_channels/{room}/messages", "method": "POST", "count": 2, "kind": "deny", "code": 900060}]})
        self.write(page, "t60 refused")
        self.write(page, "t61 refused")
        expect(page.locator("#chat .message.failed")).to_have_count(2)
        self.shot(page, "failed")
        self.press(page, "#chat [data-act=resend]")
        expect(page.locator("#chat .message.failed")).to_have_count(1)
        self.press(page, "#chat [data-act=remove]")
        expect(page.locator("#chat .message.failed")).to_have_count(0)
        # By keyboard the newest is the nearest.
        self.world.until(lambda: self.world.texts(room)[1:] == ["t61 refused" if self.by_keyboard else "t60 refused"])

    def test_membership_is_lost_and_comes_back(self):
        room = self.world.channel(("alice", "bob"), messages=2)
        page = self.page_of(channel=room)
        self.sees(page, "t1 from bob")
        self.world.there("PUT", f"/v3/group_channels/{room}/leave", {"user_ids": ["alice"]})
        self.misses(page, "from bob")
        expect(page.locator("#chat .field")).to_be_disabled()
        self.shot(page, "lost")
        self.world.there("POST", f"/v3/group_channels/{room}/invite", {"user_ids": ["alice"]})
        self.world.say(room, "t70 back")
        expect(page.locator("#chat .text", has_text="t70 back")).to_be_visible()
        expect(page.locator("#chat .field")).to_be_enabled()

    def test_a_token_ends_and_what_was_written_stays(self):
        room = self.world.channel(("alice", "bob"), messages=1)
        for seconds in (3, 6, 12, 24):
            page = self.page_of(channel=room, token=bearer(self.world.secret, "alice", seconds=seconds))
            page.locator("#chat .text").or_(page.locator("#token-dialog")).first.wait_for()
            page.evaluate("document.querySelector('#chat .field').focus()")
            page.keyboard.type("t80 half written")
            # A busy machine may have opened the page only when its token had ended.
            if page.locator("#chat .field").input_value() == "t80 half written":
                break
            page.close()
        # A stream looks at its token when there is something to tell.
        self.world.until(lambda: self.world.say(room, "more") and page.locator("#token-dialog").is_visible())
        self.shot(page, "token-ended")
        page.locator("#new-token").fill(bearer(self.world.secret, "bob"))
        page.keyboard.press("Enter")
        expect(page.locator("#token-dialog .wrong")).to_contain_text("not of alice")
        page.locator("#new-token").fill(bearer(self.world.secret, "alice"))
        page.keyboard.press("Enter")
        expect(page.locator("#token-dialog")).to_have_count(0)
        expect(page.locator("#chat .field")).to_have_value("t80 half written")
        self.press(page, "#chat .send")
        self.world.until(lambda: "t80 half written" in self.world.texts(room))

    def test_an_upload_is_canceled_on_each_part_of_its_way(self):
        room = self.world.channel(("alice", "bob"), messages=1)
        page = self.page_of(channel=room)
        self.sees(page, "t0 from bob")
        network = page.context.new_cdp_session(page)
        slow = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 100_000}
        network.send("Network.enable")
        network.send("Network.emulateNetworkConditions", slow)
        self.upload(page, "t65 never at Perch.bin", 2_000_000)
        self.press(page, "#chat .pending [data-act=cancel]")
        expect(page.locator("#chat .attachment")).to_have_count(0)
        # That alice has read may still be under way.
        unsent = self.world.here("alice", "GET", f"/v1/outbox?channel_url={room}")[1]["items"]
        self.assertEqual([row for row in unsent if row["kind"] != "read"], [])
        network.send("Network.emulateNetworkConditions", slow | {"uploadThroughput": -1})
        self.world.line.fault = "slow"
        self.upload(page, "t66 never at the chat server.bin", 4_000_000)
        self.press(page, "#chat .pending [data-act=cancel]")
        expect(page.locator("#chat .message.canceled .attachment")).to_have_count(1)
        self.press(page, "#chat [data-act=remove]")
        expect(page.locator("#chat .attachment")).to_have_count(0)
        self.world.mend()
        # What is written after it goes after it: there is nothing before it any more.
        self.write(page, "t67 after it")
        self.world.until(lambda: self.world.texts(room) == ["t0 from bob", "t67 after it"])
        self.world.until(lambda: self.world.here("alice", "GET", f"/v1/outbox?channel_url={room}")[1]["items"] == [])

    def upload(self, page, name, size):
        """Sends a file, and waits until a part of it, and not all, has gone."""
        page.locator("#chat input[type=file]").set_input_files(
            {"name": name, "mimeType": "application/octet-stream", "buffer": b"x" * size})
        page.locator("#chat .composer-note").wait_for()
        self.press(page, "#chat .send")
        page.wait_for_function("""() => {
          const bar = document.querySelector("#chat .pending progress");
          return bar && bar.value > 0 && bar.value < 100;
        }""")
        self.shot(page, "upload")

    def test_a_message_that_waits_is_changed(self):
        room = self.world.channel(("alice", "bob"), messages=1)
        page = self.page_of(channel=room)
        self.world.cut()
        expect(page.locator("#banner")).to_contain_text("chat server")
        self.write(page, "t75 waits")
        expect(page.locator("#chat .state", has_text="chat server is back")).to_have_count(1)
        self.change(page, " at the service")
        self.sees(page, "t75 waits at the service")
        self.world.service.kill()
        self.addCleanup(lambda: self.world.service.process.poll() is None or self.world.start())
        expect(page.locator("#banner")).to_contain_text("Perch does not answer")
        self.write(page, "t76 waits")
        self.sees(page, "t76 waits")
        self.change(page, " in the page")
        self.sees(page, "t76 waits in the page")
        self.shot(page, "changed-unsent")
        self.world.start()
        self.world.mend()
        wanted = ["t75 waits at the service", "t76 waits in the page"]
        self.world.until(lambda: self.world.texts(room)[1:] == wanted)
        expect(page.locator("#chat .message.pending")).to_have_count(0)
        expect(page.locator("#chat .own .text")).to_contain_text(wanted)

    def change(self, page, more):
        """Adds words to the newest message, which waits to be sent."""
        if self.by_keyboard:
            self.press(page, "#chat article:last-of-type [data-act=edit]")
        else:
            page.locator("#chat [data-act=edit]").last.click()
        page.keyboard.type(more)
        page.keyboard.press("Enter")

    def test_perch_is_killed_while_messages_are_sent(self):
        room = self.world.channel(("alice", "bob"))
        page = self.page_of(channel=room)
        self.addCleanup(lambda: self.world.service.process.poll() is None or self.world.start())
        for number in range(8):
            self.write(page, f"t{200 + number} in the storm")
            if number in (2, 5):
                self.world.service.kill()
                self.world.start()
        wanted = [f"t{200 + number} in the storm" for number in range(8)]
        self.world.until(lambda: sorted(self.world.texts(room)) == wanted)
        expect(page.locator("#chat .message.pending")).to_have_count(0)
        expect(page.locator("#chat .message")).to_have_count(8)
        self.assertEqual(sorted(page.locator("#chat .text").all_inner_texts()), wanted)

    def test_a_cache_that_is_cleared_and_a_clock_that_is_wrong_change_nothing(self):
        room = self.world.channel(("alice", "bob"), messages=5)
        page = self.page_of(channel=room, clock=3_600_000)
        self.sees(page, "t4 from bob")
        self.assertEqual(self.world.here("alice", "DELETE", f"/v1/channels/{room}/cache", scope="chat admin")[0] in (204, 409), True)
        self.assertEqual(self.world.here("alice", "DELETE", "/v1/cache?force=true", scope="chat admin")[0], 204)
        self.world.say(room, "t5 after it")
        self.sees(page, "t5 after it")
        self.write(page, "t6 own")
        self.world.until(lambda: "t6 own" in self.world.texts(room))
        expect(page.locator("#chat .text")).to_have_count(7)
        expect(page.locator("#chat .day")).to_have_text(["Today"])

    def test_the_channel_list_is_live(self):
        room = self.world.channel(("alice", "bob"), messages=1, name="Live room")
        page = self.page_of()
        row = page.locator(f"[data-url={room}]")
        expect(row.locator(".badge")).to_have_text("1")
        self.world.say(room, "t90 @alice", mention_type="users", mentioned_user_ids=["alice"], user="bob")
        expect(row.locator(".mention-count")).to_have_text("@1")
        expect(row.locator(".last")).to_contain_text("t90")
        expect(page.locator("#channels .channel").first).to_have_attribute("data-url", room)
        self.world.there("PUT", f"/v3/group_channels/{room}/freeze", {"freeze": True})
        expect(row.locator(".flag")).to_have_text("Frozen")
        self.shot(page, "list")
        self.press(page, f"[data-url={room}]")
        expect(page.locator("#chat .reason")).to_contain_text("frozen")
        self.sees(page, "t90")
        expect(page.locator("#chat .field")).to_be_disabled()
        self.shot(page, "frozen")
        expect(row.locator(".badge")).to_have_count(0)


    def test_a_long_list_is_paged_and_filtered(self):
        user = f"many-{self.world.count}"
        self.world.there("POST", "/v3/users", {"user_id": user, "nickname": "Many", "profile_url": ""})
        rooms = [self.world.channel((user, "bob"), name=f"Club {number:02}") for number in range(35)]
        self.world.say(rooms[7], "t1 to be read")
        self.world.there("POST", f"/v3/group_channels/{rooms[8]}/mute", {"user_id": user})
        page = self.page_of(user)
        rows = page.locator("#channels .channel")
        expect(rows).to_have_count(30)
        self.press(page, "#channels-end button")
        expect(rows).to_have_count(35)
        expect(page.locator("#channels-end button")).to_have_count(0)
        expect(page.locator(f"[data-url={rooms[8]}] .flag")).to_have_text("Muted")
        page.locator("#filters [name=name]").fill("Club 1")
        expect(rows).to_have_count(10)
        page.locator("#filters [name=name]").fill("")
        self.press(page, "#filters summary")
        self.press(page, "#filters [name=unread]", "Space")
        expect(rows).to_have_count(1)
        self.press(page, "#filters [name=unread]", "Space")
        page.locator("#filters [name=order]").select_option("channel_name_alphabetical")
        expect(rows.first).to_have_attribute("data-url", rooms[0])
        self.shot(page, "filters")
        # A hidden channel is not listed, and is again when somebody writes there.
        self.world.there("PUT", f"/v3/group_channels/{rooms[0]}/hide", {"user_id": user})
        expect(rows.first).to_have_attribute("data-url", rooms[1])
        self.world.say(rooms[0], "t2 come back")
        expect(rows.first).to_have_attribute("data-url", rooms[0])

    def test_a_gap_is_fetched_when_somebody_asks(self):
        room = self.world.channel(("alice", "bob"), messages=5)
        page = self.page_of(channel=room)
        self.sees(page, "t4 from bob")
        self.world.cut()
        expect(page.locator("#banner")).to_be_visible()
        status, _ = self.world.here("alice", "DELETE", f"/v1/channels/{room}/cache", scope="chat admin")
        self.assertEqual(status, 204)
        try:
            expect(page.locator("#chat .gap")).to_contain_text("removed since")
        except AssertionError as error:
            here = [self.world.here("alice", "GET", path) for path in (f"/v1/channels/{room}/gaps", "/v1/connection")]
            raise AssertionError(f"no gap is shown: {here}") from error
        # What was shown stays, as long as nobody can say otherwise.
        self.sees(page, "t0 from bob")
        self.shot(page, "gap")
        self.press(page, "#chat [data-act=fill]")
        expect(page.locator("#chat .filling")).to_contain_text("Fetching")
        self.press(page, "#chat [data-act=fill]")
        expect(page.locator("#chat .gap button")).to_have_text("Fetch them")
        self.press(page, "#chat [data-act=fill]")
        expect(page.locator("#chat .filling")).to_be_visible()
        self.world.mend()
        expect(page.locator("#banner")).to_be_hidden()
        expect(page.locator("#chat .gap")).to_have_count(0)
        expect(page.locator("#chat .text")).to_have_text([f"t{number} from bob" for number in range(5)])

    def test_each_request_can_be_copied_for_a_shell(self):
        room = self.world.channel(("alice", "bob"), messages=1)
        page = self.page_of(channel=room)
        self.write(page, "t1 it's copied")
        self.world.until(lambda: "t1 it's copied" in self.world.texts(room))
        self.context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.press(page, "#inspector-button")
        copy = f"[aria-label='Copy POST /v1/channels/{room}/messages as curl']"
        self.press(page, copy.replace("'", '"'))
        expect(page.locator("#notes .note")).to_contain_text("Copied")
        line = page.evaluate("navigator.clipboard.readText()")
        self.assertNotIn("eyJ", line)
        environment = {"T": bearer(self.world.secret, "alice"), "PATH": "/usr/bin:/bin"}
        said = subprocess.run(["sh", "-c", line], env=environment, capture_output=True, text=True).stdout
        # It names the same message, so it is the same send.
        self.assertIn(f'"channel_url":"{room}"', said)
        self.assertEqual(self.world.texts(room), ["t0 from bob", "t1 it's copied"])


class WideByPointer(Stories, PageTest):
    pass


class NarrowByKeyboard(Stories, PageTest):
    size, by_keyboard, scheme = NARROW, True, "dark"


# The other two pairs, which differ less, run where there is more time.
if os.environ.get("PERCH_PAGE_STORIES") == "all":
    class NarrowByPointer(Stories, PageTest):
        size = NARROW

    class WideByKeyboard(Stories, PageTest):
        by_keyboard, scheme = True, "dark"


def tearDownModule():
    world().end()


if __name__ == "__main__":
    unittest.main(verbosity=2)
