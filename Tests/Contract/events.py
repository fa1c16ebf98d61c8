"""Provokes every event type of the contract, in polls and in streams (B16 to B20, B49 to B52).

`service.py` compares each event that comes with the schema of its type, and notes its fields; coverage.py fails if a
type, or a field of a type, never came.
"""

import functools
import http.client
import json
import unittest

from service import Pair, note_frame, until

HOME = "home"


class Followed:
    """A poll that is repeated from cursor to cursor."""

    def __init__(self, pair, user, operation, params=None, query=None, since=None):
        self.pair, self.user, self.operation, self.params, self.query = pair, user, operation, params, query or {}
        self.seen = []
        self.cursor = since
        if since is None:
            self.poll()

    def poll(self):
        query = self.query | ({"since": self.cursor, "wait": 1} if self.cursor else {})
        answer = self.pair.ask(self.operation, self.user, self.params, query)
        assert answer.status == 200, answer
        self.cursor = answer.json["cursor"]
        self.seen += answer.json["events"]

    def until(self, kinds, holds=lambda event: True):
        """The first event of these types for which a condition holds, among those that no call returned before."""
        kinds = kinds.split()

        def found():
            while self.seen:
                event = self.seen.pop(0)
                if event["type"] in kinds and holds(event):
                    return event
            self.poll()
            return None
        return until(f"{self.operation}: {kinds}", found)


class Stream:
    """A stream of server-sent events: an iterator over its frames, which are dictionaries of their fields."""

    def __init__(self, pair, path, user, headers=None, seconds=3600):
        self.connection = http.client.HTTPConnection(pair.url.removeprefix("http://"), timeout=30)
        self.connection.request("GET", path, headers={
            "Accept": "text/event-stream", "Authorization": "Bearer " + pair.token(user, seconds=seconds)} | (headers or {}))
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200, self.answer.read()

    def __iter__(self):
        return self

    def __next__(self):
        frame = {}
        for line in self.answer:
            name, _, value = line.decode().rstrip("\n").partition(":")
            if name:
                frame[name] = value.removeprefix(" ")
            elif frame:
                note_frame(frame)
                return frame
        self.close()
        raise StopIteration

    def close(self):
        self.connection.close()


class Events(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pair = pair = Pair()
        for user in ("ana", "ben"):
            pair.origin("POST", "/v3/users", {"user_id": user, "nickname": user, "profile_url": ""})
        cls.channel(HOME)
        cls.number = 0
        for _ in range(12):
            cls.say()
        pair.connect("ana")

    @classmethod
    def tearDownClass(cls):
        cls.pair.stop()

    def tearDown(self):
        self.faults()

    # What happens upstream

    @classmethod
    def channel(cls, url, users=("ana", "ben")):
        cls.pair.origin("POST", "/v3/group_channels", {"channel_url": url, "user_ids": list(users), "name": url})

    @classmethod
    def say(cls, url=HOME, text="hello", user="ben", **fields):
        sent = cls.pair.origin("POST", f"/v3/group_channels/{url}/messages",
                               {"message_type": "MESG", "user_id": user, "message": text} | fields)
        return str(sent["message_id"])

    def faults(self, *faults):
        self.pair.origin("PUT", "/_faults", {"faults": list(faults)})

    # What ana does

    def ask(self, operation, params=None, body=None, status=200, **more):
        answer = self.pair.ask(operation, "ana", params, body=body, **more)
        self.assertEqual(answer.status, status, answer)
        return answer.json

    def send(self, status=202, **body):
        Events.number += 1
        name = f"own-{self.number}"
        self.ask("sendMessage", {"channel_url": HOME}, {"message": "mine", "request_id": name} | body, status)
        return name

    def view(self, url=HOME, **fields):
        """A view that has had its first answer, and its events."""
        body = {"channel_url": url, "previous_size": 5, "next_size": 5} | fields
        opened = self.ask("openMessageCollection", body=body, status=201, headers={"Prefer": "wait=10"})
        self.assertIn("api_result", opened)
        self.addCleanup(self.pair.ask, "disposeMessageCollection", "ana", {"collection_id": opened["id"]})
        return opened, Followed(
            self.pair, "ana", "pollMessageCollection", {"collection_id": opened["id"]}, since=opened["cursor"])

    def list(self, **query):
        opened = self.ask("openChannelCollection", body={"query": {"include_empty": True} | query}, status=201)
        self.addCleanup(self.pair.ask, "disposeChannelCollection", "ana", {"collection_id": opened["id"]})
        return opened, Followed(
            self.pair, "ana", "pollChannelCollection", {"collection_id": opened["id"]}, since=opened["cursor"])

    def feed(self):
        return Followed(self.pair, "ana", "pollEvents")

    def several(self, *opened):
        """Some views and the user's feed, with one cursor."""
        names = ",".join(view["id"] for view in opened)
        return Followed(self.pair, "ana", "pollEvents", query={"collections": names, "user_feed": "true"})

    # Messages of others

    def test_B18_messages_come_change_and_go(self):
        (opened, view), (listed, channels), feed = self.view(), self.list(), self.feed()
        both = self.several(opened, listed)
        name = self.say(text="first")
        added = view.until("messages.added")
        self.assertEqual((added["messages"][0]["message"], added["sending_status"]), ("first", "succeeded"))
        self.assertEqual(both.until("messages.added")["collection_id"], opened["id"])
        self.assertEqual(both.until("message.received")["messages"][0]["message_id"], name)
        self.assertEqual(feed.until("message.received")["channel_url"], HOME)
        self.assertEqual(channels.until("channels.updated")["channels"][0]["channel_url"], HOME)
        self.pair.origin("PUT", f"/v3/group_channels/{HOME}/messages/{name}", {"message_type": "MESG", "message": "second"})
        second = lambda event: event["messages"][0]["message"] == "second"
        # Two readers of one view: what the view remembers of the slower one's cursor may be gone, and then it says added.
        view.until("messages.updated messages.added", second)
        self.assertEqual(both.until("messages.updated messages.added", second)["collection_id"], opened["id"])
        feed.until("message.changed", second)
        self.pair.origin("DELETE", f"/v3/group_channels/{HOME}/messages/{name}")
        gone = lambda event: event["message_refs"][0]["message_id"] == name
        self.assertEqual(view.until("messages.deleted", gone)["sending_status"], "succeeded")
        self.assertEqual(both.until("messages.deleted", gone)["collection_id"], opened["id"])
        feed.until("message.deleted", gone)

    def test_B16_the_chat_servers_answer_confirms_the_window(self):
        opened = self.ask("openMessageCollection", body={"channel_url": HOME, "previous_size": 2}, status=201)
        both = self.several(opened)
        view = Followed(self.pair, "ana", "pollMessageCollection", {"collection_id": opened["id"]}, since=opened["cursor"])
        confirmed = view.until("api_result")
        self.assertEqual((confirmed["source"], confirmed["has_next"]), ("api_result", False))
        self.assertIn("tail", confirmed)
        both.cursor = opened["cursor"]
        self.assertEqual(both.until("api_result")["collection_id"], opened["id"])
        middle = opened["messages"][0]["position"]
        aside = self.view(starting_point=middle, previous_size=1, next_size=0)[0]
        self.assertNotIn("tail", aside["api_result"])

    def test_B16_the_chat_server_gives_no_answer(self):
        self.faults({"kind": "deny", "path": f"/v3/group_channels/{HOME}/messages", "method": "GET", "status": 403})
        view = self.ask("openMessageCollection", body={"channel_url": HOME}, status=201, headers={"Prefer": "wait=10"})
        self.assertEqual((view["api_result"]["type"], view["api_result"]["will_retry"]), ("api_failed", False))
        self.faults({"kind": "status", "path": f"/v3/group_channels/{HOME}/messages", "method": "GET", "status": 500})
        view = self.ask("openMessageCollection", body={"channel_url": HOME}, status=201)
        both = self.several(view)
        both.cursor = view["cursor"]
        failed = both.until("api_failed")
        self.assertEqual((failed["will_retry"], failed["collection_id"]), (True, view["id"]))
        self.faults()
        both.until("api_result")

    # Ana's own messages

    def test_B35_an_own_message_is_pending_and_sent(self):
        (opened, view), feed = self.view(), self.feed()
        both = self.several(opened)
        self.faults({"kind": "delay", "path": f"/v3/group_channels/{HOME}/messages", "method": "POST", "milliseconds": 3000})
        name = self.send()
        for followed in (view, both):
            added = followed.until("messages.added")
            self.assertEqual((added["source"], added["sending_status"]), ("local.pending_created", "pending"))
        sent = view.until("messages.updated", lambda event: event["sending_status"] == "succeeded")
        self.assertEqual((sent["source"], sent["messages"][0]["request_id"]), ("event.message_sent", name))
        # The counts are those at the moment of the answer.
        self.assertEqual(feed.until("outbox.changed", lambda e: not e["counts"]["pending"])["channel_url"], HOME)
        # Deleted by the chat server, it is named with its request id.
        self.pair.origin("DELETE", f"/v3/group_channels/{HOME}/messages/{sent['messages'][0]['message_id']}")
        gone = view.until("messages.deleted")
        self.assertEqual(gone["message_refs"][0]["request_id"], name)
        feed.until("message.deleted")

    def test_B40_an_own_message_fails_and_is_removed(self):
        (opened, view), feed = self.view(), self.feed()
        self.faults({"kind": "deny", "path": f"/v3/group_channels/{HOME}/messages", "method": "POST", "code": 900100})
        name = self.send()
        # If it fails before the view's first poll, the view never had the pending message.
        failed = view.until("messages.added messages.updated", lambda event: event["sending_status"] == "failed")
        self.assertEqual((failed["source"], failed["messages"][0]["request_id"]), ("local.failed", name))
        self.assertEqual(feed.until("outbox.changed", lambda e: e["counts"]["failed"])["counts"]["pending"], 0)
        self.ask("deleteMessage", {"channel_url": HOME, "message_ref": "request_id:" + name}, status=204)
        gone = view.until("messages.deleted")
        self.assertEqual((gone["sending_status"], gone["message_refs"]), ("failed", [{"request_id": name}]))

    def test_B43_an_own_message_is_taken_back(self):
        opened, view = self.view()
        self.faults({"kind": "status", "path": f"/v3/group_channels/{HOME}/messages", "method": "POST", "status": 429,
                     "retry_after": 60})
        name = self.send()
        view.until("messages.added")
        self.ask("deleteMessage", {"channel_url": HOME, "message_ref": "request_id:" + name}, status=202)
        view.until("messages.updated", lambda event: event["sending_status"] == "canceled")

    def test_B45_a_file_is_uploaded(self):
        (opened, view), feed = self.view(), self.feed()
        both = self.several(opened)
        parts = b"".join(
            b"--b\r\nContent-Disposition: form-data; name=\"" + name + b"\r\n\r\n" + value + b"\r\n"
            for name, value in ((b'params"', b'{"request_id":"file-1"}'), (b'file"; filename="f.bin"', b"x" * 500_000)))
        self.ask("sendMessage", {"channel_url": HOME}, parts + b"--b--\r\n", 202,
                 headers={"Content-Type": "multipart/form-data; boundary=b"})
        for followed, names in ((view, None), (feed, None), (both, opened["id"])):
            whole = followed.until("upload.progress", lambda event: event.get("collection_id") == names
                                   and event["progress"]["percent"] == 100)
            self.assertEqual(whole["progress"]["request_id"], "file-1")

    # The channel

    def test_B18_the_channel_changes(self):
        (opened, view), (listed, channels), feed = self.view(), self.list(), self.feed()
        both = self.several(opened, listed)
        self.pair.origin("PUT", f"/v3/group_channels/{HOME}", {"name": "another name"})
        changed = view.until("channel.updated", lambda event: "newest" not in event)
        self.assertEqual(changed["channels"][0]["name"], "another name")
        both.until("channel.updated", lambda event: event["collection_id"] == opened["id"])
        both.until("channels.updated", lambda event: event["collection_id"] == listed["id"])
        self.assertEqual(feed.until("channel.changed")["channels"][0]["name"], "another name")

    def test_B18_a_member_reads_on(self):
        def mark():
            self.pair.origin("PUT", f"/v3/group_channels/{HOME}/messages/mark_as_read", {"user_id": "ben"})

        def position():
            return self.ask("getChannel", {"channel_url": HOME})["read_receipts"].get("ben", 0)

        before = position()
        mark()
        # The first look at the channel may find more than that ben has read.
        until("ben has read", lambda: position() > before)
        (opened, view), feed = self.view(), self.feed()
        both = self.several(opened)
        mark()
        for followed, name in ((view, None), (feed, None), (both, opened["id"])):
            read = followed.until("channel.read", lambda event: event.get("collection_id") == name)
            self.assertEqual((read["channel_url"], read["user_id"], read["source"]), (HOME, "ben", "event.read"))
            self.assertNotIn("channels", read)
        self.assertEqual(position(), read["read_at"])

    def test_B18_a_message_outside_the_view_is_told_as_the_newest(self):
        page = self.ask("listMessages", {"channel_url": HOME})["items"]
        opened, view = self.view(starting_point=page[2]["position"], previous_size=1, next_size=1)
        self.assertTrue(opened["has_next"])
        name = self.say()
        newest = view.until("channel.updated", lambda event: "newest" in event)["newest"]
        self.assertEqual(newest["message_id"], name)

    def test_B10_channels_come_and_go(self):
        (listed, channels), feed = self.list(), self.feed()
        several = self.several(listed)
        self.channel("passing")
        self.assertEqual(channels.until("channels.added")["channels"][0]["channel_url"], "passing")
        self.assertEqual(several.until("channels.added")["collection_id"], listed["id"])
        self.assertEqual(feed.until("channel.joined")["channel_url"], "passing")
        self.say("passing")
        opened, view = self.view("passing")
        both = self.several(listed, opened)
        self.pair.origin("PUT", "/v3/group_channels/passing/leave", {"user_ids": ["ana"]})
        self.assertEqual(view.until("channel.deleted")["channel_urls"], ["passing"])
        self.assertEqual(both.until("channel.deleted")["collection_id"], opened["id"])
        self.assertEqual(channels.until("channels.deleted")["channel_urls"], ["passing"])
        both.cursor = several.cursor
        self.assertEqual(both.until("channels.deleted")["collection_id"], listed["id"])
        self.assertEqual(feed.until("channel.left")["channel_url"], "passing")

    # The cache

    def test_B58_a_channels_cache_is_cleared(self):
        self.channel("cleared")
        self.say("cleared")
        until("it is listed", lambda: self.pair.ask("getChannel", "ana", {"channel_url": "cleared"}).status == 200)
        (listed, channels), (opened, view), feed = self.list(), self.view("cleared"), self.feed()
        both = self.several(listed, opened)
        self.ask("clearChannelCache", {"channel_url": "cleared"}, status=204, scope="chat admin")
        self.assertEqual(channels.until("cache.cleared")["channel_urls"], ["cleared"])
        self.assertEqual(feed.until("cache.cleared")["channel_url"], "cleared")
        both.until("cache.cleared", lambda event: "collection_id" in event)
        view.until("messages.replaced", lambda event: event["source"] == "channel_refresh")

    def test_B26_a_gap_is_filled(self):
        """Of a long channel only the newest messages are fetched by themselves."""
        ask = functools.partial(self.pair.ask, user="alice")
        self.pair.connect("alice")
        until("nothing more is fetched", lambda: ask("getConnection").json["sync"]["phase"] == "steady")
        gap = ask("listGaps", params={"channel_url": "big"}).json["items"][0]
        opened = ask("openMessageCollection", body={"channel_url": "big", "starting_point": gap["to"]}).json
        view = Followed(self.pair, "alice", "pollMessageCollection", {"collection_id": opened["id"]}, since=opened["cursor"])
        both = Followed(self.pair, "alice", "pollEvents", query={"collections": opened["id"], "user_feed": "true"},
                        since=opened["cursor"])
        moved = view.until("gap.changed")["gap"]
        self.assertLess(moved["to"], gap["to"])
        both.until("gap.changed", lambda event: event.get("collection_id") == opened["id"])
        self.assertEqual(ask("fillGap", params={"channel_url": "big", "gap_id": moved["id"]}).status, 202)
        both.until("gap.changed", lambda event: event.get("channel_url") == "big" and event["gap"]["state"] == "closed")

    def test_B28_too_many_messages_are_missing(self):
        self.channel("busy")
        self.say("busy")
        # A view of a channel whose first message is not cached yet would begin at the channel's very end.
        until("it is cached", lambda: self.pair.ask("listMessages", "ana", {"channel_url": "busy"}).json.get("complete"))
        opened, view = self.view("busy")
        both, feed = self.several(opened), self.feed()
        silence = {"kind": "drop_webhook"}
        self.faults(silence, {"kind": "status", "path": "/v3/group_channels/busy/*", "method": "GET", "status": 500})
        for n in range(320):
            self.say("busy", f"{n}")
        self.faults(silence)
        huge = view.until("huge_gap.detected")
        self.assertGreater(huge["gap"]["estimated_missing"], 300)
        self.assertTrue(huge["has_next"])
        both.until("huge_gap.detected", lambda event: event.get("collection_id") == opened["id"])
        self.assertEqual(feed.until("huge_gap.detected")["channel_url"], "busy")

    def test_B22_a_window_grows_too_large(self):
        self.pair.connect("alice")
        view = self.pair.ask("openMessageCollection", "alice", body={"channel_url": "big", "previous_size": 200},
                             headers={"Prefer": "wait=10"}).json
        followed = Followed(self.pair, "alice", "pollMessageCollection", {"collection_id": view["id"]}, since=view["cursor"])
        edge, count = view["previous"], len(view["messages"])
        while edge and count <= 2000:
            page = self.pair.ask("loadPreviousMessages", "alice", {"collection_id": view["id"]}, 
                                 body={"before": edge, "limit": 200}).json
            edge, count = page["previous"], count + len(page["items"])
        trimmed = followed.until("messages.deleted", lambda event: event["source"] == "local.window_trimmed")
        self.assertTrue(trimmed["has_next"])

    # The user

    def test_B3_the_link_and_the_first_sync(self):
        feed = Followed(self.pair, "dave", "pollEvents")
        self.assertIn("channels_total", feed.until("sync.progress")["progress"])
        view = self.pair.ask("openMessageCollection", "ana", body={"channel_url": HOME}, headers={"Prefer": "wait=10"}).json
        shown = Followed(self.pair, "ana", "pollMessageCollection", {"collection_id": view["id"]}, since=view["cursor"])
        channels = self.pair.ask("openChannelCollection", "ana", body={}).json
        both = Followed(self.pair, "ana", "pollEvents", since=view["cursor"], query={
            "collections": f'{channels["id"]},{view["id"]}'})
        self.faults({"kind": "refuse", "path": "/v3/*"})
        lost = feed.until("connection.changed", lambda event: "link" in event["connection"])
        self.assertEqual(lost["connection"]["link"], "upstream_unreachable")
        shown.until("connection.changed", lambda event: event["connection"]["state"] == "offline")
        shown.until("tail.changed", lambda event: event["tail"]["state"] == "offline")
        self.assertEqual(both.until("connection.changed")["collection_id"], channels["id"])
        self.assertEqual(both.until("tail.changed")["collection_id"], view["id"])
        self.faults()
        feed.until("connection.changed", lambda event: event["connection"].get("link") == "online")
        shown.until("connection.changed", lambda event: event["connection"]["state"] == "online")
        shown.until("tail.changed", lambda event: event["tail"]["state"] == "live")
        self.assertEqual(self.pair.ask("disconnect", "dave").status, 204)
        self.assertNotIn("link", feed.until("connection.changed")["connection"])

    # Streams

    def test_B51_a_stream_begins_tells_and_goes_on(self):
        cursor = self.pair.ask("pollEvents", "ana").json["cursor"]
        stream = Stream(self.pair, "/v1/events?since=" + cursor, "ana")
        self.addCleanup(stream.close)
        self.assertEqual((next(stream), next(stream)), ({"retry": "2000"}, {"id": cursor}))
        name = self.say()
        told = until("the message", lambda: (lambda frame: frame if name in frame["data"] else None)(next(stream)))
        last = told.get("id") or next(frame["id"] for frame in stream if "id" in frame)
        again = Stream(self.pair, "/v1/events", "ana", {"Last-Event-ID": last})
        self.addCleanup(again.close)
        self.assertEqual((next(again), next(again)), ({"retry": "2000"}, {"id": last}))

    def test_B51_B52_a_stream_says_why_it_ends(self):
        stream = Stream(self.pair, "/v1/events?since=0123456789abcdef.1.1", "ana")
        retry, reset = stream
        self.assertEqual((retry, json.loads(reset["data"])), ({"retry": "2000"}, {"code": "cursor_expired"}))
        self.assertEqual((reset["event"], list(reset)), ("reset", ["id", "event", "data"]))

        opened, view = self.view()
        stream = Stream(self.pair, f"/v1/message-collections/{opened['id']}/events", "ana")
        next(stream)
        self.assertEqual(self.pair.ask("disposeMessageCollection", "ana", {"collection_id": opened["id"]}).status, 204)
        self.assertEqual(list(stream)[-1], {"event": "gone", "data": '{"code":"collection_not_found"}'})

        stream = Stream(self.pair, "/v1/events", "ana", seconds=2)
        frames = list(stream)
        self.assertEqual(frames[-1], {"event": "unauthorized", "data": '{"code":"unauthorized"}'})


if __name__ == "__main__":
    unittest.main(verbosity=0)
