#!/usr/bin/python3
"""A request that is answered 202 is on the disk: the service syncs between the last write of its commit and the answer
(B36). Of a message with a file, it syncs file and folder before the commit (B45). If any of these calls fails, nothing
is half-accepted, and the same request works afterwards: its row survives a restart, and is sent upstream once."""

import errno
import hashlib
import http.client
import itertools
import json
import os
import random
import re
import subprocess
import tempfile
import time
import unittest
import urllib.parse

PERCH = os.environ["TARGET_BINARY"]
SHIM = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + "/Tests/SyncShim/sync_shim.c"
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("PERCH_")}
SENDS = 20
FORM = "multipart/form-data; boundary=b"


def form(name, size):
    """A message with a file of `size` bytes."""
    return (f'--b\r\nContent-Disposition: form-data; name="params"\r\n\r\n{{"request_id":"{name}"}}\r\n'
            '--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
            + "x" * size + "\r\n--b--\r\n").encode()


def content_of(name):
    """Bytes that no other file has, enough for several writes."""
    return random.Random(name).randbytes(200_000)


def form_of(name):
    """A message with the file `name`, without `params`."""
    return (f'--b\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode()
            + content_of(name) + b"\r\n--b--\r\n")


class Durable(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.shim, self.log = self.place.name + "/shim.so", self.place.name + "/log"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", self.shim, SHIM, "-ldl"], check=True)
        self.origin = self.start_origin("127.0.0.1:0")

    def tearDown(self):
        for process in self.running:
            process.kill()
            process.wait()
            process.stdout.close()
        self.place.cleanup()

    running = []

    def start_origin(self, address):
        return self.start({}, "origin", "--listen", address, "--data", self.place.name + "/origin")

    def start(self, more, *words):
        process = subprocess.Popen([PERCH, *words], env=ENVIRONMENT | more, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True)
        self.running = self.running + [process]
        return process, process.stdout.readline().split()[-1]

    def ask(self, method, path, body=None, key=None):
        is_form = isinstance(body, bytes)
        headers = {"Perch-User": "alice", "Content-Type": FORM if is_form else "application/json"}
        status, found = self.fetch(self.host, method, path, body if body is None or is_form else json.dumps(body),
                                   headers | ({"Idempotency-Key": key} if key else {}))
        return status, json.loads(found or b"null")

    @staticmethod
    def fetch(host, method, path, body=None, headers={}):
        connection = http.client.HTTPConnection(host, timeout=20)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        found = answer.read()
        connection.close()
        return answer.status, found

    def observed(self, more):
        """The service's writes, syncs and answers while it accepts messages and does nothing else."""
        self.serve(more)
        for number in range(SENDS):
            status, found = self.ask("POST", self.path, {"message": f"m{number}"})
            self.assertEqual(status, 202, found)
        return self.lines()

    def lines(self):
        with open(self.log) as file:
            return file.read().split()

    def serve(self, more):
        """Starts a service that is offline, and whose calls are logged from now on."""
        self.start_service({"LD_PRELOAD": self.shim, "SYNC_SHIM_LOG": self.log} | more)
        self.assertEqual(self.ask("PUT", "/v1/connection", {})[0], 200)
        for _ in range(200):
            page = self.ask("GET", "/v1/channels?limit=1")[1]
            if page.get("complete") and page["items"]:
                break
            time.sleep(0.05)
        channel = page["items"][0]["channel_url"]
        self.origin[0].kill()
        for _ in range(200):
            if self.ask("GET", "/v1/connection")[1]["state"] == "offline":
                break
            time.sleep(0.05)
        time.sleep(0.5)
        open(self.log, "w").close()
        self.channel, self.path = channel, f"/v1/channels/{channel}/messages"

    def start_service(self, more):
        self.service, url = self.start(
            more, "serve", "--listen", "127.0.0.1:0", "--auth", "off", "--data", self.place.name + "/data",
            "--upstream", self.origin[1], "--upstream-token", "origin", "--backoff-max", "1s")
        self.host = url.removeprefix("http://")

    @staticmethod
    def once(lines):
        """The lines as words, with each run of equal words as one word."""
        return re.sub(r"\b([\w-]+)(?: \1)+\b", r"\1", " ".join(lines))

    @staticmethod
    def unsynced(lines):
        """The number of answers before which the last write was not synced, or nothing was written."""
        return len(re.findall(r"write 202|(?:^|202 )202", re.sub(r"(?:write )*write", "write", " ".join(lines))))

    def test_a_sync_lies_between_the_last_write_and_the_answer(self):
        lines = self.observed({})
        self.assertEqual(lines.count("202"), SENDS)
        self.assertGreaterEqual(lines.count("sync"), SENDS)
        self.assertEqual(self.unsynced(lines), 0, lines)

    def test_a_missing_sync_is_noticed(self):
        lines = self.observed({"SYNC_SHIM_SWALLOW": "1"})
        self.assertEqual(lines.count("202"), SENDS)
        self.assertEqual(self.unsynced(lines), SENDS, lines)

    def test_B45_file_folder_and_commit_are_synced_in_this_order_before_the_answer(self):
        self.serve({})
        for number in range(SENDS):
            open(self.log, "w").close()
            status, found = self.ask("POST", self.path, form(f"f{number}", 1 + number * 20_000))
            self.assertEqual(status, 202, found)
            lines = self.lines()
            files = [line for line in lines if "-" in line]
            self.assertEqual(self.once(files), "write-file sync-file sync-folder", lines)
            # The checkpoint thread syncs the log, too, at any moment.
            after = lines[len(lines) - lines[::-1].index("sync-folder"):]
            self.assertRegex(self.once(after), r"^(?:sync )?write (?:sync write )*sync 202", lines)

    @staticmethod
    def fail_once(order, call, code, place=1):
        """Makes the call number `place` of this kind fail, once."""
        with open(order + ".new", "w") as file:
            file.write(f"{call} {code} {place:04}")
        os.rename(order + ".new", order)

    def test_B45_B60_each_call_that_fails_leaves_nothing_half_accepted(self):
        order = self.place.name + "/fail"
        self.serve({"SYNC_SHIM_FAIL": order})
        count = 0
        for call in ("write-file", "sync-file", "sync-folder", "write", "sync"):
            for code in (errno.ENOSPC, errno.EIO):
                with self.subTest(call=call, code=code):
                    count += 1
                    self.fail_once(order, call, code)
                    status, found = self.ask("POST", self.path, form(f"n{count}", 100_000))
                    if status == 202 and call == "sync":
                        # It was the checkpoint thread, which syncs the log, too, at any moment.
                        count += 1
                        self.fail_once(order, call, code)
                        status, found = self.ask("POST", self.path, form(f"n{count}", 100_000))
                    self.assertFalse(os.path.exists(order), "the call was never made")
                    is_file = "-" in call
                    self.assertEqual((status, found.get("code")),
                                     (507, "upload_not_stored") if is_file else (503, "storage_unavailable"), found)
                    # If writing the file fails, the request is refused before `params` are read.
                    if call != "write-file":
                        self.assertEqual(found["request_id"], f"n{count}")
                    self.assertEqual(self.ask("GET", f"/v1/outbox/n{count}")[0], 404)
                    if is_file:
                        self.assertEqual(len(self.spooled()), count - 1)
                    status, found = self.ask("POST", self.path, form(f"n{count}", 100_000))
                    self.assertEqual((status, found["request_id"]), (202, f"n{count}"), found)
        self.assertEqual(len(self.ask("GET", "/v1/outbox")[1]["items"]), count)

    def test_B45_B60_each_call_that_fails_at_each_place_leaves_nothing_half_accepted(self):
        order, hashes, places = self.place.name + "/fail", {}, {}
        self.serve({"SYNC_SHIM_FAIL": order})
        for call, code in itertools.product(
                ("write-file", "sync-file", "sync-folder", "write", "sync"), (errno.ENOSPC, errno.EIO)):
            places[call, code] = checkpoints = 0
            while True:
                place = places[call, code] + 1
                key = f"{call}-{code}-{place}-{checkpoints}"
                body = form_of(key)
                hashes[key] = hashlib.sha256(content_of(key)).hexdigest()
                open(self.log, "w").close()
                self.fail_once(order, call, code, place)
                status, found = self.ask("POST", self.path, body, key)
                if status == 202:
                    lines = self.lines()
                    if "failed" in lines[:lines.index("202")]:
                        # It was the checkpoint thread, which syncs the log, too, at any moment.
                        checkpoints += 1
                        self.assertEqual((call, checkpoints), ("sync", 1), "accepted after a call that failed")
                        continue
                    # This request made fewer calls of this kind.
                    if os.path.exists(order):
                        os.remove(order)
                    break
                with self.subTest(call=call, code=code, place=place):
                    places[call, code] += 1
                    is_file = "-" in call
                    self.assertEqual((status, found.get("code"), found["request_id"]),
                                     (507, "upload_not_stored", key) if is_file
                                     else (503, "storage_unavailable", key), found)
                    self.assertFalse(os.path.exists(order))
                    self.assertEqual(self.ask("GET", f"/v1/outbox/{key}")[0], 404)
                    if is_file:
                        self.assertEqual(len(self.spooled()), len(hashes) - 1)
                    status, found = self.ask("POST", self.path, body, key)
                    self.assertEqual((status, found["request_id"]), (202, key), found)
        print("places that failed:", ", ".join(f"{call} {code}: {count}" for (call, code), count in places.items()))
        self.assertTrue(all(places.values()), places)
        for code in (errno.ENOSPC, errno.EIO):
            self.assertGreater(places["write-file", code], 1)
            self.assertGreater(places["write", code], 1)
        self.check_after_a_restart(hashes)
        self.check_upstream(hashes)

    def send_in_halves(self, key, between):
        """Sends a file of 16 MB. Its second half follows when `between` returns true."""
        body = (f'--b\r\nContent-Disposition: form-data; name="file"; filename="{key}"\r\n\r\n'.encode()
                + content_of(key) * 80 + b"\r\n--b--\r\n")
        half = len(body) // 2
        connection = http.client.HTTPConnection(self.host, timeout=20)
        connection.putrequest("POST", self.path)
        for name, value in {"Perch-User": "alice", "Content-Type": FORM, "Content-Length": str(len(body)),
                            "Idempotency-Key": key}.items():
            connection.putheader(name, value)
        connection.endheaders(body[:half])
        self.until("the first half is on its way", between)
        connection.send(body[half:])
        answer = connection.getresponse()
        found = json.loads(answer.read())
        connection.close()
        return answer.status, found

    def test_B45_a_large_file_is_on_its_way_to_the_disk_while_it_comes_and_fails_if_its_sync_fails(self):
        order = self.place.name + "/fail"
        self.serve({"SYNC_SHIM_FAIL": order})
        status, found = self.send_in_halves("large", lambda: "begin-file" in self.lines())
        self.assertEqual(status, 202, found)
        lines = self.lines()
        self.assertRegex(self.once(line for line in lines if "-" in line),
                         "^write-file (?:begin-file write-file )+(?:begin-file )?sync-file sync-folder$")
        self.assertLess(lines.index("sync-folder"), lines.index("202"))
        for code in (errno.ENOSPC, errno.EIO):
            self.fail_once(order, "sync-file", code)
            key = f"failed-{code}"
            status, found = self.send_in_halves(key, lambda: True)
            self.assertFalse(os.path.exists(order), "the sync has failed")
            self.assertEqual((status, found.get("code"), found["request_id"]), (507, "upload_not_stored", key))
            self.assertEqual(self.ask("GET", f"/v1/outbox/{key}")[0], 404)
            self.assertEqual(len(self.spooled()), 1)
        status, found = self.send_in_halves(key, lambda: True)
        self.assertEqual((status, found["request_id"]), (202, key), found)
        self.assertEqual(len(self.spooled()), 2)

    def check_after_a_restart(self, hashes):
        """Kills the service and starts it again: it has the accepted files and rows, and no others."""
        self.service.kill()
        self.service.wait()
        # A file without a row: when it is gone, the janitor has run.
        stray = self.place.name + "/data/spool/" + "0" * len(self.spooled()[0])
        open(stray, "w").close()
        self.start_service({})
        self.until("the janitor looks", lambda: not os.path.exists(stray) and len(self.spooled()) <= len(hashes))
        rows = self.ask("GET", "/v1/outbox?limit=200")[1]["items"]
        self.assertEqual(sorted(row["request_id"] for row in rows), sorted(hashes))
        self.assertEqual(len(self.spooled()), len(hashes))
        for key, wanted in hashes.items():
            status, found = self.fetch(
                self.host, "GET", f"{self.path}/request_id:{key}/file", headers={"Perch-User": "alice"})
            self.assertEqual((status, hashlib.sha256(found).hexdigest()), (200, wanted), key)

    def check_upstream(self, hashes):
        """The chat server comes back: it gets each file once, byte for byte, and none is left in the spool."""
        address = self.origin[1].removeprefix("http://")
        self.origin[0].wait()
        self.start_origin(address)
        self.until("all are sent", lambda: not self.ask("GET", "/v1/outbox?limit=1")[1]["items"], 60)
        self.until("no file is left", lambda: not self.spooled())
        status, found = self.fetch(
            address, "GET", f"/v3/group_channels/{self.channel}/messages?message_ts=0&prev_limit=0&next_limit=200",
            headers={"Api-Token": "origin"})
        arrived = []
        for message in json.loads(found)["messages"]:
            if message["type"] == "FILE" and message["file"]["name"] in hashes:
                path = urllib.parse.urlparse(message["file"]["url"]).path
                arrived.append((message["file"]["name"],
                                hashlib.sha256(self.fetch(address, "GET", path)[1]).hexdigest()))
        self.assertEqual(sorted(arrived), sorted(hashes.items()))

    def until(self, what, condition, seconds=20):
        end = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.05)

    def spooled(self):
        return os.listdir(self.place.name + "/data/spool")


if __name__ == "__main__":
    unittest.main(verbosity=2)
