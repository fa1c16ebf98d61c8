#!/usr/bin/python3
"""The two clients of the product show the truth, whatever happens between them and the service.

Each seed opens a channel with four views of one user: client.js and client.py, each by polls and by a stream. They
send, edit, delete, send again and page while others write at the chat server, connections are cut or go silent, the
service is killed, its cache is cleared, its log is trimmed, cursors expire, tokens are refused, the chat server fails,
and the user leaves and comes back. At no moment may a view show a message twice. 5 s after all is quiet each view must
show exactly what a view that is opened anew does. TARGET_BINARY is the program, PERCH_CLIENT_SEEDS how many seeds there
are (3), PERCH_CLIENT_SEED the first.
"""

import base64
import contextlib
import hashlib
import hmac
import http.client
import importlib
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from network import Proxy, free_port

HERE = os.path.dirname(os.path.abspath(__file__))
CLIENTS = os.path.join(HERE, "../../Sources/ChatAPI/Clients")
PERCH = os.environ.get("TARGET_BINARY", os.path.join(HERE, "../../.build/debug/perch"))
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("PERCH_")}
SEEDS = int(os.environ.get("PERCH_CLIENT_SEEDS", "3"))
FIRST = int(os.environ.get("PERCH_CLIENT_SEED", "1"))
# How long faults last (s), how long the service may take to agree with the chat server, and a view with the service.
WORK, SETTLING, AGREEING = 3, 40, 5
# What a send may be refused with: the user was gone, or the chat server said no.
REFUSED = {"channel_not_found", "not_joined", "not_allowed", "upstream_rejected"}
# What the service answers if its log does not reach back to a cursor.
PROBLEM = json.dumps({"type": "/problems/cursor_expired", "title": "Cursor expired", "status": 410, "code": "cursor_expired",
                      "detail": "Read the view again.", "x_request_id": "x"}).encode()
EXPIRED = (b"HTTP/1.1 410 Gone\r\nContent-Type: application/problem+json\r\nConnection: close\r\nContent-Length: "
           + str(len(PROBLEM)).encode() + b"\r\n\r\n" + PROBLEM)


def bearer(secret, user, scope="chat", seconds=3600):
    claims = {"sub": user, "exp": int(time.time()) + seconds, "scope": scope}
    parts = [json.dumps(part).encode() for part in ({"alg": "HS256", "typ": "JWT"}, claims)]
    text = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts)
    code = base64.urlsafe_b64encode(hmac.new(secret.encode(), text, hashlib.sha256).digest()).rstrip(b"=")
    return (text + b"." + code).decode()


def ask(port, method, path, body=None, headers=None, seconds=20):
    """Status and JSON of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": "application/json"} | (headers or {}))
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text else None
    finally:
        connection.close()


class Program:
    """A server that is ended with the test."""

    def __init__(self, log, *words):
        self.process = subprocess.Popen(
            [PERCH, *words], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=log, text=True)
        line = self.process.stdout.readline().split()
        assert line, "it did not start: " + " ".join(words)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class ClientProxy(Proxy):
    """Stands between the clients and the service. expire: a cursor is answered with 410."""

    def __init__(self, target):
        super().__init__(target)
        # The request lines of clients that read their view again.
        self.read_again = set()

    def answer(self, data):
        line = data.split(b"\r\n")[0]
        if line.startswith(b"GET /v1/message-collections/") and b"/events" not in line:
            self.read_again.add(line)
        return EXPIRED if self.fault == "expire" and b"/events?since=" in data else None


class View:
    """One view in a process of its own, and what it has told."""

    def __init__(self, name, words, options):
        self.name, self.broken, self.log, self.answers, self.is_open = name, [], [], {}, threading.Event()
        self.process = subprocess.Popen(
            [*words, json.dumps(options)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.count, self.news = 0, threading.Condition()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            value = json.loads(line)
            if "broken" in value:
                self.broken.append(value["broken"])
            elif "number" in value:
                with self.news:
                    self.answers[value["number"]] = value
                    self.news.notify_all()
            elif "log" in value:
                self.log.append(value["log"])
            else:
                self.is_open.set()

    def begin(self, act, **values):
        """Asks for something; its number."""
        self.count += 1
        self.process.stdin.write(json.dumps({"number": self.count, "act": act} | values) + "\n")
        return self.count

    def end(self, number, seconds=20):
        """The answer to that."""
        with self.news:
            assert self.news.wait_for(lambda: number in self.answers, seconds), f"{self.name}: no answer to {number}"
            return self.answers[number]

    def ask(self, act, seconds=20, **values):
        return self.end(self.begin(act, **values), seconds)

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class World:
    """A chat server, a service, and the network before it."""

    def __init__(self, *settings):
        self.settings = settings
        self.place = tempfile.TemporaryDirectory()
        self.log = open(self.place.name + "/log", "w")
        self.port, self.origin_port = free_port(), free_port()
        self.origin = Program(
            self.log, "origin", "--listen", f"127.0.0.1:{self.origin_port}", "--seed", "none",
            "--webhook", f"http://127.0.0.1:{self.port}/v1/webhooks/sendbird")
        for user in ("alice", "bob"):
            self.there("POST", "/v3/users", {"user_id": user, "nickname": user, "profile_url": ""})
        self.start()
        self.proxy = ClientProxy(self.port)
        with open(self.place.name + "/data/auth-secret") as file:
            self.secret = file.read().split()[0]
        shutil.copy(CLIENTS + "/client.js", self.place.name + "/client.mjs")
        shutil.copy(CLIENTS + "/client.py", self.place.name + "/client.py")

    def start(self):
        self.service = Program(
            self.log, "serve", "--listen", f"127.0.0.1:{self.port}", "--access-log", "off", "--log-level", "warning",
            "--data", self.place.name + "/data", "--upstream", f"http://127.0.0.1:{self.origin_port}",
            "--upstream-token", "origin", "--poll-interval", "1s", "--backoff-max", "2s", "--uncertain-grace", "1s",
            "--upstream-deduplicates", "yes", *self.settings)

    def there(self, method, path, body=None):
        """Asks the chat server, again where it was told to fail."""
        for _ in range(20):
            try:
                status, found = ask(self.origin_port, method, path, body, {"Api-Token": "origin"}, 1)
                if status == 200:
                    return found
            except (OSError, http.client.HTTPException) as error:
                status, found = 0, error
            if status == 400 and found.get("code") in (400201, 400202):
                return None  # It is done already, or its message is gone.
        raise AssertionError((method, path, status, found))

    def here(self, method, path, body=None, scope="chat", **headers):
        """Asks the service, past the failing network."""
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        return ask(self.port, method, path, body, headers | {
            "Authorization": "Bearer " + bearer(self.secret, "alice", scope)})

    def open(self, channel, others):
        """The four views, opened."""
        views = self.started(channel, others)
        for view in views:
            assert view.is_open.wait(30), f"{view.name} never opened: {view.log[-3:]}"
        return views

    def started(self, channel, others):
        options = {"url": f"http://127.0.0.1:{self.proxy.port}", "secret": self.secret, "user": "alice",
                   "channel": channel, "wait": 1, "timeout": 2, "fields": {"previous_size": 200}} | others
        views = []
        for follow in ("poll", "stream"):
            for ending, words in (("mjs", ["node", HERE + "/live_client.mjs"]), ("py", ["python3", HERE + "/live_client.py"])):
                own = options | {"follow": follow, "client": f"{self.place.name}/client.{ending}"}
                views.append(View(f"{ending} {follow}", words, own))
        return views

    def trim(self):
        """The service starts with a log that has nothing but its last event, as after a long rest."""
        self.service.kill()
        database = sqlite3.connect(self.place.name + "/data/perch.db")
        last = database.execute("SELECT max(seq) FROM event").fetchone()[0]
        database.execute("DELETE FROM event WHERE seq < ?", [last])
        database.execute("INSERT OR REPLACE INTO meta (key, value) VALUES ('oldest_event', ?)", [last])
        database.execute("DELETE FROM run WHERE run < (SELECT max(run) FROM run WHERE first_seq < ?)", [last])
        database.commit()
        database.close()
        self.start()

    def dispose(self):
        """Disposes of the views that clients left, some of which they never knew: a user may have 200."""
        with contextlib.closing(sqlite3.connect(self.place.name + "/data/perch.db")) as database:
            views = [name for name, in database.execute("SELECT id FROM collection")]
        for view in views:
            status, found = self.here("DELETE", f"/v1/message-collections/{view}")
            assert status in (204, 404), (status, found)

    def end(self):
        self.service.kill()
        self.origin.kill()
        self.log.close()
        self.place.cleanup()


class Story:
    """What happens with one seed."""

    def __init__(self, world, seed, **options):
        self.world, self.random, self.channel = world, random.Random(seed), f"talk-{seed}"
        self.path = f"/v3/group_channels/{self.channel}"
        self.texts, self.begun, self.count, self.is_member = {}, [], 0, True
        # The texts, as they were sent, of messages that somebody deleted or that a clearing removed unsent.
        self.deleted = set()
        world.there("POST", "/v3/group_channels", {
            "channel_url": self.channel, "name": self.channel, "user_ids": ["alice", "bob"]})
        for _ in range(30):
            self.say()
        self.views = world.open(self.channel, options)

    # Acts upstream

    def say(self):
        self.count += 1
        self.world.there("POST", self.path + "/messages", {
            "message_type": "MESG", "user_id": "bob", "message": f"bob {self.count}"})

    def heard(self):
        """The newest message that the service has."""
        status, page = self.world.here("GET", f"/v1/channels/{self.channel}/messages?limit=1")
        return page["items"][-1]["message"] if status == 200 and page["items"] else None

    def newest(self):
        page = self.world.there("GET", self.path + "/messages?message_ts=9007199254740991&prev_limit=20&next_limit=0")
        return page["messages"]

    def others(self):
        """Somebody at the chat server edits, deletes or reacts."""
        message = self.random.choice(self.newest())
        path = f"{self.path}/messages/{message['message_id']}"
        act = self.random.choice(["edit", "delete", "react"])
        if act == "edit":
            self.world.there("PUT", path, {"message_type": "MESG", "message": message["message"] + "!"})
        elif act == "delete":
            self.deleted.add(message["message"].rstrip("?!"))
            self.world.there("DELETE", path)
        else:
            self.world.there("POST", path + "/reactions", {"user_id": "bob", "reaction": "smile"})

    def leave(self):
        self.world.there("PUT", self.path + "/leave", {"user_ids": ["alice"]})
        self.is_member = False

    def come_back(self):
        self.world.there("POST", self.path + "/invite", {"user_ids": ["alice"]})
        self.is_member = True

    def fault(self):
        """The chat server fails for some requests."""
        sends = {"path": self.path + "/messages", "method": "POST", "count": 1}
        self.world.there("PUT", "/_faults", {"seed": self.random.randrange(1 << 30), "faults": [
            self.random.choice([
                sends | {"kind": "deny", "code": 900060}, sends | {"kind": "lose_reply"},
                {"kind": "status", "status": 503, "path": "*", "count": 4}, {"kind": "dark", "path": "*", "count": 1},
                {"kind": "drop_webhook", "path": "*", "count": 3}])]})

    # Acts of the clients

    def act(self):
        """One of the views does something; nobody waits for it."""
        view = self.random.choice(self.views)
        kind = self.random.choice(["send", "send", "send", "edit", "remove", "resend", "previous"])
        if kind == "send":
            self.count += 1
            name = f"{self.channel}-{self.count}"
            self.texts[name] = f"alice {self.count}"
            self.begun.append((view, view.begin("send", text=self.texts[name], name=name), name))
            return
        if kind == "previous":
            view.begin("previous")
            return
        rows = view.ask("rows")["result"]
        failed = [row for row in rows if row["sending_status"] in ("failed", "canceled")]
        own = [row for row in rows if row["request_id"].startswith(self.channel)]
        chosen = failed if kind == "resend" else own[-5:]
        if chosen:
            row = self.random.choice(chosen)
            if kind == "remove":
                self.deleted.add(row["message"].rstrip("?!"))
            view.begin(kind, row=row, text=row["message"] + "?")

    # Faults of the network and of the service

    def trouble(self):
        proxy, world = self.world.proxy, self.world
        kind = self.random.choices(
            ["calm", "cut", "reset", "silent", "slow", "refuse", "expire", "kill", "clear", "leave", "fault", "trim"],
            [6, 3, 3, 2, 2, 2, 2, 1, 1, 2, 2, 1])[0]
        if kind in ("cut", "slow", "refuse", "silent", "expire"):
            proxy.fault = kind
        elif kind == "calm":
            proxy.fault = None
            time.sleep(0.4)
        elif kind == "reset":
            proxy.fault = None
            proxy.reset()
        elif kind == "kill":
            world.service.kill()
            time.sleep(self.random.random() * 0.3)
            world.start()
        elif kind == "trim":
            self.miss(heard=False)
        elif kind == "clear":
            unsent = set(self.texts.values()) - {text.rstrip("?!") for _, text in self.upstream()}
            status, found = world.here("DELETE", "/v1/cache?force=true", scope="chat admin")
            assert status in (204, 503), (status, found)
            self.deleted |= unsent
        elif kind == "leave":
            (self.leave if self.is_member else self.come_back)()
        else:
            self.fault()
        return kind

    def miss(self, heard=True):
        """Something happens while the views are cut off, and is not in the log any more when they come back.

        heard: the service heard of all of it before.
        """
        self.world.proxy.fault = "refuse"
        self.world.proxy.reset()
        # Messages that come together are one event.
        for _ in range(3):
            self.say()
            ends = time.monotonic() + (10 if heard else 0.4)
            while (not heard or self.heard() != f"bob {self.count}") and time.monotonic() < ends:
                time.sleep(0.05)
            assert not heard or time.monotonic() < ends, "the service did not hear of it"
        self.world.trim()
        self.world.proxy.fault = None

    def storm(self):
        told, ends = [], time.monotonic() + WORK
        while time.monotonic() < ends:
            told.append(self.trouble())
            for _ in range(self.random.randrange(8)):
                self.random.choice([self.say, self.others, self.act, self.act])()
                time.sleep(self.random.random() * 0.1)
        return told

    def heal(self):
        self.world.proxy.fault = None
        self.world.proxy.reset()
        self.world.there("DELETE", "/_faults")
        if not self.is_member:
            self.come_back()
        self.calm()

    def calm(self):
        """Tokens are good from now on."""
        for view in self.views:
            view.ask("calm")

    # The truth

    def truth(self):
        """What a view shows that is opened anew: its rows, and those that are not sent."""
        status, view = self.world.here("POST", "/v1/message-collections", {
            "channel_url": self.channel, "previous_size": 200}, Prefer="wait=10")
        if status != 201:
            return None
        self.world.here("DELETE", f"/v1/message-collections/{view['id']}")
        result = view.get("api_result") or {}
        rows = result["messages"] if result.get("type") == "messages.replaced" else view["messages"]
        return rows, sorted(view["pending"] + view["failed"], key=lambda row: row["request_id"])

    def upstream(self):
        """The chat server's messages, the oldest first."""
        page = self.world.there("GET", self.path + "/messages?message_ts=9007199254740991&prev_limit=200&next_limit=0")
        return [(str(message["message_id"]), message["message"]) for message in page["messages"]][-200:]

    def settle(self):
        """Waits until everything is sent and the service agrees with the chat server."""
        ends, truth = time.monotonic() + SETTLING, None
        while time.monotonic() < ends:
            truth = self.truth()
            is_quiet = truth and not [row for row in truth[1] if row["sending_status"] == "pending"]
            if is_quiet and [(row["message_id"], row["message"]) for row in truth[0]][-200:] == self.upstream():
                return truth
            time.sleep(0.2)
        raise AssertionError(f"the service does not agree with the chat server: {truth} {self.upstream()}")

    def answers(self):
        """Every send has an answer; nothing was sent twice."""
        ended = [(view, name, view.end(number, 30)) for view, number, name in self.begun]
        texts = [text.rstrip("?!") for _, text in self.upstream()]
        for view, name, answer in ended:
            code = answer.get("problem", {}).get("code")
            # The answer was lost, and the message was deleted before the client asked again.
            is_deleted = code == "message_not_found" and self.texts[name] in self.deleted - set(texts)
            assert "result" in answer or code in REFUSED or is_deleted, (view.name, answer)
        for name, text in self.texts.items():
            copies = [found for found in texts if found == text]
            assert len(copies) < 2, f"sent twice: {copies}"

    def difference(self, view):
        """What is wrong with a view now."""
        shown, truth = view.ask("show")["result"], self.truth()
        rows = [row for row in shown["rows"] if row["message_id"]]
        unsent = sorted(shown["unsent"], key=lambda row: row["request_id"])
        if truth is None:
            return "there is no truth"
        oldest = min(rows[0]["position"], truth[0][0]["position"]) if rows and truth[0] else ""
        wanted = [row for row in truth[0] if row["position"] >= oldest]
        if rows[-len(wanted):] == wanted and len(rows) >= len(wanted) and unsent == truth[1] and shown["connection"] == "live":
            return None
        mine, other = ({json.dumps(row, sort_keys=True) for row in one} for one in (rows + unsent, wanted + truth[1]))
        return f"{shown['connection']} {shown['error']}: only shown {mine - other}, not shown {other - mine}"


def agreed(story, views, told=""):
    """Fails unless each view shows the truth within 5 s, and never showed a message twice."""
    ends = time.monotonic() + AGREEING
    for view in views:
        while wrong := story.difference(view):
            assert time.monotonic() < ends, f"{story.channel} {told} {view.name}: {wrong}"
            time.sleep(0.2)
        assert not view.broken, f"{story.channel} {told} {view.name}: {view.broken}"


class LiveClients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.world = World()

    @classmethod
    def tearDownClass(cls):
        cls.world.end()

    def story(self, name, **options):
        story = Story(self.world, name, **options)
        self.addCleanup(lambda: [view.stop() for view in story.views])
        story.calm()
        return story

    def until(self, holds, seconds=10):
        ends = time.monotonic() + seconds
        while not (found := holds()):
            self.assertLess(time.monotonic(), ends)
            time.sleep(0.05)
        return found

    def test_a_message_that_failed_is_told_and_sent_again_once(self):
        story = self.story("failing")
        for number, view in enumerate(story.views):
            self.world.there("PUT", "/_faults", {"faults": [
                {"path": story.path + "/messages", "method": "POST", "count": 1, "kind": "deny", "code": 900060}]})
            name = f"failing-{number}"
            self.assertEqual(view.ask("send", text=f"hello {number}", name=name)["result"]["request_id"], name)
            failed = self.until(lambda: [row for row in view.ask("show")["result"]["unsent"]
                                         if (row["request_id"], row["sending_status"]) == (name, "failed")])
            view.ask("resend", row=failed[0])
            story.settle()
            agreed(story, story.views)
            self.assertEqual([text for _, text in story.upstream()].count(f"hello {number}"), 1)

    def test_messages_of_two_users_with_one_request_id_are_two(self):
        story = self.story("same")
        self.world.there("PUT", "/_faults", {"faults": [
            {"path": story.path + "/messages", "method": "POST", "count": 1, "kind": "deny", "code": 900060}]})
        self.world.here("POST", f"/v1/channels/{story.channel}/messages", {"message": "alice's", "request_id": "same"})

        def unsent():
            return [[(row["request_id"], row["sending_status"]) for row in view.ask("show")["result"]["unsent"]]
                    for view in story.views]

        self.until(lambda: unsent() == [[("same", "failed")]] * len(story.views))
        bobs = self.world.there("POST", story.path + "/messages", {
            "message_type": "MESG", "user_id": "bob", "message": "bob's", "dedup_id": "same"})
        for view in story.views:
            self.until(lambda: [row["request_id"] for row in view.ask("rows")["result"] if row["message"] == "bob's"] == ["same"])
        agreed(story, story.views)
        self.world.there("DELETE", f"{story.path}/messages/{bobs['message_id']}")
        story.settle()
        agreed(story, story.views)
        self.assertEqual(unsent(), [[("same", "failed")]] * len(story.views))

    def test_a_row_of_a_message_that_the_service_has_not_accepted_is_shown_and_stays_one(self):
        story = self.story("waiting")
        self.world.proxy.fault = "refuse"
        self.world.proxy.reset()
        sends = [(view, view.begin("send", text="later", name=f"waiting-{number}"), f"waiting-{number}")
                 for number, view in enumerate(story.views)]
        for view, _, name in sends:
            self.until(lambda: view.ask("show")["result"]["connection"] == "offline")
            self.assertEqual([row["request_id"] for row in view.ask("show")["result"]["unsent"]], [name])
        self.world.proxy.fault = None
        for view, number, name in sends:
            self.assertEqual(view.end(number)["result"]["request_id"], name)
        story.settle()
        agreed(story, story.views)

    def test_a_row_that_was_accepted_and_is_not_the_views_leaves_at_once(self):
        story = self.story("filtered", fields={"custom_types": ["other"]})
        for view in story.views:
            view.ask("send", text="a message without that type")
            # No event follows: the view does not show the message.
            self.until(lambda: not view.ask("rows")["result"], 3)

    def test_a_connection_that_goes_silent_for_good_is_noticed(self):
        story = self.story("silent")
        self.world.proxy.fault = "silent"
        for _ in range(3):
            story.say()
            time.sleep(0.3)
        self.world.proxy.fault = None
        # A poll of 1 s may take 2 s more; a stream of JavaScript is heard for 5 s.
        time.sleep(6)
        agreed(story, story.views)

    def test_B52_a_view_whose_cursor_expired_is_read_again(self):
        story = self.story("expired")
        self.world.proxy.read_again.clear()
        self.world.proxy.fault = "expire"
        self.world.proxy.reset()
        for _ in range(5):
            story.say()
            time.sleep(0.3)
        self.assertNotIn("closed", [view.ask("show")["result"]["connection"] for view in story.views])
        self.until(lambda: len(self.world.proxy.read_again) == len(story.views))
        self.world.proxy.fault = None
        story.settle()
        agreed(story, story.views)

    def test_B53_a_view_whose_events_are_trimmed_is_read_again(self):
        story = self.story("trimmed")
        self.world.proxy.read_again.clear()
        story.miss()
        self.until(lambda: len(self.world.proxy.read_again) == len(story.views))
        story.settle()
        agreed(story, story.views)

    def test_B69_a_lost_channel_is_told_and_comes_back(self):
        story = self.story("lost")
        story.leave()
        for view in story.views:
            self.until(lambda: view.ask("show")["result"]["connection"] == "lost")
            self.assertEqual(view.ask("rows")["result"], [])
        story.come_back()
        story.say()
        story.settle()
        agreed(story, story.views)

    def test_B28_a_huge_gap_ends_the_view_and_is_told(self):
        story = self.story("gap")
        agreed(story, story.views)
        last = story.count
        self.world.there("PUT", "/_faults", {"faults": [
            {"kind": "refuse", "method": "GET", "path": "/v3/*"}, {"kind": "drop_webhook"}]})
        self.until(lambda: self.world.here("GET", "/v1/connection")[1]["state"] == "offline", 30)
        for _ in range(350):
            story.say()
        self.world.there("DELETE", "/_faults")
        self.world.here("PUT", "/v1/connection")
        for view in story.views:
            gap = self.until(lambda: view.ask("show")["result"]["gaps"], 30)
            self.assertEqual([one["state"] for one in gap], ["huge"])
            rows = [int(row["message"].split()[1]) for row in view.ask("rows")["result"]]
            self.assertEqual(rows, list(range(rows[0], rows[-1] + 1)))
            self.assertTrue(last < rows[-1] < story.count, rows)

    def test_mistakes_have_an_error_of_their_own_with_the_problem_inside(self):
        story = self.story("mistakes")
        story.say()
        for view in story.views:
            row = self.until(lambda: view.ask("rows")["result"])[0]
            wrong = view.ask("edit", row=row, text="")
            self.assertEqual((wrong["kind"], wrong["problem"]["code"]), ("MistakeError", "invalid_request"))
            self.assertTrue(wrong["problem"]["errors"])
        for view in story.views[:2]:
            view.ask("become", user="bob")
            shown = self.until(lambda: (found := view.ask("show")["result"])["connection"] == "closed" and found)
            self.assertEqual(shown["error"]["code"], "other_user")
            self.assertEqual(view.ask("send", text="x", name="x-1")["kind"], "MistakeError")
        for view in story.views[2:]:
            view.ask("close")
            closed = view.ask("send", text="x", name="x-1")
            self.assertEqual((closed["kind"], closed["problem"]["code"]), ("MistakeError", "view_closed"))
        self.assertNotIn("x", [text for _, text in story.upstream()])

    def test_a_view_that_begins_where_another_service_ended_is_a_mistake(self):
        world = self.world
        world.there("POST", "/v3/group_channels", {"channel_url": "begun", "name": "begun", "user_ids": ["alice", "bob"]})
        for view in world.started("begun", {"fields": {"starting_point": "epoch.1.10"}}):
            self.addCleanup(view.stop)
            view.begin("calm")
            self.until(lambda: any(line == "MistakeError invalid_request" for line in view.log))
            self.assertFalse(view.is_open.is_set())

    def test_older_rows_come_page_by_page_and_none_is_left_out(self):
        story = Story(self.world, "pages", fields={"previous_size": 7})
        self.addCleanup(lambda: [view.stop() for view in story.views])
        story.calm()
        for view in story.views:
            while view.ask("show")["result"]["has_previous"]:
                story.say()
                view.ask("previous")
        story.settle()
        agreed(story, story.views)
        for view in story.views:
            shown = [row["message"] for row in view.ask("rows")["result"]]
            self.assertEqual(shown, [text for _, text in story.upstream()])


class PythonClient(unittest.TestCase):
    def test_all_gaps_of_an_event_are_kept(self):
        sys.path.insert(0, CLIENTS)
        # The folder is a part of the program: nothing else may lie there.
        sys.dont_write_bytecode = True
        view = object.__new__(importlib.import_module("client").View)
        view.state, view._gaps = {}, {}
        gaps = [{"id": "1", "state": "idle"}, {"id": "2", "state": "huge"}]
        view._take({"gap": gaps[1], "gaps": gaps})
        self.assertEqual(list(view._gaps.values()), gaps)


class ReadmeLines(unittest.TestCase):
    """The lines of the README follow a channel of the demo."""

    def hears(self, language, ending, words):
        with open(os.path.join(HERE, "../../README.md")) as file:
            lines = re.search(rf"```{language}\n(.*?)```", file.read(), re.S)[1]
        self.assertLessEqual(len(lines.splitlines()), 5)
        with tempfile.TemporaryDirectory() as place:
            url = f"http://127.0.0.1:{free_port()}"
            with open(place + "/log", "w") as log:
                demo = Program(log, "demo", "--listen", url[7:], "--origin-listen", "127.0.0.1:0", "--data", place + "/data")
            shutil.copy(f"{CLIENTS}/client.{ending}", place + "/client." + ending.replace("js", "mjs"))
            with open(f"{place}/live", "w") as file:
                file.write(lines.replace("http://127.0.0.1:8080", url))
            os.rename(f"{place}/live", f"{place}/live." + ending.replace("js", "mjs"))
            program = subprocess.Popen([*words, place + "/live." + ending.replace("js", "mjs")], stdout=subprocess.PIPE,
                                       text=True, cwd=place)
            try:
                self.wait_for_words(url, program)
            finally:
                program.kill()
                program.wait()
                program.stdout.close()
                demo.kill()

    def wait_for_words(self, url, program):
        """What bob says through the service is printed."""
        lines, port = [], int(url.rsplit(":", 1)[1])
        threading.Thread(target=lambda: lines.extend(iter(program.stdout.readline, "")), daemon=True).start()
        users = {user["user_id"]: user["token"] for user in ask(port, "GET", "/demo")[1]["users"]}
        ends = time.monotonic() + 30
        for number in range(100):
            ask(port, "POST", "/v1/channels/general/messages", {"message": f"words {number}"}, {
                "Authorization": "Bearer " + users["bob"]})
            time.sleep(0.5)
            if any("words" in line for line in lines):
                return
            self.assertLess(time.monotonic(), ends, lines)

    def test_javascript(self):
        self.hears("js", "js", ["node"])

    def test_python(self):
        self.hears("python", "py", ["python3"])


def make(seed):
    def test(self):
        story = Story(self.world, seed)
        try:
            told = story.storm()
            story.heal()
            story.answers()
            story.settle()
            agreed(story, story.views, told)
        finally:
            for view in story.views:
                view.stop()
            self.world.dispose()
    test.__doc__ = f"B49 B52 B69: with seed {seed} all views show the truth in the end, and never a message twice."
    return test


for number in range(FIRST, FIRST + SEEDS):
    setattr(LiveClients, f"test_faults_{number:05d}", make(number))


if __name__ == "__main__":
    unittest.main()
