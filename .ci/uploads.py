#!/usr/bin/python3
"""Uploads of clients to a real service (B45): a client that may not send stores nothing and costs nothing, a slow line
delivers, a stopped one is cut, files wait offline, uploads take no memory, texts overtake files.

FLOOD is the number of connections that push at once, SLOW_BYTES the bytes that the slow line delivers at 16 KiB/s.
PAGES_KEPT is the share of its pages that the service must still answer beside such connections; without it pages are
not measured.
"""

import ctypes
import hashlib
import http.client
import json
import multiprocessing
import os
import random
import re
import select
import socket
import statistics
import struct
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.parse

PERCH = os.environ["TARGET_BINARY"]
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("PERCH_")}
FLOOD = int(os.environ.get("FLOOD", "1000"))
SLOW_BYTES = int(os.environ.get("SLOW_BYTES", "262144"))
PAGES_KEPT = float(os.environ.get("PAGES_KEPT", "0"))
LARGEST = 26_214_400
TYPE = "multipart/form-data; boundary=b"
BEFORE = b'--b\r\nContent-Disposition: form-data; name="file"; filename="f.bin"\r\n\r\n'
AFTER = b"\r\n--b--\r\n"


class Watch:
    """Counts the events of files in a folder, also of files that are gone again: created, moved there, written."""

    def __init__(self, path):
        self.system = ctypes.CDLL(None, use_errno=True)
        self.file = self.system.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.system.inotify_add_watch(self.file, path.encode(), 0x100 | 0x80 | 0x02) < 0:
            raise OSError(ctypes.get_errno(), path)

    def count(self):
        """How many such events there were since the last call."""
        found = 0
        while True:
            try:
                data = os.read(self.file, 65536)
            except BlockingIOError:
                return found
            while data:
                found, data = found + 1, data[16 + struct.unpack_from("iIII", data)[3]:]

    def end(self):
        os.close(self.file)


class Uploads(unittest.TestCase):
    def setUp(self):
        self.place, self.running = tempfile.TemporaryDirectory(), []
        self.start_origin("127.0.0.1:0")
        self.start_service()
        for user in ("alice", "bob"):
            self.until("a channel", lambda: self.ask("GET", "/v1/channels?limit=9", user=user)[1].get("complete"))
        urls = [{c["channel_url"] for c in self.ask("GET", "/v1/channels?limit=100", user=user)[1]["items"]}
                for user in ("alice", "bob")]
        self.mine = [self.path(url) for url in sorted(urls[0]) if url != "announcements"]  # Alice may not send there.
        self.foreign = self.path(min(urls[1] - urls[0]))

    def tearDown(self):
        for process in self.running:
            process.kill()
            process.wait()
            process.stdout.close()
        self.place.cleanup()

    @staticmethod
    def path(url):
        return f"/v1/channels/{urllib.parse.quote(url, safe='')}/messages"

    def start_origin(self, address):
        self.origin = self.start("origin", "--listen", address, "--data", self.place.name + "/origin")

    def start_service(self):
        self.service = self.start(
            "serve", "--listen", "127.0.0.1:0", "--auth", "off", "--access-log", "off",
            "--data", self.place.name + "/data", "--upstream", self.origin[1], "--upstream-token", "origin",
            "--backoff-max", "1s")

    @staticmethod
    def stop(program):
        program[0].kill()
        program[0].wait()

    def start(self, *words):
        process = subprocess.Popen(
            [PERCH, *words], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.running.append(process)
        return process, process.stdout.readline().split()[-1]

    def until(self, what, condition, seconds=30):
        end = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.05)

    def ask(self, method, path, body=None, user="alice", headers=None, server=None):
        connection = http.client.HTTPConnection((server or self.service[1]).removeprefix("http://"), timeout=120)
        is_form = isinstance(body, bytes)
        own = {"Perch-User": user, "Api-Token": "origin", "Content-Type": TYPE if is_form else "application/json"}
        connection.request(
            method, path, body if body is None or is_form else json.dumps(body), own | (headers or {}))
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, json.loads(text) if text.startswith((b"{", b"[")) else text

    def memory(self):
        """Anonymous memory of the service, in bytes."""
        with open(f"/proc/{self.service[0].pid}/status") as file:
            return int(re.search(r"RssAnon:\s+(\d+)", file.read())[1]) * 1024

    def spooled(self):
        return os.listdir(self.place.name + "/data/spool")

    def head(self, path, user, length, more=""):
        name = f"Perch-User: {user}\r\n" if user else ""
        return (f"POST {path} HTTP/1.1\r\nHost: {self.host()}\r\n{name}Content-Type: {TYPE}\r\n"
                f"Content-Length: {length}\r\n{more}\r\n").encode()

    def host(self):
        return self.service[1].removeprefix("http://")

    def connect(self):
        host, port = self.host().split(":")
        return socket.create_connection((host, int(port)), timeout=60)

    # A token that is missing, and one for another user's channel.
    def crowds(self):
        return (self.mine[0], None, b"401"), (self.foreign, "alice", b"404")

    def test_B45_a_crowd_that_may_not_send_stores_nothing_and_costs_nothing(self):
        watch = Watch(self.place.name + "/data/spool")
        for path, user, status in self.crowds():
            one = self.connect()
            one.sendall(self.head(path, user, LARGEST))
            self.assertEqual(one.recv(65536)[9:12], status)
            one.close()
            rest, sockets = self.memory(), [self.connect() for _ in range(FLOOD)]
            for one in sockets:
                one.sendall(self.head(path, user, LARGEST) + BEFORE)
                one.setblocking(False)
            most, end, left = 0, time.monotonic() + 20, set(sockets)
            while left and time.monotonic() < end:
                _, writable, _ = select.select([], list(left)[:500], [], 0.1)
                for one in writable:
                    try:
                        one.send(b"x" * 65536)
                    except BlockingIOError:
                        pass
                    except OSError:
                        left.discard(one)
                most = max(most, self.memory())
            for one in sockets:
                one.close()
            print(f"{FLOOD} connections of {user or 'nobody'}: {(most - rest) / 1e6:.1f} MB more, "
                  f"{len(left)} still open")
            self.assertEqual((watch.count(), self.spooled(), len(left)), (0, [], 0))
            self.assertLess(most - rest, 8e6)
        # A stored file shows that the watch works.
        self.assertEqual(self.ask("POST", self.mine[0], BEFORE + b"x" + AFTER)[0], 202)
        self.assertGreater(watch.count(), 0)
        watch.end()

    @unittest.skipUnless(PAGES_KEPT, "PAGES_KEPT is not set")
    def test_B45_pages_beside_a_crowd_that_may_not_send(self):
        watch, seconds = Watch(self.place.name + "/data/spool"), 3
        for path, user, _ in self.crowds():
            ratios = []
            for _ in range(5):
                alone, made = self.pages(seconds), multiprocessing.Value("i")
                crowd = multiprocessing.Process(target=self.push, args=(path, user, FLOOD / seconds, made))
                crowd.start()
                ratios.append(self.pages(seconds) / alone)
                crowd.kill()
                crowd.join()
                self.assertGreater(made.value, FLOOD * 0.8)
            print(f"pages beside {FLOOD} connections of {user or 'nobody'} in {seconds} s: "
                  + " ".join(f"{ratio:.2f}" for ratio in ratios)
                  + f", median {statistics.median(ratios):.2f} (goal 0.8)")
            self.assertEqual((watch.count(), self.spooled()), (0, []))
            self.assertGreaterEqual(statistics.median(ratios), PAGES_KEPT)
        watch.end()

    def pages(self, seconds):
        """Pages a second that the service answers."""
        url = f"{self.service[1]}{self.mine[0]}?limit=30"
        said = subprocess.run(["wrk", "-t1", "-c8", f"-d{seconds}", "-H", "Perch-User: alice", url],
                              capture_output=True, text=True, check=True).stdout
        self.assertNotIn("Non-2xx", said)
        return float(re.search(r"Requests/sec:\s+([0-9.]+)", said)[1])

    def push(self, path, user, rate, made):
        """Opens `rate` connections a second, each of which pushes until the service ends it; counts them in `made`."""
        began, left = time.monotonic(), set()
        while True:
            while made.value < (time.monotonic() - began) * rate:
                one = self.connect()
                one.sendall(self.head(path, user, LARGEST) + BEFORE)
                one.setblocking(False)
                left.add(one)
                made.value += 1
            for one in select.select([], list(left)[:500], [], 0.01)[1]:
                try:
                    one.send(b"x" * 65536)
                except BlockingIOError:
                    pass
                except OSError:
                    left.discard(one)
                    one.close()

    def test_B45_a_slow_line_delivers_and_one_that_stops_is_gone(self):
        stopped = self.connect()
        stopped.sendall(self.head(self.mine[0], "alice", LARGEST) + BEFORE + b"x" * 10_000)
        began = time.monotonic()
        body = BEFORE + b"y" * SLOW_BYTES + AFTER
        slow = self.connect()
        slow.sendall(self.head(self.mine[0], "alice", len(body), "Connection: close\r\n"))
        for place in range(0, len(body), 4096):
            slow.sendall(body[place:place + 4096])
            time.sleep(0.25)
        self.assertIn(b"HTTP/1.1 202", slow.recv(65536))
        self.assertEqual(stopped.recv(100), b"")
        self.until("the bytes are gone", lambda: not self.spooled(), 20)
        print(f"{SLOW_BYTES} bytes at 16 KiB/s came in {time.monotonic() - began:.0f} s")

    def test_B45_a_client_that_stops_is_gone_within_20_seconds(self):
        stopped, began = self.connect(), time.monotonic()
        stopped.sendall(self.head(self.mine[0], "alice", LARGEST) + BEFORE + b"x" * 100_000)
        self.until("its bytes come in", self.spooled, 5)
        self.assertEqual(stopped.recv(100), b"")
        self.assertLess(time.monotonic() - began, 20)
        stopped.close()
        self.until("its bytes are gone", lambda: not self.spooled(), 5)

    def test_B45_files_of_eight_clients_wait_offline_over_a_restart_and_all_arrive(self):
        users, hashes, statuses = ("alice", "bob"), {}, {}
        cursors = {user: self.ask("GET", "/v1/events?wait=0", user=user)[1]["cursor"] for user in users}
        # Both users are in these channels.
        shared = self.mine[:1] + self.mine[2:]
        self.stop(self.origin)

        def client(number):
            for place in range(number, 30, 8):
                name = f"offline-{place}"
                content = random.Random(place).randbytes((1, 8192, 70_000, 300_000, 3_000_000)[place % 5])
                form = BEFORE.replace(b"f.bin", name.encode()) + content + AFTER
                hashes[name] = hashlib.sha256(content).hexdigest()
                statuses[name] = self.ask(
                    "POST", shared[place % len(shared)], form, users[number % 2], {"Idempotency-Key": name})[0]

        clients = [threading.Thread(target=client, args=(number,)) for number in range(8)]
        for one in clients:
            one.start()
        for one in clients:
            one.join()
        self.assertEqual(statuses, {f"offline-{place}": 202 for place in range(30)})
        self.stop(self.service)
        self.start_service()
        unsent = [row["request_id"] for user in users
                  for row in self.ask("GET", "/v1/outbox?limit=100", user=user)[1]["items"]]
        self.assertEqual((sorted(unsent), len(self.spooled())), (sorted(hashes), 30))
        self.start_origin(self.origin[1].removeprefix("http://"))
        # Some uploads end in the middle and begin again. Their progress stays.
        cut = {"kind": "cut_upload", "bytes": 2_000_000, "path": "/v3/storage/file", "count": 8}
        self.assertEqual(self.ask("PUT", "/_faults", {"faults": [cut]}, server=self.origin[1])[0], 200)
        self.until("all are sent", lambda: not any(
            self.ask("GET", "/v1/outbox?limit=1", user=user)[1]["items"] for user in users), 120)
        self.until("no file is left", lambda: not self.spooled())
        self.assertEqual(sorted(self.arrived(shared)), sorted(hashes.items()))
        progress = {name: [] for name in hashes}
        for user, cursor in cursors.items():
            for name, percent in self.progress(user, cursor):
                progress[name].append(percent)
        for name, percents in progress.items():
            self.assertEqual((percents, percents[-1:]), (sorted(percents), [100]), name)
        ends = {end: int(count) for end, count in re.findall(
            r'(?m)^perch_uploads_total{end="(\w+)"} (\d+)', self.ask("GET", "/metrics")[1].decode())}
        print(f"30 files of 8 clients: {sum(map(len, progress.values()))} steps of progress, uploads {ends}")
        self.assertEqual((ends["done"], ends["refused"]), (30, 0))
        self.assertGreaterEqual(ends["interrupted"], 8)

    def arrived(self, paths):
        """The name and SHA-256 of each file that the chat server has in these channels."""
        for path in paths:
            channel = path.removeprefix("/v1/channels/")
            newest = f"message_ts={10 ** 15}&prev_limit=200&next_limit=0"
            status, page = self.ask("GET", f"/v3/group_channels/{channel}?{newest}", server=self.origin[1])
            self.assertEqual(status, 200, page)
            for message in page["messages"]:
                if message["type"] == "FILE" and message["file"]["name"].startswith("offline-"):
                    content = self.content(urllib.parse.urlparse(message["file"]["url"]).path)
                    yield message["file"]["name"], hashlib.sha256(content).hexdigest()

    def content(self, path):
        """The bytes of a file at the chat server."""
        connection = http.client.HTTPConnection(self.origin[1].removeprefix("http://"), timeout=60)
        connection.request("GET", path)
        content = connection.getresponse().read()
        connection.close()
        return content

    def progress(self, user, cursor):
        """The upload progress in the user's events after the cursor: request id and percent, in order."""
        while True:
            status, page = self.ask("GET", f"/v1/events?wait=0&since={cursor}", user=user)
            self.assertEqual(status, 200, page)
            for event in page["events"]:
                if event["type"] == "upload.progress":
                    yield event["progress"]["request_id"], event["progress"]["percent"]
            if not page["has_more"]:
                return
            cursor = page["cursor"]

    def test_B45_eight_large_files_in_and_out_take_no_memory(self):
        self.ask("POST", self.mine[0], BEFORE + b"x" * LARGEST + AFTER)
        self.until("it is sent", lambda: not self.spooled(), 60)
        time.sleep(1)
        rest, most, statuses = self.memory(), 0, []
        body = BEFORE + b"z" * LARGEST + AFTER
        threads = [threading.Thread(target=lambda path=path: statuses.append(self.ask("POST", path, body)[0]))
                   for path in (self.mine * 2)[:8]]
        for thread in threads:
            thread.start()
        end = time.monotonic() + 120
        while any(thread.is_alive() for thread in threads) or self.spooled():
            most = max(most, self.memory())
            self.assertLess(time.monotonic(), end, "they are not sent")
            time.sleep(0.02)
        print(f"eight files of 25 MiB in and out: {(most - rest) / 1e6:.1f} MB more")
        self.assertEqual(statuses, [202] * 8)
        self.assertLess(most - rest, 8e6)

    def test_B45_a_text_goes_past_uploads(self):
        fault = {"kind": "dark", "path": "/v3/storage/file"}
        self.assertEqual(self.ask("PUT", "/_faults", {"faults": [fault]}, server=self.origin[1])[0], 200)
        for number in range(4):
            path = self.mine[number % (len(self.mine) - 1)]
            self.assertEqual(self.ask("POST", path, BEFORE + b"x" * LARGEST + AFTER)[0], 202)
        time.sleep(0.5)
        began = time.monotonic()
        status, found = self.ask("POST", self.mine[-1], {"message": "quick"}, headers={"Prefer": "wait=10"})
        self.assertEqual(status, 201, found)
        self.assertLess(time.monotonic() - began, 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
