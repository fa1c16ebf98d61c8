#!/usr/bin/python3
"""Files as a client sees them, against a real service (B45): who may not send stores nothing and costs nothing, a slow line
delivers, one that stops is gone, uploads take no memory, texts go past them.

FLOOD says how many connections push at once, SLOW_BYTES how much the slow line delivers at 16 KiB a second.
"""

import http.client
import json
import os
import re
import select
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.parse

PERCH = os.environ["TARGET_BINARY"]
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("PERCH_")}
FLOOD = int(os.environ.get("FLOOD", "200"))
SLOW_BYTES = int(os.environ.get("SLOW_BYTES", "262144"))
LARGEST = 26_214_400
TYPE = "multipart/form-data; boundary=b"
BEFORE = b'--b\r\nContent-Disposition: form-data; name="file"; filename="f.bin"\r\n\r\n'
AFTER = b"\r\n--b--\r\n"


class Uploads(unittest.TestCase):
    def setUp(self):
        self.place, self.running = tempfile.TemporaryDirectory(), []
        self.origin = self.start("origin", "--listen", "127.0.0.1:0")
        self.service = self.start(
            "serve", "--listen", "127.0.0.1:0", "--auth", "off", "--access-log", "off", "--data", self.place.name + "/data",
            "--upstream", self.origin[1], "--upstream-token", "origin", "--backoff-max", "1s")
        for user in ("alice", "bob"):
            self.until("a channel", lambda: self.ask("GET", "/v1/channels?limit=9", user=user)[1].get("complete"))
        urls = [{c["channel_url"] for c in self.ask("GET", "/v1/channels?limit=100", user=user)[1]["items"]}
                for user in ("alice", "bob")]
        self.mine = [self.path(url) for url in sorted(urls[0]) if url != "announcements"]  # Alice may not send there.
        self.foreign = self.path(sorted(urls[1] - urls[0])[0]) if urls[1] - urls[0] else self.path("bobs-own")

    def tearDown(self):
        for process in self.running:
            process.kill()
            process.wait()
            process.stdout.close()
        self.place.cleanup()

    @staticmethod
    def path(url):
        return f"/v1/channels/{urllib.parse.quote(url, safe='')}/messages"

    def start(self, *words):
        process = subprocess.Popen([PERCH, *words], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
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
        connection.request(method, path, body if body is None or is_form else json.dumps(body), {
            "Perch-User": user, "Api-Token": "origin", "Content-Type": TYPE if is_form else "application/json"} | (headers or {}))
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
        return (f"POST {path} HTTP/1.1\r\nHost: {self.host()}\r\n{name}Content-Type: {TYPE}\r\nContent-Length: {length}\r\n{more}\r\n").encode()

    def host(self):
        return self.service[1].removeprefix("http://")

    def connect(self):
        host, port = self.host().split(":")
        return socket.create_connection((host, int(port)), timeout=60)

    def test_B45_a_crowd_that_may_not_send_stores_nothing_and_costs_nothing(self):
        for path, user, status in ((self.mine[0], None, b"401"), (self.foreign, "alice", b"404")):
            one = self.connect()
            one.sendall(self.head(path, user, LARGEST))
            self.assertEqual(one.recv(65536)[9:12], status)
            one.close()
            rest, sockets = self.memory(), [self.connect() for _ in range(FLOOD)]
            for one in sockets:
                one.sendall(self.head(path, user, LARGEST) + BEFORE)
                one.setblocking(False)
            most, files, end, left = 0, 0, time.monotonic() + 20, set(sockets)
            while left and time.monotonic() < end:
                _, writable, _ = select.select([], list(left)[:500], [], 0.1)
                for one in writable:
                    try:
                        one.send(b"x" * 65536)
                    except BlockingIOError:
                        pass
                    except OSError:
                        left.discard(one)
                most, files = max(most, self.memory()), files + len(self.spooled())
            for one in sockets:
                one.close()
            print(f"{FLOOD} connections of {user or 'nobody'}: {(most - rest) / 1e6:.1f} MB more, {len(left)} still open")
            self.assertEqual((files, len(left)), (0, 0))
            self.assertLess(most - rest, 8e6)

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
        self.assertEqual(len(self.spooled()), len(self.spooled()))
        self.assertEqual(stopped.recv(100), b"")
        self.assertLess(time.monotonic() - began, 20)
        self.until("its bytes are gone", lambda: not self.spooled(), 5)

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
