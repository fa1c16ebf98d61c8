#!/usr/bin/python3
"""Sends through services that are killed, over a network that fails, to a chat server that fails (B36-B45).

In each round eight clients of two users send texts and files, edit, delete, take back and send again in five channels,
while the service is killed and faults come and go. Then the faults end. Every accepted message must be upstream once,
in order, and look the same in the service; files byte for byte, and none of them is left in the spool. A file whose
upload was answered is not uploaded again. If files go with their messages, each is sent once, and once more for each
time that it came late: by a fault, or because its service was killed while it was on its way. PERCH_ROUNDS sets the
number of rounds; --help lists the options.
"""

import argparse
import collections
import hashlib
import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)) + "/../Tests/Clients")
from network import Proxy, free_port  # noqa: E402

PERCH = os.environ["TARGET_BINARY"]
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("PERCH_")}
CHANNELS = [f"c{number}" for number in range(5)]
USERS = ["alice", "bob"]
CLIENTS = 8
# How long clients work in a round, and how long the outbox may take to drain after the faults ended (s).
WORK, DRAIN = 1.5, 10
# How long after an answer its commit may come (s), not counting the time in which the machine or its disk stands still.
COMMIT = 1
# How long a client repeats a request that is not answered (s).
PERSISTENCE = 25


class Broken(Exception):
    """A promise was broken."""


class Program:
    """A server that this test started."""

    def __init__(self, log, *words):
        self.process = subprocess.Popen(
            [PERCH, *words], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=log, text=True)
        line = self.process.stdout.readline().split()
        if not line:
            raise Broken("the program did not start: " + " ".join(words))
        self.url = line[-1]

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def is_json(text):
    """Whether the service can read it. The chat server's fault `cut_body` answers with the first half alone."""
    try:
        json.loads(text)
        return True
    except ValueError:
        return False


class Network(Proxy):
    """A network that notes of each file's request that got a complete 200 when it began and when it was answered.

    `sends` has each request of a message with its file: when it began, and when its answer began or it ended.
    """

    # The name of a request's file is within its first so many bytes.
    HEAD = 8192

    def __init__(self, target):
        self.asked, self.said, self.began, self.answered = {}, {}, {}, collections.defaultdict(list)
        self.sends, self.under_way = collections.defaultdict(list), {}
        super().__init__(target)

    def passes(self, pair, is_asked, data, came):
        if is_asked:
            # If an answer came before, it is whole, and this is the next request.
            if self.said.pop(pair, None) is not None:
                self.asked.pop(pair, None)
            if pair not in self.asked:
                # Its service may have been killed while a slow network kept it back.
                self.began[pair] = came
            asked = self.asked.setdefault(pair, bytearray())
            asked += data[:max(0, self.HEAD - len(asked))]
            name = self.name(asked)
            if name and pair not in self.under_way and not self.is_upload(asked):
                self.under_way[pair] = [self.began[pair], None]
                self.sends[name].append(self.under_way[pair])
            return
        said = self.said.pop(pair, bytearray()) + data
        said = said.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
        if not said:
            return
        self.said[pair] = said
        self.end_send(pair)
        found = re.match(rb"HTTP/1.1 200 .*?content-length: (\d+).*?\r\n\r\n", said, re.S | re.I)
        if found and len(said) == found.end() + int(found[1]) and is_json(said[found.end():]):
            asked = bytes(self.asked.get(pair, b""))
            if name := self.name(asked):
                self.answered[name].append((self.began.get(pair, 0), time.monotonic(), self.is_upload(asked)))

    @staticmethod
    def name(asked):
        """The name of the file that the request brings."""
        found = re.search(rb'filename="([^"|]*)', asked) if asked.startswith(b"POST ") else None
        return found and found[1].decode()

    @staticmethod
    def is_upload(asked):
        return b"/storage/file " in asked.split(b"\r\n", 1)[0]

    def end_send(self, pair):
        if send := self.under_way.pop(pair, None):
            send[1] = time.monotonic()

    def end(self, pair):
        super().end(pair)
        self.end_send(pair)
        self.asked.pop(pair, None)
        self.said.pop(pair, None)
        self.began.pop(pair, None)


class Form:
    """A message with a file."""

    type = "multipart/form-data; boundary=b"

    def __init__(self, params, name, content):
        parts = [f'name="params"\r\n\r\n{json.dumps(params)}\r\n'.encode(),
                 f'name="file"; filename="{name}"\r\n\r\n'.encode() + content + b"\r\n"]
        random.shuffle(parts)
        self.data = b"".join(b"--b\r\nContent-Disposition: form-data; " + part for part in parts) + b"--b--\r\n"


def shown_text(message):
    """The text of a message; for a file its name, because the chat server keeps no text of a file."""
    return message["file"]["name"] if message.get("file", {}).get("name") else message["message"]


def ask(connection, method, path, body=None, headers=None):
    """Status and JSON of one answer."""
    form = isinstance(body, Form)
    data = body.data if form else None if body is None else json.dumps(body)
    connection.request(method, path, data, {"Content-Type": body.type if form else "application/json"} | (headers or {}))
    answer = connection.getresponse()
    text = answer.read()
    return answer.status, json.loads(text) if text else None


class Message:
    """A client's requests for one message, and the state that the message must have at the end."""

    def __init__(self, name, channel, client, number, text=None):
        self.name, self.channel, self.client, self.number = name, channel, client, number
        self.same, self.version, self.wanted, self.is_resent = text, 0, "present", False
        # SHA-256 of its file.
        self.file = None
        # Texts that it may have at the end.
        self.texts = {self.text}

    @property
    def text(self):
        return self.same or f"{self.name}|{self.version}"


class Client(threading.Thread):
    """One program of one user. It repeats each request, with the same key, until it has an answer."""

    def __init__(self, world, number):
        super().__init__(daemon=True)
        self.world, self.number, self.user = world, number, USERS[number % len(USERS)]
        self.random = random.Random(world.random.random())
        self.connection, self.messages, self.count, self.failure = None, [], 0, None

    def ask(self, method, path, body=None, key=None):
        """The answer, and whether an earlier one may have been lost."""
        end, is_repeated = time.monotonic() + PERSISTENCE, False
        headers = {"Perch-User": self.user} | ({"Idempotency-Key": key} if key else {})
        while True:
            try:
                if self.connection is None:
                    self.connection = http.client.HTTPConnection("127.0.0.1", self.world.port, timeout=5)
                status, found = ask(self.connection, method, path, body, headers)
                if status not in (503, 429):
                    return status, found, is_repeated
            except (OSError, http.client.HTTPException):
                self.connection.close()
                self.connection = None
                is_repeated = True
            if time.monotonic() > end:
                raise Broken(f"no answer to {method} {path}")
            time.sleep(0.05)

    def run(self):
        try:
            while time.monotonic() < self.world.work_ends:
                self.act()
                time.sleep(self.random.random() * 0.06)
        except Exception as error:  # The thread that waits reports it.
            self.failure = error

    def act(self):
        choice = self.random.random()
        known = [m for m in self.messages if not m.same]
        present = [m for m in known if m.wanted == "present"]
        texts = [m for m in present if not m.file]
        gone = [m for m in known if m.wanted == "gone"]
        if choice < 0.15 and texts:
            self.edit(self.random.choice(texts[-4:]))
        elif choice < 0.30 and present:
            self.remove(self.random.choice(present[-3:]))
        elif choice < 0.40 and gone:
            self.resend(self.random.choice(gone[-3:]))
        else:
            self.send()

    def path(self, message):
        return f"/v1/channels/{message.channel}/messages/request_id:{message.name}"

    def send(self):
        self.count += 1
        channel = self.random.choice(CHANNELS)
        name = f"{self.world.name}-{self.number}-{self.count}"
        same = f"{self.world.name} ok" if self.random.random() < 0.1 else None
        message = Message(name, channel, self.number, self.count, same)
        body = {"message": message.text, "request_id": name}
        if not same and self.random.random() < 1 / 3:
            content = self.random.randbytes(self.size())
            message.file = hashlib.sha256(content).hexdigest()
            body = Form({"request_id": name}, message.text, content)
        with self.world.turn(self.user, channel) as turn:
            status, found, _ = self.ask("POST", f"/v1/channels/{channel}/messages", body)
            message.turn = turn
        if status not in (201, 202):
            raise Broken(f"send {name}: {status} {found}")
        self.messages.append(message)

    def size(self):
        """The size of a file: mostly small, sometimes the largest that is allowed."""
        return self.random.choice([1, 8191, 8192, 65536, 300_000]) if self.random.random() < 0.99 else 26_214_400

    def edit(self, message):
        self.count += 1
        message.version += 1
        status, found, is_repeated = self.ask(
            "PATCH", self.path(message), {"message": message.text}, f"{self.world.name}-{self.number}-{self.count}")
        if status == 202:
            message.texts = {message.text}
        else:
            raise Broken(f"edit {message.name}: {status} {found}")

    def remove(self, message):
        self.count += 1
        status, found, is_repeated = self.ask(
            "DELETE", self.path(message), key=f"{self.world.name}-{self.number}-{self.count}")
        if status not in (202, 204) and not (status == 404 and is_repeated):
            raise Broken(f"remove {message.name}: {status} {found}")
        message.wanted = "gone"

    def resend(self, message):
        status, found, is_repeated = self.ask("POST", self.path(message) + "/resend")
        if status in (201, 202):
            message.wanted = "present"
            message.is_resent = True
        elif is_repeated:
            message.wanted = "either"
            message.is_resent = True
        elif status not in (404, 409):
            raise Broken(f"resend {message.name}: {status} {found}")


class Turn:
    """Numbers one user's messages in one channel; in some rounds sends them one at a time, so that the order is known."""

    def __init__(self, is_kept):
        self.lock, self.is_kept, self.count = threading.Lock(), is_kept, 0

    def __enter__(self):
        if self.is_kept:
            self.lock.acquire()
        self.count += 1
        return self.count

    def __exit__(self, *_):
        if self.is_kept:
            self.lock.release()


class Stillness:
    """Notes when the machine or its disk stands still: a small write and its sync that take long."""

    def __init__(self, place):
        self.file, self.stops = open(place + "/stillness", "wb", buffering=0), []
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        while True:
            began = time.monotonic()
            self.file.write(b".")
            os.fsync(self.file.fileno())
            time.sleep(0.05)
            if time.monotonic() - began > 0.2:
                self.stops.append((began, time.monotonic()))

    def between(self, began, ended):
        """How long the machine stood still between two moments (s)."""
        return sum(max(0, min(end, ended) - max(begin, began)) for begin, end in self.stops)


class World:
    """A chat server, a network, a service, and its clients."""

    def __init__(self, options):
        self.options, self.random = options, random.Random(options.seed)
        self.place = tempfile.TemporaryDirectory()
        self.log = open(self.place.name + "/log", "w")
        self.stillness = Stillness(self.place.name)
        self.port, self.killed = free_port(), 0
        # When the service was killed or its connections ended; how often a file was uploaded or sent again.
        self.ends, self.again, self.files_sent = [], collections.Counter(), 0
        self.origin = Program(
            self.log, "origin", "--listen", "127.0.0.1:0", "--seed", "none", "--clock-offset", options.clock_offset,
            "--webhook", f"http://127.0.0.1:{self.port}/v1/webhooks/sendbird")
        self.origin_port = int(self.origin.url.rsplit(":", 1)[1])
        self.proxy = Network(self.origin_port)
        self.there("PUT", "/_faults", self.desk([]))
        for user in USERS:
            self.there("POST", "/v3/users", {"user_id": user, "nickname": user, "profile_url": ""})
        for channel in CHANNELS:
            self.there("POST", "/v3/group_channels", {"channel_url": channel, "name": channel, "user_ids": USERS})
        self.start()
        for user in USERS:
            self.until(20, lambda: self.connected(user), f"{user} is not synced")

    def desk(self, faults):
        return {"seed": self.random.randrange(1 << 30), "faults": faults, "capabilities": {
            "dedup": self.options.dedup, "request_ids": self.options.request_ids == "yes",
            "uploads": self.options.uploads == "yes"}}

    def there(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.origin_port, timeout=10)
        status, found = ask(connection, method, path, body, {"Api-Token": "origin"})
        connection.close()
        if status != 200:
            raise Broken(f"{method} {path} upstream: {status} {found}")
        return found

    def here(self, user, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            return ask(connection, method, path, body, {"Perch-User": user})
        finally:
            connection.close()

    def start(self):
        self.service = Program(
            self.log, "serve", "--listen", f"127.0.0.1:{self.port}", "--auth", "off", "--access-log", "off",
            "--data", self.place.name + "/data", "--upstream", f"http://127.0.0.1:{self.proxy.port}",
            "--upstream-token", "origin", "--backoff-max", "2s", "--uncertain-grace", "3s",
            "--upstream-deduplicates", "yes" if self.options.dedup == "first" else "no")

    def cut(self, act):
        """Ends the service or its connections, and notes from when until when that took."""
        began = time.monotonic()
        act()
        self.ends.append((began, time.monotonic()))

    def restart(self):
        self.cut(self.service.kill)
        self.killed += 1
        self.start()

    def connected(self, user):
        status, found = self.here(user, "PUT", "/v1/connection", {})
        return status == 200 and self.here(user, "GET", "/v1/channels?limit=10")[1].get("complete")

    def until(self, seconds, is_so, complaint):
        end = time.monotonic() + seconds
        while not is_so():
            if time.monotonic() > end:
                raise Broken(complaint() if callable(complaint) else complaint)
            time.sleep(0.05)

    def turn(self, user, channel):
        return self.turns[user, channel]

    # A round

    def round(self, number):
        self.name, began = f"r{number}", time.monotonic()
        is_kept = self.random.random() < 0.5
        self.turns = {(user, channel): Turn(is_kept) for user in USERS for channel in CHANNELS}
        self.work_ends = began + WORK
        clients = [Client(self, client) for client in range(CLIENTS)]
        for client in clients:
            client.start()
        self.storm(began)
        self.heal()
        for client in clients:
            client.join(PERSISTENCE + 10)
            if client.failure or client.is_alive():
                raise Broken(client.failure or f"client {client.number} never ended")
        healed = time.monotonic()
        self.until(self.options.drain, lambda: not self.pending(), lambda: f"still pending: {self.pending()}; {self.metrics()}")
        drained = time.monotonic() - healed
        messages = [m for client in clients for m in client.messages]
        self.since, self.files = getattr(self, "since", {}), {}
        # The network may deliver a message after the service took it back and looked for it. The service then deletes
        # it.
        self.until(self.options.drain, lambda: not self.taken_back(messages),
                   lambda: f"taken back, and upstream: {self.taken_back(messages)}")
        self.check_there(messages, is_kept)
        self.until(self.options.drain, lambda: not self.differences(), lambda: f"not the same here: {self.differences()}")
        self.until(self.options.drain, lambda: self.spool()[0] == self.spool()[1],
                   lambda: f"files in the spool, and rows that have one: {self.spool()}")
        self.check_rows(messages)
        return len(messages), drained

    def storm(self, began):
        kills = sorted(began + self.random.random() * WORK for _ in range(self.random.randrange(1, 3)))
        while time.monotonic() < self.work_ends:
            self.break_something()
            time.sleep(self.random.random() * 0.3)
            if kills and time.monotonic() > kills[0]:
                kills.pop(0)
                self.restart()
        if self.random.random() < 0.3:
            self.restart()

    def break_something(self):
        share = {"probability": 0.4, "path": "/v3/group_channels/*/messages*"}
        late = {"kind": "late", "milliseconds": self.random.randrange(50, 1000), "cut": self.random.random() < 0.5}
        kind = self.random.choice([
            None, {"kind": "lose_reply"}, {"kind": "dark"}, late, {"kind": "status", "status": 500}, {"kind": "html"},
            {"kind": "status", "status": 429, "retry_after": 1}, {"kind": "cut_body"},
            {"kind": "drop_webhook"}, {"kind": "shuffle_webhook"}, {"kind": "cut_upload", "bytes": 5000},
            "refuse", "cut", "slow"])
        self.proxy.fault = kind if isinstance(kind, str) else None
        is_webhook = isinstance(kind, dict) and "webhook" in kind["kind"]
        if kind is late:
            # An edit that the network delays until after a later edit would undo the later one.
            share["path"] = "/v3/group_channels/*/messages"
        if isinstance(kind, dict) and not is_webhook and self.random.random() < 0.4:
            share["path"] = "/v3/storage/file"
        faults = [kind | (share | ({"path": "*"} if is_webhook else {}))] if isinstance(kind, dict) else []
        self.there("PUT", "/_faults", self.desk(faults))

    def heal(self):
        """The network is back. Connections that hang are ended."""
        self.proxy.fault = None
        self.there("PUT", "/_faults", self.desk([]))
        self.cut(self.proxy.reset)

    def pending(self):
        """The rows that are not done yet, also those taken back that the service must still delete upstream."""
        rows = []
        for user in USERS:
            for query in ("status=pending&limit=20", "status=canceled&limit=200"):
                status, found = self.here(user, "GET", "/v1/outbox?" + query)
                rows += [row for row in found["items"] if row["state"] != "canceled"] if status == 200 else [status]
        return rows

    # The results

    def upstream(self, channel):
        """The round's messages in their order: id, sender, text."""
        found, after = [], self.since.get(channel, 0)
        while True:
            query = urllib.parse.urlencode({
                "message_ts": after, "prev_limit": 0, "next_limit": 200, "include": "false", "is_sdk": "false"})
            page = self.there("GET", f"/v3/group_channels/{channel}/messages?{query}")["messages"]
            new = [m for m in page if m["message_id"] not in {id for id, _, _ in found}]
            found += [(m["message_id"], m["user"]["user_id"], shown_text(m)) for m in new]
            self.files |= {shown_text(m).split("|")[0]: m["file"]["url"] for m in new if m["type"] == "FILE"}
            if len(page) < 200:
                break
            after = page[-1]["created_at"] - 1
        return [m for m in found if m[2].startswith(self.name + "-") or m[2].startswith(self.name + " ")]

    def taken_back(self, messages):
        """The messages upstream that were taken back in the service, with their state there."""
        gone = {m.name: m for m in messages if m.wanted == "gone"}
        there = [text.split("|")[0] for channel in CHANNELS for _, _, text in self.upstream(channel)]
        return [(name, self.state_of(gone[name])) for name in there if name in gone]

    def check_there(self, messages, is_kept):
        self.files = {}
        self.arrived = {channel: self.upstream(channel) for channel in CHANNELS}
        self.check_once(messages)
        self.check_files(messages)
        self.check_uploads(messages)
        for channel, arrived in self.arrived.items():
            places = {text.split("|")[0]: place for place, (_, _, text) in enumerate(arrived) if "|" in text}
            lines = collections.defaultdict(list)
            for m in messages:
                if m.channel == channel and not m.is_resent and m.name in places:
                    lines[m.client].append((m.number, m.name))
                    if is_kept:
                        lines[USERS[m.client % len(USERS)]].append((m.turn, m.name))
            for who, line in lines.items():
                order = [places[name] for _, name in sorted(line)]
                if order != sorted(order):
                    fates = {m.name: (m.wanted, m.version) for m in messages if m.name in places}
                    raise Broken(f"{who} in {channel}: {sorted(line)} arrived as {arrived}: {fates}")

    def check_once(self, messages):
        arrived = collections.defaultdict(list)
        same = collections.Counter()
        for channel, found in self.arrived.items():
            for _, user, text in found:
                if "|" in text:
                    arrived[text.split("|")[0]].append(text)
                else:
                    same[channel, user] += 1
        for m in messages:
            if m.same:
                same[m.channel, USERS[m.client % len(USERS)]] -= 1
                continue
            found = arrived.pop(m.name, [])
            if len(found) > 1:
                raise Broken(f"{m.name} is upstream {len(found)} times: {found}")
            if m.wanted == "present" and (not found or found[0] not in m.texts):
                raise Broken(f"{m.name} should be upstream as {m.texts}, and is {found}: {self.state_of(m)}")
            if m.wanted == "gone" and found:
                raise Broken(f"{m.name} was taken back and is upstream: {found}: {self.state_of(m)}")
        if arrived or any(same.values()):
            raise Broken(f"too many or too few upstream: {dict(arrived)} {same}")

    def check_files(self, messages):
        """Files are upstream byte for byte."""
        for m in messages:
            if m.file and m.name in self.files:
                connection = http.client.HTTPConnection("127.0.0.1", self.origin_port, timeout=20)
                connection.request("GET", urllib.parse.urlparse(self.files[m.name]).path)
                found = hashlib.sha256(connection.getresponse().read()).hexdigest()
                connection.close()
                if found != m.file:
                    raise Broken(f"the file of {m.name} is another one upstream")

    def check_uploads(self, messages):
        """No file whose upload was answered was uploaded again; without uploads files were sent again only if they came late."""
        counts = {count["name"].split("|")[0]: count for count in self.there("GET", "/_files")["files"]}
        for m in messages:
            count = counts.get(m.name)
            if not m.file or not count:
                continue
            if count["sends" if self.options.uploads == "yes" else "uploads"]:
                raise Broken(f"the file of {m.name} went the wrong way: {count}")
            # A service that was killed while it sent leaves bytes on their way, which may come after its next look.
            late = count["late"] + sum(any(began <= ended and end <= (over or end) for end, ended in self.ends)
                                       for began, over in self.proxy.sends[m.name])
            if self.options.uploads == "no" and count["sends"] > 1 + late:
                raise Broken(f"the file of {m.name} was sent too often: {count}, sent {self.proxy.sends[m.name]}, "
                             f"ends {self.ends[-4:]}")
            self.files_sent += 1
            self.again["sent"] += max(0, count["sends"] - 1)
            answers = [(began, when) for began, when, is_upload in self.proxy.answered[m.name] if is_upload]
            for began, when in answers[:-1]:
                # The service or its connection ended before the answer came or before its commit.
                if not any(began <= ended and end <= when + COMMIT + self.stillness.between(when, end)
                           for end, ended in self.ends) and not m.is_resent:
                    raise Broken(f"the file of {m.name} was uploaded again: {count}, answered {answers}, "
                                 f"ends {self.ends[-4:]}, stood still {self.stillness.stops[-4:]}")
                self.again["uploaded"] += 1

    def spool(self):
        """The number of files in the spool, and of rows that may have one."""
        rows = 0
        for user in USERS:
            status, found = self.here(user, "GET", "/v1/outbox?limit=200")
            rows += sum(row["kind"] == "file" for row in found["items"]) if status == 200 else 0
        return len(os.listdir(self.place.name + "/data/spool")), rows

    def state_of(self, message):
        user = USERS[message.client % len(USERS)]
        return (self.here(user, "GET", f"/v1/outbox/{message.name}"),
                self.here(user, "GET", f"/v1/channels/{message.channel}/messages/request_id:{message.name}"))

    def differences(self):
        """The first difference between the service's messages and the chat server's."""
        for user in USERS:
            for channel, arrived in self.arrived.items():
                status, page = self.here(user, "GET", f"/v1/channels/{channel}/messages?limit=200")
                if status != 200:
                    return status, page
                shown = [(int(m["message_id"]), m["sender"]["user_id"], shown_text(m)) for m in page["items"]
                         if shown_text(m).startswith((self.name + "-", self.name + " "))]
                if shown != arrived:
                    return user, channel, [m for m in shown if m not in arrived], [m for m in arrived if m not in shown]
                for m in page["items"]:
                    name = shown_text(m).split("|")[0]
                    if m["sender"]["user_id"] == user and name.startswith(self.name + "-") and m["request_id"] != name:
                        return user, channel, f"{name} is the answer to {m['request_id']!r}"
        return None

    def check_rows(self, messages):
        """Only rows that were taken back are left, and they can be removed."""
        gone = {m.name for m in messages if m.wanted != "present"}
        for user in USERS:
            _, found = self.here(user, "GET", "/v1/outbox?limit=200")
            for row in found["items"]:
                if row["status"] != "canceled" or row["request_id"] not in gone:
                    raise Broken(f"left in the outbox: {row}")
            for channel in CHANNELS:
                status, _ = self.here(user, "DELETE", f"/v1/channels/{channel}/messages?status=failed")
                if status != 200:
                    raise Broken(f"removing what failed: {status}")
        for channel, arrived in self.arrived.items():
            if arrived:
                newest = self.there("GET", f"/v3/group_channels/{channel}/messages/{arrived[-1][0]}")
                self.since[channel] = newest["created_at"]

    # What the metrics count

    def metrics(self):
        """The metrics of sending, by name and label."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
        connection.close()
        found = {}
        for line in lines:
            if line.startswith(("perch_sending_", "perch_outbox_", "perch_uploads_")):
                name, value = line.rsplit(" ", 1)
                label = name.split('"')[1] if '"' in name else ""
                found[name.split("{")[0].removeprefix("perch_"), label] = int(value)
        return found

    def counted(self, seconds, searched=None, **wanted):
        """Waits until the ended requests are counted as `wanted`, and no others.

        With `searched` they may also be counted with so many done: the last one was a search then.
        """
        def ends():
            return {end: count for (name, end), count in self.metrics().items()
                    if name == "sending_requests_total" and count}
        either = (wanted, wanted | {"done": searched}) if searched else (wanted,)
        self.until(seconds, lambda: ends() in either, lambda: f"metrics: {ends()} and not {wanted}")

    def check_metrics(self):
        """Sends one message for each way in which a request can end, and checks the counts."""
        self.restart()
        self.until(20, lambda: self.connected("alice"), "alice is not synced")
        sends = {"path": "/v3/group_channels/*/messages", "method": "POST", "count": 1}

        def send(name, *faults):
            self.there("PUT", "/_faults", self.desk([sends | fault for fault in faults]))
            status, found = self.here(
                "alice", "POST", "/v1/channels/c0/messages", {"message": name, "request_id": f"metrics-{name}"})
            if status != 202:
                raise Broken(f"send {name}: {status} {found}")

        send("done")
        self.counted(10, done=1)
        quiet = {"kind": "drop_webhook", "path": "*", "count": 9}
        send("refused", {"kind": "deny", "code": 900060})
        self.counted(10, done=1, rejected=1)
        rows = {label: count for (name, label), count in self.metrics().items() if name == "outbox_rows"}
        if rows != {"pending": 0, "failed": 1, "canceled": 0}:
            raise Broken(f"metrics: {rows}")
        send("slowed", {"kind": "status", "status": 429, "retry_after": 1})
        self.counted(10, done=2, rejected=1, rate_limited=1)
        send("lost", {"kind": "lose_reply"}, quiet)
        self.until(20, lambda: not self.pending(), "the lost one is not found")
        # A poll finds the message, also before its request ends, or else a search.
        self.counted(20, searched=3, done=2, rejected=1, rate_limited=1, uncertain=1)
        self.proxy.fault = "refuse"
        self.proxy.reset()
        send("waits")
        time.sleep(1.1)
        found = self.metrics()
        if found["outbox_rows", "pending"] != 1 or not 1 <= found["outbox_oldest_seconds", ""] <= 30:
            raise Broken(f"metrics: {found}")
        self.heal()
        self.until(20, lambda: not self.pending(), "it never left")

    # At the pace that the chat server allows

    def pace(self):
        """How long 200 messages in 10 channels take if the chat server takes 5 a second (s)."""
        channels = [f"paced{number}" for number in range(10)]
        for channel in channels:
            self.there("POST", "/v3/group_channels", {"channel_url": channel, "name": channel, "user_ids": USERS})
        path = "/v1/channels?limit=50&include_empty=true"
        self.until(20, lambda: len(self.here("alice", "GET", path)[1]["items"]) == 15, "no channels")
        limit = {"path": "/v3/group_channels/*/messages", "method": "POST", "requests": 5, "seconds": 1}
        self.there("PUT", "/_faults", self.desk([]) | {"rate_limits": [limit]})
        began = time.monotonic()
        for number in range(200):
            body = {"message": f"paced {number}", "request_id": f"paced-{number}"}
            status, found = self.here("alice", "POST", f"/v1/channels/{channels[number % 10]}/messages", body)
            if status != 202:
                raise Broken(f"send {number}: {status} {found}")
        self.until(90, lambda: not self.here("alice", "GET", "/v1/outbox?limit=1")[1]["items"], "never sent")
        taken = time.monotonic() - began
        for place, channel in enumerate(channels):
            page = self.there("GET", f"/v3/group_channels/{channel}/messages?message_ts=0&prev_limit=0&next_limit=100")
            texts = [m["message"] for m in page["messages"]]
            if texts != [f"paced {number}" for number in range(place, 200, 10)]:
                raise Broken(f"{channel} has {texts}")
        if not 39.5 <= taken <= 44:
            raise Broken(f"200 messages at 5 a second took {taken:.1f} s")
        return taken

    def end(self):
        self.service.process.send_signal(signal.SIGTERM)
        code = self.service.process.wait(timeout=30)
        self.origin.kill()
        if code != 0:
            raise Broken(f"the service ended with {code}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=int(os.environ.get("PERCH_ROUNDS", "10")))
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--dedup", choices=["first", "off", "error"], default="first")
    parser.add_argument("--request-ids", choices=["yes", "no"], default="yes")
    parser.add_argument("--uploads", choices=["yes", "no"], default="yes", help="whether files are uploaded by themselves")
    parser.add_argument("--clock-offset", default="0")
    parser.add_argument("--drain", type=float, default=DRAIN)
    parser.add_argument("--paced", action="store_true", help="200 messages where 5 a second are allowed, nothing else")
    parser.add_argument("--keep-log", default="", help="where the log goes when something is broken")
    options = parser.parse_args()
    world, sent, longest, began = World(options), 0, 0.0, time.monotonic()
    try:
        if options.paced:
            print(f"sending: 200 messages where 5 a second are allowed took {world.pace():.1f} s")
            return world.end()
        for number in range(options.rounds):
            try:
                count, drained = world.round(number)
            except Broken as broken:
                if options.keep_log:
                    world.log.flush()
                    os.replace(world.place.name + "/log", options.keep_log)
                sys.exit(f"sending: round {number} of seed {options.seed}: {broken}")
            sent, longest = sent + count, max(longest, drained)
        try:
            world.check_metrics()
        except Broken as broken:
            sys.exit(f"sending: {broken}")
        world.end()
    finally:
        if world.service.process.poll() is None:
            world.service.kill()
        if world.origin.process.poll() is None:
            world.origin.kill()
    print(f"sending: {options.rounds} rounds with deduplication {options.dedup}, request ids {options.request_ids}, "
          f"uploads {options.uploads}, clock {options.clock_offset}: {sent} messages, {world.files_sent} files, "
          f"{world.again['uploaded']} uploaded and {world.again['sent']} sent once more, {world.killed} kills, "
          f"drained within {longest:.1f} s, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
