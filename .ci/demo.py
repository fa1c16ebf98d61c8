#!/usr/bin/python3
"""What `perch demo` promises: both servers, wired; tokens; the switch of the network between them."""

import base64
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)) + "/../Tests/Contract")
from service import ENVIRONMENT, PERCH, free_port, until  # noqa: E402

URL = os.environ["TARGET_URL"]


def ask(url, method="GET", body=None, **headers):
    """Status and JSON of an answer, whatever the status is."""
    request = urllib.request.Request(url, method=method, data=None if body is None else json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    for name, value in headers.items():
        request.add_header(name.replace("_", "-"), value)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


class Demo:
    """A demo on ports of its own."""

    def __init__(self, data, listen="127.0.0.1:0", origin_listen="127.0.0.1:0"):
        self.log = open(data + ".log", "w+")
        self.process = subprocess.Popen(
            [PERCH, "demo", "--listen", listen, "--origin-listen", origin_listen, "--data", data],
            env=ENVIRONMENT | {"PERCH_ACCESS_LOG": "on", "PERCH_LOG_LEVEL": "info"},
            stdout=subprocess.PIPE, stderr=self.log, text=True)
        lines = []
        while not lines or not lines[-1].startswith("  upstream"):
            lines.append(self.process.stdout.readline())
            if not lines[-1]:
                self.process.kill()
                raise AssertionError("the demo ended: " + open(data + ".log").read()[-2000:])
        self.text = "".join(lines)
        self.url = lines[0].split()[-1]
        self.origin = re.search(r"upstream +(http://\S+)", self.text)[1]

    def stop(self, with_signal=signal.SIGTERM):
        self.process.send_signal(with_signal)
        code = self.process.wait(timeout=30)
        self.process.stdout.close()
        self.log.close()
        return code


class Demos(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.demo = Demo(cls.place.name + "/data")

    @classmethod
    def tearDownClass(cls):
        code = cls.demo.stop()
        cls.place.cleanup()
        assert code == 0, f"the demo ended with {code}"

    def upstream(self, path):
        return ask(self.demo.origin + path, Api_Token="origin")

    def test_it_says_where_it_listens_and_what_to_do(self):
        self.assertRegex(self.demo.text, r"^listening on http://127\.0\.0\.1:\d+\n")
        for word in ["open", "curl", "go offline", "upstream"]:
            self.assertRegex(self.demo.text, rf"\n +{word} +\S")
        self.assertIn(f"{self.demo.url}/demo/upstream", self.demo.text)
        page = re.search(r"\n +open +(\S+)", self.demo.text)[1]
        with urllib.request.urlopen(page, timeout=10) as answer:
            self.assertEqual(answer.status, 200)
            self.assertIn("text/html", answer.headers["Content-Type"])

    def test_there_is_a_token_for_each_seeded_user(self):
        status, demo = ask(self.demo.url + "/demo")
        self.assertEqual(status, 200)
        self.assertEqual([u["user_id"] for u in demo["users"]], ["alice", "bob", "carol", "dave"])
        self.assertEqual((demo["origin_url"], demo["up"]), (self.demo.origin, True))
        for user in demo["users"]:
            claims = user["token"].split(".")[1]
            claims = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
            self.assertEqual(claims["sub"], user["user_id"])
            self.assertRegex(self.demo.text, rf"\n +{user['user_id']} +eyJ")

    def test_the_service_reaches_its_upstream(self):
        until("the link is up", lambda: ask(self.demo.url + "/readyz")[1]["upstream"] == "online")

    def test_people_talk_and_webhooks_arrive(self):
        def count():
            urls = ["general", "random", "alice-and-bob", "big"]
            return sum(self.upstream(f"/v3/group_channels/{u}/messages/total_count")[1]["total"] for u in urls)
        before = count()
        until("somebody says something", lambda: count() > before)

        def rings():
            self.demo.log.flush()
            with open(self.demo.log.name) as log:
                return [line for line in log if "receiveSendbirdWebhook" in line or "/v1/webhooks/" in line]
        ring = until("a webhook arrives", rings)[0]
        self.assertRegex(ring, r'"status": ?200')

    def test_the_network_to_the_upstream_can_be_cut_and_mended(self):
        status, demo = ask(self.demo.url + "/demo/upstream", "PUT", {"up": False})
        self.assertEqual((status, demo["up"]), (200, False))
        with self.assertRaises((urllib.error.URLError, ConnectionError)):
            self.upstream("/v3/users")
        self.assertEqual(ask(self.demo.url + "/demo")[1]["up"], False)
        ask(self.demo.url + "/demo/upstream", "PUT", {"up": True})
        self.assertEqual(self.upstream("/v3/users")[0], 200)

    def read(self, path):
        token = ask(self.demo.url + "/demo")[1]["users"][0]["token"]
        return ask(self.demo.url + path, Authorization="Bearer " + token)

    def test_the_printed_command_lists_the_channels(self):
        command = re.search(r"\n +curl +(curl .*)", self.demo.text)[1]
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=20)
        urls = {channel["channel_url"] for channel in json.loads(done.stdout)["items"]}
        self.assertLessEqual({"general", "random", "alice-and-bob", "big"}, urls)

    def test_what_the_readme_shows_happens(self):
        with open(os.path.dirname(os.path.abspath(__file__)) + "/../README.md", encoding="utf-8") as readme:
            lines = readme.read().split("```console\n")[1].split("```")[0].replace("http://127.0.0.1:8080", self.demo.url)
        script, wanted = "set -e\n", []
        for line in lines.splitlines():
            if line.startswith("$ "):
                script += line[2:] + "\necho\n"
                wanted.append("")
            else:
                wanted[-1] = line.split("…")[0]
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        shown = done.stdout.split("\n")
        for line, start in zip(shown, wanted, strict=False):
            self.assertTrue(line.startswith(start), f"{line[:200]} instead of {start}")
        self.assertGreater(len(wanted), 5)

    def test_the_link_goes_down_and_comes_back_and_pages_go_on(self):
        token = ask(self.demo.url + "/demo")[1]["users"][0]["token"]
        status, _ = ask(self.demo.url + "/v1/connection", "PUT", Authorization="Bearer " + token, Prefer="wait=10")
        self.assertEqual(status, 200)

        def is_said(text):
            status, page = self.read("/v1/channels/alice-and-bob/messages?limit=50")
            return status == 200 and any(message["message"] == text for message in page["items"])

        def say(text):
            body = {"message_type": "MESG", "user_id": "bob", "message": text}
            return ask(self.demo.origin + "/v3/group_channels/alice-and-bob/messages", "POST", body, Api_Token="origin")
        self.assertEqual(say("before the cut")[0], 200)
        until("Perch has it", lambda: is_said("before the cut"))
        ask(self.demo.url + "/demo/upstream", "PUT", {"up": False})
        until("the link is down", lambda: ask(self.demo.url + "/readyz")[1]["upstream"] == "offline")
        # Offline the pages are still there, and say so.
        status, page = self.read("/v1/channels/alice-and-bob/messages?limit=50")
        self.assertEqual(status, 200)
        self.assertIn("before the cut", [message["message"] for message in page["items"]])
        self.assertEqual(ask(self.demo.url + "/readyz")[0], 200)
        ask(self.demo.url + "/demo/upstream", "PUT", {"up": True})
        self.assertEqual(say("after the cut")[0], 200)
        until("the link is up", lambda: ask(self.demo.url + "/readyz")[1]["upstream"] == "online", seconds=60)
        until("Perch has it too", lambda: is_said("after the cut"))

    def test_a_wrong_wish_is_a_problem(self):
        for body in [{"up": 1}, {"down": True}, {"up": True, "x": 1}, []]:
            self.assertEqual(ask(self.demo.url + "/demo/upstream", "PUT", body)[0], 400, body)

    def test_a_taken_port_is_a_clear_failure(self):
        taken = self.demo.origin.removeprefix("http://")
        for words in [["origin", "--listen", taken, "--seed", "none"],
                      ["demo", "--listen", "127.0.0.1:0", "--origin-listen", taken, "--data", self.place.name + "/b"]]:
            done = subprocess.run([PERCH, *words], env=ENVIRONMENT, capture_output=True, text=True, timeout=20)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, r"perch \w+: cannot listen on \S+: Address already in use\n$")

    def test_killed_and_started_again_it_has_what_it_had(self):
        place = self.place.name + "/again"
        listen, origin_listen = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        first = Demo(place, listen, origin_listen)
        token = ask(first.url + "/demo")[1]["users"][0]["token"]
        body = {"message_type": "MESG", "user_id": "bob", "message": "kept"}
        path = first.origin + "/v3/group_channels/alice-and-bob/messages"
        said = ask(path, "POST", body, Api_Token="origin")[1]["message_id"]
        first.stop(signal.SIGKILL)
        second = Demo(place, listen, origin_listen)
        try:
            self.assertEqual(ask(f"{path}/{said}", Api_Token="origin")[1]["message"], "kept")
            place = second.url + f"/v1/channels/alice-and-bob/messages/{said}"
            until("Perch has it", lambda: ask(place, Authorization="Bearer " + token)[0] == 200)
        finally:
            self.assertEqual(second.stop(), 0)

    def test_elsewhere_there_is_no_demo(self):
        self.assertEqual(ask(URL + "/demo")[0], 404)
        self.assertEqual(ask(URL + "/demo/upstream", "PUT", {"up": False})[0], 404)


if __name__ == "__main__":
    unittest.main(verbosity=1)
