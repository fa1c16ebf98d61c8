#!/usr/bin/python3
"""What is answered 202 is on the disk: between the last write of its commit and its answer there is a sync (B36)."""

import http.client
import json
import os
import re
import subprocess
import tempfile
import time
import unittest

PERCH = os.environ["TARGET_BINARY"]
SHIM = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + "/Tests/SyncShim/sync_shim.c"
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("PERCH_")}
SENDS = 20


class Durable(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.shim, self.log = self.place.name + "/shim.so", self.place.name + "/log"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", self.shim, SHIM, "-ldl"], check=True)
        self.origin = self.start({}, "origin", "--listen", "127.0.0.1:0")

    def tearDown(self):
        for process in self.running:
            process.kill()
            process.wait()
            process.stdout.close()
        self.place.cleanup()

    running = []

    def start(self, more, *words):
        process = subprocess.Popen([PERCH, *words], env=ENVIRONMENT | more, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True)
        self.running = self.running + [process]
        return process, process.stdout.readline().split()[-1]

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection(self.host, timeout=20)
        connection.request(method, path, None if body is None else json.dumps(body),
                           {"Perch-User": "alice", "Content-Type": "application/json"})
        answer = connection.getresponse()
        found = json.loads(answer.read() or b"null")
        connection.close()
        return answer.status, found

    def observed(self, more):
        """What the service writes, syncs and answers while messages are taken in, and nothing else happens."""
        shim = {"LD_PRELOAD": self.shim, "SYNC_SHIM_LOG": self.log} | more
        _, url = self.start(shim, "serve", "--listen", "127.0.0.1:0", "--auth", "off", "--data",
                            self.place.name + "/data", "--upstream", self.origin[1], "--upstream-token", "origin")
        self.host = url.removeprefix("http://")
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
        for number in range(SENDS):
            status, found = self.ask("POST", f"/v1/channels/{channel}/messages", {"message": f"m{number}"})
            self.assertEqual(status, 202, found)
        with open(self.log) as file:
            return file.read().split()

    @staticmethod
    def unsynced(lines):
        """Answers before which the last write was not synced, or nothing was written."""
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


if __name__ == "__main__":
    unittest.main(verbosity=2)
