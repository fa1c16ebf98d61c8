"""Provokes every status and every problem code that the contract declares, against the real service.

Each test asks all operations that declare something; what came back is noted, and coverage.py compares the notes with
the contract: what is declared and never came, or came and is not declared, fails.
"""

import gzip
import hashlib
import hmac
import json
import signal
import socket
import sqlite3
import threading
import unittest

from places import PLACES, Names, operations
from service import Demo, Pair, note, until

FRIENDS = "friends"
INVITED = "not-joined-yet"
# In and out: whoever had views of it lost it; one was invited again.
LOST, INVITED_AGAIN = "lost-channel", "lost-and-invited"
FROZEN = "frozen-channel"
# They are refused only while the user's changes are not known.
LISTS = {"listChannels", "openChannelCollection", "getChannelCollection", "loadMoreChannels"}


# The service keeps the counts of what is unsent with each step of its own. It may write between two statements that are
# no transaction.
RECOUNT = """
BEGIN IMMEDIATE;
DELETE FROM unsent_count;
INSERT INTO unsent_count (user, pending, failed, canceled)
SELECT user, sum(state NOT IN ('failed', 'canceled')), sum(state = 'failed'), sum(state = 'canceled')
FROM outbox
GROUP BY user;
COMMIT;
"""


def unsent_row(pair, user, url, name, kind="message", state="failed", code="900100"):
    """Puts a row into a user's outbox, as sending would have left it, and has the service see it."""
    params = json.dumps({"type": "user", "message": "unsent"})
    body = (f'"message_id":"","request_id":"{name}","channel_url":"{url}","type":"user","message":"unsent",'
            f'"sender":{{"user_id":"{user}"}},"created_at":1,"updated_at":0')
    far = 1 << 52
    with sqlite3.connect(pair.data + "/perch.db", timeout=10) as database:
        database.execute(
            "INSERT INTO request (user, request_id, channel_url, content_hash)"
            " SELECT id, ?, ?, x'00' FROM user WHERE user_id = ?", (name, url, user))
        database.execute(
            "INSERT INTO outbox (user, channel_url, request_id, kind, state, place, params, body, accepted_at,"
            " expires_at, next_try_at, error_code) SELECT id, ?, ?, ?, ?, coalesce((SELECT max(place) + 1 FROM outbox),"
            " 1), ?, ?, 1, ?, ?, ? FROM user WHERE user_id = ?",
            (url, name, kind, state, params.encode(), body.encode(), far, far, code, user))
        database.execute("UPDATE request SET row = (SELECT max(id) FROM outbox) WHERE request_id = ?", (name,))
        database.executescript(RECOUNT)
    database.close()
    see(pair, user)
    return name


def form(**parts):
    """A multipart form, and the headers that say so. A part that is bytes is a file."""
    body = b""
    for name, value in parts.items():
        is_file = isinstance(value, bytes)
        body += f'--b\r\nContent-Disposition: form-data; name="{name}"'.encode()
        body += (b'; filename="f.bin"' if is_file else b"") + b"\r\n\r\n" + (value if is_file else value.encode()) + b"\r\n"
    return {"body": body + b"--b--\r\n", "headers": {"Content-Type": "multipart/form-data; boundary=b"}}


def lost_file(pair, user, name):
    """The row has a file whose bytes are gone."""
    with sqlite3.connect(pair.data + "/perch.db", timeout=10) as database:
        database.execute(
            "INSERT INTO upload (row, file, hash, size, name, mime) SELECT id, ?, x'00', 1, 'f.bin', 'a/b' FROM outbox"
            " WHERE request_id = ?", ("0" * 32, name))
    database.close()
    see(pair, user)
    return name


def see(pair, user):
    """Readers see what others wrote with the service's own next commit."""
    opened = pair.ask("openChannelCollection", user, body={})
    assert opened.status == 201, opened
    assert pair.ask("disposeChannelCollection", user, {"collection_id": opened.json["id"]}).status == 204


def change(pair, sql, *values):
    with sqlite3.connect(pair.data + "/perch.db", timeout=10) as database:
        database.execute(sql, values)
        database.executescript(RECOUNT)
    database.close()


class Provocations(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pair = pair = Pair("--max-parked-per-user", "1")
        for user in ("ana", "ben", "many"):
            pair.origin("POST", "/v3/users", {"user_id": user, "nickname": user, "profile_url": ""})
        for url, users in [(FRIENDS, ["ana", "ben"]), (INVITED, ["ben"]), (LOST, ["ana", "ben"]),
                           (FROZEN, ["ana", "ben"]), (INVITED_AGAIN, ["ana", "ben"]), ("anas-own", ["ana"]), ("with-many", ["many", "ben"])]:
            pair.origin("POST", "/v3/group_channels", {"channel_url": url, "user_ids": users, "name": url})
            for n in range(3):
                cls.message = pair.origin("POST", f"/v3/group_channels/{url}/messages",
                                          {"message_type": "MESG", "user_id": users[-1], "message": f"{n}"})
        pair.origin("PUT", f"/v3/group_channels/{FROZEN}/freeze", {"freeze": True})
        cls.invite(INVITED)
        cls.unsent = 0
        for user in ("ana", "ben", "many"):
            pair.connect(user)
        cls.names = cls.fresh(FRIENDS)
        cls.lost = {url: cls.fresh(url) for url in (LOST, INVITED_AGAIN)}
        for url in cls.lost:
            pair.origin("PUT", f"/v3/group_channels/{url}/leave", {"user_ids": ["ana"]})
            until("ana has lost it", lambda: cls.status("getChannel", {"channel_url": url}) == 404)
        cls.invite(INVITED_AGAIN)
        until("ana is invited again", lambda: cls.status("getChannel", {"channel_url": INVITED_AGAIN}) == 200)

    @classmethod
    def tearDownClass(cls):
        cls.pair.stop()

    @classmethod
    def invite(cls, url):
        cls.pair.origin("POST", f"/v3/group_channels/{url}/invite", {
            "user_ids": ["ana"], "inviter_id": "ben", "invitation_status": {"ana": "invited_by_friend"}})

    @classmethod
    def write(cls):
        """A message of ana's that nobody has changed or deleted yet."""
        return str(cls.pair.origin("POST", f"/v3/group_channels/{FRIENDS}/messages",
                                   {"message_type": "MESG", "user_id": "ana", "message": "hers"})["message_id"])

    # Views that `fresh` opened, by who has them and the operation that disposes of them.
    opened = []

    def setUp(self):
        self.names = self.names.but(own=self.write())
        self.opened.clear()

    def tearDown(self):
        for user, operation, view in self.opened:
            self.pair.ask(operation, user, {"collection_id": view})

    @classmethod
    def status(cls, operation, params):
        return cls.pair.ask(operation, "ana", params).status

    @classmethod
    def fresh(cls, url, user="ana"):
        """Names of what is there, with views of its own."""
        ask = cls.pair.ask
        page = until("the messages are here", lambda: (lambda a: a if a.json.get("items") else None)(
            ask("listMessages", user, {"channel_url": url})))
        view = ask("openMessageCollection", user, body={"channel_url": url, "previous_size": 1})
        assert view.status == 201, view
        shown = ask("openChannelCollection", user, body={"query": {"limit": 1, "include_empty": True}})
        assert shown.status == 201, shown
        cls.opened += [(user, "disposeMessageCollection", view.json["id"]), (user, "disposeChannelCollection", shown.json["id"])]
        edge = view.json["previous"] or f'{view.json["messages"][0]["position"]}.{view.json["id"]}'
        return Names(
            own=cls.write(), channel=url, message=page.json["items"][0]["message_id"], list=shown.json["id"], view=view.json["id"],
            more=shown.json["next"], position=page.json["items"][0]["position"],
            previous=edge, next=view.json["next"] or edge, cursor=view.json["cursor"])

    @classmethod
    def row(cls, url=FRIENDS, user="ana", **fields):
        """The name of a row in a user's outbox, a failed message where nothing else is said."""
        cls.unsent += 1
        return unsent_row(cls.pair, user, url, f"row-{cls.unsent}", **fields)

    def ask(self, operation, names=None, user="ana", **more):
        place = PLACES[operation](names or self.names)
        if "query" in more:
            more["query"] = place.get("query", {}) | more["query"]
        return self.pair.ask(operation, user, **(place | more))

    def expect(self, operation, status, code, *arguments, **more):
        with self.subTest(operation=operation, code=code):
            answer = self.ask(operation, *arguments, **more)
            self.assertEqual((answer.status, answer.code), (status, code), answer)
            if code == "invalid_request":
                self.assertTrue(answer.json["errors"])
            if code == "cursor_expired":
                self.assertTrue(answer.json["read_again"])
                if len(answer.json["read_again"]) == 1:
                    self.assertIn('rel="start"', answer.headers["Link"])

    # What is well asked

    def test_everything_is_answered_well(self):
        for operation in operations():
            if not operation.has_caller or operation.id in ("fillGap", "stopGapFill", "getMessageFile"):
                continue
            with self.subTest(operation=operation.id):
                names = self.names
                if operation.id.startswith(("dispose", "reset")):
                    names = self.fresh(FRIENDS)
                if "Unsent" in operation.id or operation.id == "resendMessage":
                    names = names.but(request=self.row())
                if operation.id == "clearChannelCache":
                    names = names.but(channel="anas-own")
                if operation.id == "clearCache":
                    continue
                answer = self.ask(operation.id, names.but(edge=None) if operation.id == "listChannels" else names)
                self.assertIn(answer.status, operation.statuses)
                self.assertLess(answer.status, 300, answer)
                # Reads may be kept and asked about again; what is told once is not.
                if answer.body:
                    kept = "no-cache" if "vary" in operation.headers.get(200, ()) else "no-store"
                    wanted = "no-store" if answer.status in (201, 202) else kept
                    if operation.id in ("getUnsent", "removeUnsent"):
                        self.assertEqual(answer.json["request_id"], names.request)
                    self.assertEqual(answer.headers["Cache-Control"], wanted)
                if operation.id == "disconnect":
                    self.ask("connect")

    def test_gaps_are_filled_and_left(self):
        """Of a long channel only the newest messages are fetched by themselves."""
        self.pair.connect("alice")
        until("nothing more is fetched", lambda: self.pair.ask(
            "getConnection", "alice").json["sync"]["phase"] == "steady")
        gaps = self.pair.ask("listGaps", "alice", {"channel_url": "big"}).json["items"]
        names = Names(channel="big", gap=gaps[0]["id"])
        self.assertEqual(self.ask("stopGapFill", names, "alice").status, 204)
        self.assertEqual(self.ask("fillGap", names, "alice").status, 202)

    def test_a_page_whose_edge_cannot_be_had_now(self):
        self.pair.connect("alice")
        page = until("its newest messages are here", lambda: (lambda a: a if a.json.get("items") else None)(
            self.pair.ask("listMessages", "alice", {"channel_url": "big"})))
        fault = {"kind": "deny", "code": 400108, "path": "/v3/group_channels/big/messages"}
        self.pair.origin("PUT", "/_faults", {"faults": [fault]})
        try:
            while page.json["previous"]:
                page = self.pair.ask(
                    "listMessages", "alice", {"channel_url": "big"}, {"before": page.json["previous"], "limit": "200"})
        finally:
            self.pair.origin("PUT", "/_faults", {})
        self.assertTrue(page.json["has_previous"])
        self.assertGreaterEqual(int(page.headers["Retry-After"]), 1)

    def test_a_view_whose_edge_cannot_be_had_now(self):
        self.pair.connect("alice")
        view = self.pair.ask("openMessageCollection", "alice", headers={"Prefer": "wait=10"}, body={
            "channel_url": "big", "starting_point": "latest", "previous_size": 50}).json
        middle = self.pair.ask("openMessageCollection", "alice", headers={"Prefer": "wait=10"}, body={
            "channel_url": "big", "starting_point": view["messages"][0]["created_at"] - 200_000_000,
            "previous_size": 10, "next_size": 10}).json
        self.pair.origin("PUT", "/_faults", {"faults": [
            {"kind": "deny", "code": 400108, "path": "/v3/group_channels/big/messages"}]})
        try:
            for operation, opened, edge, field in (("loadPreviousMessages", view, "previous", "before"),
                                                   ("loadNextMessages", middle, "next", "after")):
                with self.subTest(operation=operation):
                    token = opened[edge]
                    while token:
                        page = self.pair.ask(operation, "alice", {"collection_id": opened["id"]}, body={
                            field: token, "limit": 200})
                        token = page.json[edge]
                    self.assertTrue(page.json["has_" + edge])
                    self.assertTrue(page.json["gaps"])
                    self.assertFalse(page.json["complete"])
                    self.assertGreaterEqual(int(page.headers["Retry-After"]), 1)
        finally:
            self.pair.origin("PUT", "/_faults", {})

    def test_the_operators_pages(self):
        for operation in operations():
            if operation.has_caller or operation.id in ("receiveSendbirdWebhook", "getDemo", "getDemoFile", "setDemoUpstream"):
                continue
            with self.subTest(operation=operation.id):
                self.assertEqual(self.ask(operation.id, user=None).status, 200)
        self.expect("getProblem", 404, "problem_not_found", Names(code="no_such_code"), None)

    def test_files_come_compressed_to_who_takes_it(self):
        sizes = {}
        for operation in operations():
            if operation.has_caller or "VaryEncoding" not in json.dumps(operation.document):
                continue
            with self.subTest(operation=operation.id):
                def ask(accepted):
                    return self.ask(operation.id, user=None, headers={"Accept-Encoding": accepted} if accepted else {})
                plain, compressed = ask(None), ask("br;q=1, GZIP ; q=0.5")
                self.assertEqual(compressed.headers["Content-Encoding"], "gzip")
                self.assertEqual(gzip.decompress(compressed.body), plain.body)
                self.assertNotEqual(compressed.headers["ETag"], plain.headers["ETag"])
                for refused in ("gzip;q=0", "gzip; q=0.000", "br", "identity"):
                    self.assertEqual((ask(refused).body, ask(refused).headers["Content-Encoding"]), (plain.body, None))
                sizes[operation.path] = len(compressed.body)
        self.assertEqual(len(sizes), 10)
        page = [sizes[path] for path in ("/", "/page.css", "/page.js", "/icon.svg", "/client.js")]
        self.assertLess(sum(page), 100_000, "the chat page")

    def test_conditional_reads(self):
        for operation in operations():
            if 304 in operation.statuses:
                with self.subTest(operation=operation.id):
                    # What `setUp` wrote may come between the two: then the tag is another one.
                    def is_known():
                        tag = self.ask(operation.id).headers["ETag"]
                        again = self.ask(operation.id, headers={"If-None-Match": tag})
                        return (again.status, again.body) == (304, b"")
                    until("the tag is known", is_known)

    def test_preferences_are_heeded_and_pages_linked(self):
        for operation in operations():
            names = [parameter.get("$ref", "").split("/")[-1] for parameter in operation.document.get("parameters", [])]
            if "Prefer" in names:
                with self.subTest(operation=operation.id):
                    view = self.fresh(FRIENDS)
                    if operation.id == "listChannels":
                        view = view.but(edge=None)
                    if operation.id == "resendMessage":
                        view = view.but(request=self.row())
                    answer = self.ask(operation.id, view, headers={"Prefer": "wait=1"})
                    self.assertEqual(answer.headers["Preference-Applied"], "wait=1")
                    if 304 in operation.statuses:
                        # What `fresh` wrote may come between the two: then the tag is another one.
                        def is_known():
                            tag = self.ask(operation.id, view, headers={"Prefer": "wait=1"}).headers["ETag"]
                            headers = {"Prefer": "wait=1", "If-None-Match": tag}
                            return self.ask(operation.id, view, headers=headers).status == 304
                        until("the tag is known", is_known)
        for user in ("ana", "ana", "ben"):
            self.row(user=user)
        for operation in ("listChannels", "listMembers", "listUsers", "listUnsent", "listAllUnsent"):
            with self.subTest(operation=operation):
                answer = self.ask(operation, self.names.but(edge=None), query={"limit": "1"})
                self.assertIn('rel="next"', answer.headers["Link"])
                # The reference is of the query alone, with what it was asked with.
                self.assertIn("limit=1", answer.headers["Link"])

    def test_webhooks(self):
        def deliver(body, key=b"origin"):
            code = hmac.new(key, body, hashlib.sha256).hexdigest()
            return self.pair.ask("receiveSendbirdWebhook", body=body, headers={"x-sendbird-signature": code})

        self.assertEqual(deliver(b'{"category":"group_channel:message_send"}').status, 200)
        self.assertEqual(deliver(b'{"category":"open_channel:enter"}').status, 200)
        for body in (b"{", b"[]", b'["category"]', b'"group_channel:message_send"', b"7", b"null"):
            answer = deliver(body)
            self.assertEqual((answer.status, answer.code), (400, "unreadable_body"), body)
            self.assertIn("`category`", answer.json["detail"])
        for body in (b"{}", b'{"category":7}'):
            answer = deliver(body)
            self.assertEqual((answer.status, answer.code), (400, "invalid_request"), body)
            self.assertEqual([error["field"] for error in answer.json["errors"]], ["category"])
        self.assertEqual(deliver(b"{}", b"another").code, "bad_signature")

    def test_the_demo_has_its_own_three(self):
        for operation in ("getDemo", "setDemoUpstream", "getDemoFile"):
            self.expect(operation, 404, "no_demo", user=None)
        demo = Demo()
        try:
            self.assertEqual(demo.ask("getDemo").status, 200)
            self.assertEqual(demo.ask("setDemoUpstream", body={"up": True}).status, 200)
            self.assertEqual(demo.ask("setDemoUpstream", body={"up": 1}).code, "invalid_request")
            self.assertEqual(demo.ask("setDemoUpstream", body=b"{").code, "malformed_json")
            self.assertEqual(demo.ask("getDemoFile", params={"name": "1"}).status, 200)
            self.assertEqual(demo.ask("getDemoFile", params={"name": "0"}).code, "file_not_found")
            demo.ask("setDemoUpstream", body={"up": False})
            self.assertEqual(demo.ask("getDemoFile", params={"name": "1"}).code, "upstream_unreachable")
            demo.ask("setDemoUpstream", body={"up": True})
            for operation, body in [("getDemo", None), ("getDemoFile", None), ("setDemoUpstream", {"up": True})]:
                for headers, code in [({"Host": "evil.example"}, "host_not_allowed"),
                                      ({"Origin": "http://evil.example"}, "origin_not_allowed")]:
                    answer = demo.ask(operation, params={"name": "1"}, body=body, headers=headers)
                    self.assertEqual((answer.status, answer.code), (403, code))
        finally:
            demo.stop()

    # What is not

    def test_what_is_checked_first(self):
        """The order of openapi.yaml: the form, the token, its scope, what is there for the user, then values."""
        def code(user, channel, scope=None, **query):
            return self.pair.ask("listMessages", user, {"channel_url": channel}, query, scope=scope).code

        clash = {"before": 1, "after": 1}
        self.assertEqual(code(None, "no-such-channel", limit=0, **clash), "invalid_request")
        self.assertEqual(code(None, "no-such-channel", **clash), "unauthorized")
        self.assertEqual(code("ana", "no-such-channel", "", **clash), "insufficient_scope")
        self.assertEqual(code("ana", "no-such-channel", **clash), "channel_not_found")
        self.assertEqual(code("ana", INVITED, **clash), "not_joined")
        self.assertEqual(code("ana", FRIENDS, **clash), "invalid_request")

    def test_every_path_has_HEAD_where_it_has_GET_and_OPTIONS_and_refuses_the_rest(self):
        methods = {}
        for operation in operations():
            methods.setdefault(operation.path, set()).add(operation.method)
        for path, known in methods.items():
            with self.subTest(path=path):
                target = path.format(channel_url=FRIENDS, message_ref="1", gap_id="1", collection_id="x", code="busy", name="1",
                                     key="k", request_id="r")
                answer = self.pair.send("OPTIONS", target, {})
                allowed = known | {"OPTIONS"} | ({"HEAD"} if "GET" in known else set())
                self.assertEqual(answer.status, 204)
                self.assertEqual(set(answer.headers["Allow"].split(", ")), allowed)
                for method in {"GET", "POST", "PUT", "PATCH", "DELETE"} - known:
                    refused = self.pair.send(method, target, {})
                    self.assertEqual((refused.status, refused.code), (405, "method_not_allowed"))
                    self.assertEqual(set(refused.headers["Allow"].split(", ")), allowed)

    def test_HEAD_is_GET_without_its_body(self):
        token = {"Authorization": "Bearer " + self.pair.token("ana")}
        for path in ("/healthz", "/openapi.json", "/v1/channels", f"/v1/channels/{FRIENDS}", "/v1/channels/none",
                     f"/v1/channels/{FRIENDS}/messages"):
            with self.subTest(path=path):
                def ask(method):
                    answer = self.pair.send(method, path, token)
                    names = ("Content-Type", "Content-Length", "ETag", "Cache-Status", "Cache-Control")
                    return answer.status, {name: answer.headers[name] for name in names}, answer.body

                # What an earlier test wrote may come between the three: then they are asked again.
                def is_quiet():
                    self.answers = [ask(method) for method in ("GET", "HEAD", "GET")]
                    return self.answers[0][:2] == self.answers[2][:2]
                until("nothing is written", is_quiet)
                get, head = self.answers[:2]
                self.assertEqual(head, (*get[:2], b""))

    def test_requests_at_fault(self):
        for operation in operations():
            if operation.has_caller:
                self.expect(operation.id, 400, "invalid_request", query={"no_such_parameter": "1"})
                self.expect(operation.id, 400, "user_header_refused", headers={"Perch-User": "ana"})

    def test_callers_who_may_not(self):
        for operation in operations():
            if not operation.has_caller:
                continue
            self.expect(operation.id, 401, "unauthorized", user=None)
            other = "chat" if operation.scope == "admin" else ""
            self.expect(operation.id, 403, "insufficient_scope", scope=other)
            if operation.declares(403, "user_unknown"):
                self.expect(operation.id, 403, "user_unknown", user="nobody-upstream", scope="chat admin")

    def test_what_there_is_not(self):
        nothing = Names()
        for operation in operations():
            for status, code in operation.problems:
                if status != 404 or not operation.has_caller:
                    continue
                more = {}
                if code == "channel_not_found" and operation.declares(404, "collection_not_found"):
                    names = self.lost[LOST]
                    if operation.id.startswith("poll"):
                        # The loss itself is an event. Whoever was told of it is refused.
                        latest = self.pair.ask("pollEvents", "ana").json["cursor"]
                        more["query"] = {"since": latest}
                        if operation.id == "pollEvents":
                            more["query"] |= {"collections": names.view, "user_feed": "false"}
                elif code == "channel_not_found" and operation.id == "resendUnsent":
                    names = nothing.but(request=self.row("no-such-channel"))
                elif code in ("channel_not_found", "collection_not_found"):
                    names = nothing
                elif code == "file_not_found":
                    names = self.names
                else:
                    names = self.names.but(message="999999999999", own="999999999999", gap="999999")
                self.expect(operation.id, status, code, names, **more)

    def test_B69_who_was_invited_again_has_not_joined(self):
        for operation in operations():
            if operation.declares(403, "not_joined"):
                names = self.lost[INVITED_AGAIN] if operation.declares(404, "collection_not_found") else \
                    self.names.but(channel=INVITED)
                if operation.id == "resendUnsent":
                    names = names.but(request=self.row(INVITED))
                self.expect(operation.id, 403, "not_joined", names)

    # Sending

    def test_B37_the_same_again(self):
        """A repeated request says that it is one; another request of the same name is refused."""
        for operation in operations():
            declared = {status: names for status, names in operation.headers.items()
                        if "idempotency-replayed" in names and status < 300}
            if not declared:
                continue
            with self.subTest(operation=operation.id):
                headers = {"Idempotency-Key": f"twice-{operation.id}", "Prefer": "wait=5"}
                first = self.ask(operation.id, headers=headers)
                self.assertIn(first.status, declared)
                again = self.ask(operation.id, headers=headers)
                # A deletion that was done meanwhile is a 204.
                self.assertIn(again.status, declared)
                self.assertEqual(again.headers["Idempotency-Replayed"], "true")
        self.ask("sendMessage", headers={"Idempotency-Key": "once"})
        for operation in operations():
            if operation.declares(422, "idempotency_mismatch"):
                more = {"body": {"message": "another"}} if operation.id == "sendMessage" else {}
                self.expect(operation.id, 422, "idempotency_mismatch", headers={"Idempotency-Key": "once"}, **more)

    def test_B65_a_message_that_the_upstream_does_not_tell_of_is_not_called_unknown(self):
        """Only the chat server knows that there is no such message: while it gives no usable answer it is a 503."""
        unknown = "123456789012345"
        fault = {"kind": "status", "status": 500, "path": f"/v3/group_channels/*/messages/{unknown}"}
        self.pair.origin("PUT", "/_faults", {"faults": [fault]})
        for operation in operations():
            if operation.declares(503, "upstream_failed") and operation.declares(404, "message_not_found"):
                # Answers like these make the chat server count as unreachable, until it answers another request.
                until("it is online", lambda: self.pair.ask("getReadiness").json["upstream"] == "online")
                self.expect(operation.id, 503, "upstream_failed", self.names.but(message=unknown, own=unknown))
        self.pair.origin("PUT", "/_faults", {"faults": []})
        self.expect("getMessage", 504, "not_cached", self.names.but(message=unknown),
                    headers={"Cache-Control": "only-if-cached"})

    def test_B36_a_send_is_held_until_it_is_sent(self):
        for operation, names in [("sendMessage", self.names), ("resendMessage", self.names.but(request=self.row()))]:
            with self.subTest(operation=operation):
                answer = self.ask(operation, names, headers={"Prefer": "wait=5"})
                self.assertIn(answer.status, (201, 202))
                self.assertIn("Location", answer.headers)

    def test_B67_members_who_may_not(self):
        foreign = self.names.but(own=self.names.message)
        frozen = self.fresh(FROZEN)
        for operation in operations():
            if operation.declares(403, "not_allowed"):
                names = foreign if operation.id in ("editMessage", "deleteMessage") else frozen.but(
                    request=self.row(FROZEN))
                self.expect(operation.id, 403, "not_allowed", names)

    def test_what_is_not_sent_yet_or_not_failed(self):
        unsent = self.names.but(message="request_id:" + self.row(state="waiting", code=None))
        for operation in operations():
            if operation.declares(409, "unsent"):
                self.expect(operation.id, 409, "unsent", unsent)
            if operation.declares(409, "not_resendable"):
                self.expect(operation.id, 409, "not_resendable",
                            self.names.but(request=self.row(state="waiting", code=None)))
            if operation.declares(409, "under_way"):
                self.expect(operation.id, 409, "under_way",
                            self.names.but(request=self.row(kind="edit", state="in_flight", code=None)))

    def test_B44_a_file_that_is_gone(self):
        for operation in operations():
            if operation.declares(409, "file_missing"):
                name = lost_file(self.pair, "ana", self.row(kind="file"))
                self.expect(operation.id, 409, "file_missing", self.names.but(request=name))

    def test_B45_forms_that_are_none(self):
        for operation in operations():
            if operation.declares(400, "malformed_multipart"):
                more = form(file=b"x") | {"headers": {"Content-Type": "multipart/form-data"}}
                self.expect(operation.id, 400, "malformed_multipart", self.names.but(request=self.row()), **more)

    def test_B45_a_file_is_sent_and_found_where_the_upstream_has_it(self):
        more = form(params="{}", file=b"x" * 1000)
        more["headers"] |= {"Prefer": "wait=20"}
        sent = self.ask("sendMessage", **more)
        self.assertEqual(sent.status, 201, sent)
        found = self.ask("getMessageFile", self.names.but(message=sent.json["message_id"]))
        self.assertEqual((found.status, found.headers["Location"]), (302, sent.json["file"]["url"]))

    def test_what_is_taken_back(self):
        self.assertEqual(self.ask("removeUnsent", self.names.but(
            request=self.row(state="waiting", code=None))).status, 202)
        self.assertEqual(self.ask("removeUnsent", self.names.but(request=self.row())).status, 204)
        again = {"names": self.names.but(own="request_id:" + self.row()), "headers": {"Idempotency-Key": "removed-twice"}}
        self.assertNotIn("Idempotency-Replayed", self.ask("deleteMessage", **again).headers)
        repeated = self.ask("deleteMessage", **again)
        self.assertEqual((repeated.status, repeated.headers["Idempotency-Replayed"]), (204, "true"))

    def test_what_changed_since_it_was_read(self):
        for operation in operations():
            if operation.declares(412, "precondition_failed"):
                self.expect(operation.id, 412, "precondition_failed", headers={"If-Match": '"old"'})

    def test_B52_cursors_that_the_log_does_not_have(self):
        for operation in operations():
            if 410 in operation.statuses:
                self.expect(operation.id, 410, "cursor_expired", self.names.but(cursor="0123456789abcdef.1.1"))

    def test_B54_more_polls_than_may_wait(self):
        for operation in operations():
            if not operation.declares(503, "busy"):
                continue
            with self.subTest(operation=operation.id):
                host, port = self.pair.url.removeprefix("http://").split(":")
                token, names = self.pair.token("many"), self.fresh("with-many", "many")

                def is_refused():
                    # An event of other tests ends the first poll early, so that each round parks it anew.
                    latest = self.pair.ask("pollEvents", "many").json["cursor"]
                    with socket.create_connection((host, int(port))) as parked:
                        parked.sendall(f"GET /v1/events?since={latest}&wait=30 HTTP/1.1\r\nHost: x\r\n"
                                       f"Authorization: Bearer {token}\r\n\r\n".encode())
                        answer = self.ask(operation.id, names.but(cursor=latest), "many", query={"wait": "1"})
                        return answer if answer.status == 503 else None

                answer = until("the second is refused", is_refused)
                self.assertEqual(answer.code, "busy")
                self.assertIn("Retry-After", answer.headers)

    def test_B22_more_views_than_one_may_have(self):
        ben = self.fresh("with-many", "ben")
        for _ in range(300):
            if self.pair.ask("openChannelCollection", "ben", body={}).status == 429:
                break
        for operation in operations():
            if operation.declares(429, "too_many_collections"):
                self.expect(operation.id, 429, "too_many_collections", ben, "ben")

    def test_what_would_be_lost_or_is_others(self):
        self.expect("clearChannelCache", 409, "shared")
        self.pair.connect("many")
        with sqlite3.connect(self.pair.data + "/perch.db") as database:
            database.execute(
                "INSERT INTO outbox (user, channel_url, request_id, kind, state, place, params, body, accepted_at,"
                " expires_at, next_try_at) SELECT id, ?, 'kept', 'message', 'failed', 1, x'7b7d', x'', 0, 0, 0"
                " FROM user WHERE user_id = 'many'", (FRIENDS,))
            database.executescript(RECOUNT)
        database.close()
        self.expect("disconnect", 409, "unsent_messages", user="many", query={"clear": "true"})
        self.expect("clearCache", 409, "unsent_messages", user="many")


class Anywhere(unittest.TestCase):
    """What any operation may answer."""

    def setUp(self):
        self.pair = Pair()
        self.addCleanup(self.pair.stop)

    def raw(self, text, status, code):
        with self.subTest(code=code):
            answer = self.pair.raw(text)
            note("*", answer.status, answer.code, answer.headers)
            self.assertEqual((answer.status, answer.code), (status, code), answer)

    def test_requests_that_are_refused_before_they_are_routed(self):
        good = "Host: x\r\nConnection: close\r\n"
        post = f"POST /v1/events/ticket HTTP/1.1\r\n{good}"
        self.raw("GET /healthz HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400, "malformed_request")
        self.raw(f"DELETE /healthz HTTP/1.1\r\n{good}\r\n", 405, "method_not_allowed")
        self.raw(f"POST /v1/webhooks/sendbird HTTP/1.1\r\n{good}\r\n", 411, "length_required")
        self.raw(f"{post}Content-Type: application/json\r\nContent-Length: 9999999\r\n\r\n", 413, "content_too_large")
        self.raw(f"GET /{'x' * 20000} HTTP/1.1\r\n{good}\r\n", 414, "target_too_long")
        self.raw(f"{post}Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{{}}", 415, "unsupported_media_type")
        self.raw(f"GET /healthz HTTP/1.1\r\n{good}Expect: tea\r\n\r\n", 417, "expectation_failed")
        self.raw(f"GET /healthz HTTP/1.1\r\n{good}X: {'x' * 7000}\r\n\r\n", 431, "header_fields_too_large")
        self.raw(f"GET /healthz HTTP/7.1\r\n{good}\r\n", 505, "version_not_supported")

    def test_B60_a_cache_that_cannot_be_written_and_one_that_cannot_be_read(self):
        pair = self.pair
        pair.connect("alice")
        cursor = pair.ask("pollEvents", "alice").json["cursor"]
        other = sqlite3.connect(pair.data + "/perch.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        answer = pair.ask("clearChannelCache", "alice", {"channel_url": "quiet"}, scope="chat admin")
        other.execute("ROLLBACK")
        self.assertEqual((answer.status, answer.code), (503, "storage_unavailable"))
        self.assertIn("Retry-After", answer.headers)
        other.execute("INSERT INTO event (seq, at, kind, source, is_realtime) VALUES"
                      " ((SELECT max(seq) FROM event) + 1, 0, 999, 1, 0)")
        other.close()
        # Readers see what others wrote with the service's own next commit.
        self.assertEqual(pair.ask("openChannelCollection", "alice", body={}).status, 201)
        answer = pair.ask("pollEvents", "alice", query={"since": cursor, "wait": 0})
        self.assertEqual((answer.status, answer.code), (500, "internal_error"))

    def test_B63_while_it_starts(self):
        pair = self.pair
        pair.process.send_signal(signal.SIGTERM)
        pair.process.wait(timeout=20)
        other = sqlite3.connect(pair.data + "/perch.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        pair.process.stdout.close()
        pair.process = pair.start("serve", *pair.words)
        try:
            def readiness():
                try:
                    return pair.ask("getReadiness")
                except OSError:
                    return None

            answer = until("it answers", readiness, 4)
            self.assertEqual((answer.status, answer.json["status"]), (503, "starting"))
            self.assertEqual(pair.ask("listChannels", "alice").code, "starting")
        finally:
            other.execute("ROLLBACK")
            other.close()
        self.assertIn("listening on", pair.process.stdout.readline())


class Offline(unittest.TestCase):
    def test_B1_B2_without_the_upstream(self):
        """Whoever is not known is not admitted; whoever's channels are not all listed is told so of unknown ones."""
        pair = Pair()
        self.addCleanup(pair.stop)
        for user in ("halfway", "stranger"):
            pair.origin("POST", "/v3/users", {"user_id": user, "nickname": user, "profile_url": ""})
        pair.origin("PUT", "/_faults", {"faults": [{"kind": "dark", "path": "/v3/users/*/my_group_channels"}]})
        until("halfway is admitted", lambda: pair.ask("getConnection", "halfway").status == 200)
        pair.cut()
        until("it is offline", lambda: pair.ask("getReadiness").json["upstream"] == "offline")
        self.expect_unavailable(pair, "stranger", "upstream_unreachable", Names(), operations())
        names = Names(request=unsent_row(pair, "halfway", Names().channel, "row-1"))
        self.expect_unavailable(
            pair, "halfway", "not_synced", names,
            [each for each in operations() if not each.is_of_view and each.id not in LISTS])

    def test_B1_news_for_who_is_disconnected_that_the_log_does_not_tell_any_more(self):
        pair = Pair("--keep-events", "100")
        self.addCleanup(pair.stop)
        for user in ("alice", "bob"):
            pair.connect(user)
        channels = pair.ask("openChannelCollection", "alice", body={"query": {"limit": 1}}).json
        pair.ask("disconnect", "alice")
        for number in range(150):
            sent = pair.ask("sendMessage", "bob", {"channel_url": "general"}, body={"message": f"news {number}"})
            self.assertEqual(sent.status, 202, sent)
        until("the log was trimmed", lambda: pair.ask("listChannels", "alice").status == 503, 90)
        self.expect_unavailable(
            pair, "alice", "not_synced", Names(list=channels["id"], more=channels["next"]),
            [each for each in operations() if each.id in LISTS])

    def test_B1_B58_a_view_that_was_cleared_without_the_upstream(self):
        """The user's channels are not known again: the view is there, and its channel may be, too."""
        pair = Pair()
        self.addCleanup(pair.stop)
        pair.connect("alice")
        view = pair.ask("openMessageCollection", "alice", body={"channel_url": "general"}).json["id"]
        channels = pair.ask("openChannelCollection", "alice", body={}).json["id"]
        pair.cut()
        until("it is offline", lambda: pair.ask("getReadiness").json["upstream"] == "offline")
        self.assertLess(pair.ask("clearCache", "alice", scope="chat admin").status, 300)
        self.expect_unavailable(
            pair, "alice", "not_synced", Names(view=view, list=channels),
            [each for each in operations() if each.is_of_view and each.id not in LISTS])

    def expect_unavailable(self, pair, user, code, names, asked):
        for operation in asked:
            # The demo's own operations have no caller.
            if operation.has_caller and operation.declares(503, code):
                with self.subTest(operation=operation.id, code=code):
                    place = PLACES[operation.id](names)
                    answer = pair.ask(operation.id, user, scope="chat admin", **place)
                    self.assertEqual((answer.status, answer.code), (503, code), answer)
                    self.assertIn("Retry-After", answer.headers)


class Unsendable(unittest.TestCase):
    """Sending while the chat server cannot be reached."""

    def setUp(self):
        self.pair = pair = Pair("--max-unsent", "7")
        self.addCleanup(pair.stop)
        pair.connect("alice")
        page = until("the messages are here", lambda: pair.ask(
            "listMessages", "alice", {"channel_url": "general"}, {"sender_user_ids": "alice"}).json.get("items"))
        self.names = Names(channel="general", message=page[-1]["message_id"], own=page[-1]["message_id"])
        pair.cut()
        until("it is offline", lambda: pair.ask("getReadiness").json["upstream"] == "offline")

    def ask(self, operation, names, **more):
        return self.pair.ask(operation, "alice", **(PLACES[operation](names) | more))

    def test_B40_what_was_refused_or_not_sent_says_so(self):
        number = 0
        for operation in operations():
            for code, error in [("upstream_rejected", "900100"), ("not_sent", "expired")]:
                if not operation.declares(422, code):
                    continue
                with self.subTest(operation=operation.id, code=code):
                    number += 1
                    name = f"ends-{number}"
                    if operation.id == "resendMessage":
                        unsent_row(self.pair, "alice", "general", name)
                        self.resent(name, code, error)
                    else:
                        key = {"Idempotency-Key": name, "Prefer": "wait=1"}
                        self.assertEqual(self.ask(operation.id, self.names, headers=key).status, 202)
                        self.end(name, error, isMessage=operation.id == "sendMessage")
                        answer = self.ask(operation.id, self.names, headers=key)
                        self.assertEqual((answer.status, answer.code), (422, code), answer)
                        self.assertEqual(answer.headers["Idempotency-Replayed"], "true")
                    change(self.pair, "DELETE FROM outbox")

    def test_B37_what_waits_says_so_however_often_it_is_asked(self):
        key = {"Idempotency-Key": "waits", "Prefer": "wait=1"}
        for replayed in (None, "true"):
            answer = self.ask("sendMessage", self.names, headers=key)
            self.assertEqual((answer.status, answer.headers["Idempotency-Replayed"]), (202, replayed), answer)
        for operation, key in (("editMessage", "edit-waits"), ("deleteMessage", "deletion-waits")):
            for replayed in (None, "true"):
                answer = self.ask(operation, self.names, headers={"Idempotency-Key": key})
                self.assertEqual((answer.status, answer.headers["Idempotency-Replayed"]), (202, replayed), answer)
        unsent_row(self.pair, "alice", "general", "failed-once")
        answer = self.ask("resendMessage", self.names.but(request="failed-once"), headers={"Prefer": "wait=1"})
        self.assertEqual((answer.status, answer.headers["Preference-Applied"]), (202, "wait=1"), answer)

    def end(self, name, error, isMessage):
        if isMessage:
            change(self.pair, "UPDATE outbox SET state = 'failed', error_code = ? WHERE request_id = ?", error, name)
        else:
            change(self.pair, "DELETE FROM outbox WHERE request_id = ?", name)
            change(self.pair, "UPDATE request SET ended_at = 1, ended_as = 'dropped', error_code = ?"
                   " WHERE request_id = ?", error, name)
        see(self.pair, "alice")

    def resent(self, name, code, error):
        answers = []
        asking = threading.Thread(target=lambda: answers.append(self.ask(
            "resendMessage", self.names.but(request=name), headers={"Prefer": "wait=3"})))
        asking.start()
        until("it waits", lambda: self.ask("getUnsent", Names(request=name)).json["status"] == "pending")
        self.end(name, error, isMessage=True)
        asking.join()
        self.assertEqual((answers[0].status, answers[0].code), (422, code), answers[0])

    def test_an_outbox_that_is_full(self):
        for _ in range(7):
            self.assertEqual(self.pair.ask(
                "sendMessage", "alice", {"channel_url": "general"}, body={"message": "more"}).status, 202)
        for operation in operations():
            if operation.declares(429, "outbox_full"):
                with self.subTest(operation=operation.id):
                    answer = self.ask(operation.id, self.names)
                    self.assertEqual((answer.status, answer.code), (429, "outbox_full"), answer)
                    self.assertIn("Retry-After", answer.headers)


class Files(unittest.TestCase):
    """Files that wait, and more of them than there is room for."""

    def setUp(self):
        self.pair = pair = Pair("--spool-max-size", "10KB")
        self.addCleanup(pair.stop)
        pair.connect("alice")
        until("the messages are here", lambda: pair.ask("listMessages", "alice", {"channel_url": "general"}).json.get("items"))
        pair.cut()
        until("it is offline", lambda: pair.ask("getReadiness").json["upstream"] == "offline")
        self.names = Names(channel="general")

    def ask(self, operation, names, **more):
        return self.pair.ask(operation, "alice", **(PLACES[operation](names) | more))

    def test_B45_a_file_that_waits_is_read_back_and_another_finds_no_room(self):
        kept = self.ask("sendMessage", self.names, **form(params='{"request_id":"kept"}', file=b"0123456789"))
        self.assertEqual(kept.status, 202, kept)
        names = self.names.but(message="request_id:kept")
        self.assertEqual(self.ask("getMessageFile", names).body, b"0123456789")
        part = self.ask("getMessageFile", names, headers={"Range": "bytes=2-4"})
        self.assertEqual((part.status, part.body), (206, b"234"))
        outside = self.ask("getMessageFile", names, headers={"Range": "bytes=10-"})
        self.assertEqual((outside.status, outside.code), (416, "range_not_satisfiable"))
        unsent_row(self.pair, "alice", "general", "failed")
        for operation in operations():
            if operation.declares(507, "upload_not_stored"):
                answer = self.ask(operation.id, self.names.but(request="failed"), **form(file=b"x" * 20_000))
                self.assertEqual((answer.status, answer.code), (507, "upload_not_stored"), answer)
                self.assertIn("Retry-After", answer.headers)


class Clearing(unittest.TestCase):
    def test_B58_everything(self):
        pair = Pair()
        self.addCleanup(pair.stop)
        pair.connect("alice")
        self.assertEqual(pair.ask("clearCache", "alice").status, 204)


if __name__ == "__main__":
    unittest.main(verbosity=0)
