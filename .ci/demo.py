#!/usr/bin/python3
"""Tests `perch demo`: both servers, connected; tokens; the switch of the network between the servers."""

import base64
import hashlib
import hmac
import http.client
import json
import os
import re
import shutil
import signal
import stat
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

    def __init__(self, data, listen="127.0.0.1:0", origin_listen="127.0.0.1:0", words=(), **variables):
        self.log = open(data + ".log", "w+")
        self.process = subprocess.Popen(
            [PERCH, "demo", "--listen", listen, "--origin-listen", origin_listen, "--data", data, *words],
            env=ENVIRONMENT | {"PERCH_ACCESS_LOG": "on", "PERCH_LOG_LEVEL": "info"} | variables,
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
        self.key = re.search(r"\n +key +(\S+)", self.text)[1]

    def stop(self, with_signal=signal.SIGTERM):
        self.process.send_signal(with_signal)
        code = self.process.wait(timeout=30)
        self.process.stdout.close()
        self.log.close()
        return code


def ask_as(url, method, path, **headers):
    """Status, headers and text of an answer to a request with exactly these headers, `Host` among them."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=10)
    connection.putrequest(method, path, skip_host=True)
    body = b'{"up":true}' if method == "PUT" else b""
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    if body:
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body or None)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, answer.headers, text


def wide(place):
    """Files and directories that others may use."""
    found = []
    for folder, _, files in os.walk(place):
        for path in [folder, *(os.path.join(folder, name) for name in files)]:
            if stat.S_IMODE(os.stat(path).st_mode) & 0o077:
                found.append(path)
    return found


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
        return ask(self.demo.origin + path, Api_Token=self.demo.key)

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

        def webhooks():
            self.demo.log.flush()
            with open(self.demo.log.name) as log:
                return [line for line in log if "receiveSendbirdWebhook" in line or "/v1/webhooks/" in line]
        webhook = until("a webhook arrives", webhooks)[0]
        self.assertRegex(webhook, r'"status": ?200')

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
            return ask(self.demo.origin + "/v3/group_channels/alice-and-bob/messages", "POST", body, Api_Token=self.demo.key)
        self.assertEqual(say("before the cut")[0], 200)
        until("Perch has it", lambda: is_said("before the cut"))
        ask(self.demo.url + "/demo/upstream", "PUT", {"up": False})
        until("the link is down", lambda: ask(self.demo.url + "/readyz")[1]["upstream"] == "offline")
        # Offline the service still answers pages.
        status, page = self.read("/v1/channels/alice-and-bob/messages?limit=50")
        self.assertEqual(status, 200)
        self.assertIn("before the cut", [message["message"] for message in page["items"]])
        self.assertEqual(ask(self.demo.url + "/readyz")[0], 200)
        ask(self.demo.url + "/demo/upstream", "PUT", {"up": True})
        self.assertEqual(say("after the cut")[0], 200)
        until("the link is up", lambda: ask(self.demo.url + "/readyz")[1]["upstream"] == "online", seconds=60)
        until("Perch has it too", lambda: is_said("after the cut"))

    def test_a_wrong_request_is_a_problem(self):
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
        said = ask(path, "POST", body, Api_Token=first.key)[1]["message_id"]
        first.stop(signal.SIGKILL)
        second = Demo(place, listen, origin_listen)
        try:
            self.assertEqual(ask(f"{path}/{said}", Api_Token=second.key)[1]["message"], "kept")
            place = second.url + f"/v1/channels/alice-and-bob/messages/{said}"
            until("Perch has it", lambda: ask(place, Authorization="Bearer " + token)[0] == 200)
        finally:
            self.assertEqual(second.stop(), 0)

    def test_it_gives_tokens_to_no_page_of_another_name(self):
        """A web page whose name resolves to this machine is refused: its requests have the page's name in Host."""
        port = self.demo.url.rsplit(":", 1)[1]
        for host in [f"127.0.0.1:{port}", "127.0.0.1", f"localhost:{port}", f"[::1]:{port}", "127.1.2.3:9"]:
            for method, path in [("GET", "/demo"), ("PUT", "/demo/upstream")]:
                status, _, text = ask_as(self.demo.url, method, path, Host=host)
                self.assertEqual((status, "eyJ" in text), (200, True), host)
        for host in [f"evil.example:{port}", "127.0.0.1.evil.example", "0.0.0.0", f"192.168.1.5:{port}", ""]:
            for method, path in [("GET", "/demo"), ("HEAD", "/demo"), ("PUT", "/demo/upstream"), ("OPTIONS", "/demo")]:
                status, headers, text = ask_as(
                    self.demo.url, method, path, Host=host, Origin=f"http://{host}",
                    Access_Control_Request_Method=method)
                self.assertEqual(status, 403, (host, method))
                self.assertNotIn("eyJ", text)
                self.assertIsNone(headers["Access-Control-Allow-Origin"])
                if method in ("GET", "PUT"):
                    self.assertEqual(json.loads(text)["code"], "host_not_allowed")
                    self.assertIn("--demo-host", json.loads(text)["detail"])

    def test_the_fault_desk_is_not_for_pages_of_another_name(self):
        for host, status in [("127.0.0.1:8090", 200), ("localhost", 200), ("evil.example", 403), ("evil.example:8090", 403)]:
            self.assertEqual(ask_as(self.demo.origin, "GET", "/_faults", Host=host)[0], status)

    def test_it_gives_tokens_to_no_page_of_another_origin(self):
        port = self.demo.url.rsplit(":", 1)[1]
        demo = Demo(self.place.name + "/cors", PERCH_CORS_ORIGINS="*")
        try:
            for url in (self.demo.url, demo.url):
                host = url.removeprefix("http://")
                self.assertEqual(ask_as(url, "GET", "/demo", Host=host, Origin=url)[0], 200)
                for origin in ["http://evil.example", "null", f"http://localhost:{port}"]:
                    for method in ("GET", "OPTIONS"):
                        status, headers, text = ask_as(
                            url, method, "/demo", Host=host, Origin=origin, Access_Control_Request_Method="GET")
                        self.assertEqual((status, json.loads(text)["code"]), (403, "origin_not_allowed"))
                        self.assertIsNone(headers["Access-Control-Allow-Methods"])
        finally:
            demo.stop()

    def test_a_host_that_was_named_is_answered(self):
        demo = Demo(self.place.name + "/named", "0.0.0.0:0", words=["--demo-host", "a.test", "--demo-host", "b.test,c.test"])
        try:
            self.assertIn("open        http://127.0.0.1:", demo.text)
            url = demo.url.replace("0.0.0.0", "127.0.0.1")
            for host in ["a.test", "B.test:8080", "c.test", "127.0.0.1"]:
                self.assertEqual(ask_as(url, "GET", "/demo", Host=host)[0], 200, host)
            for host in ["d.test", "0.0.0.0"]:
                self.assertEqual(ask_as(url, "GET", "/demo", Host=host)[0], 403, host)
        finally:
            demo.stop()
        demo = Demo(self.place.name + "/by-variable", PERCH_DEMO_HOST="d.test")
        try:
            self.assertEqual(ask_as(demo.url, "GET", "/demo", Host="d.test")[0], 200)
            self.assertEqual(ask_as(demo.url, "GET", "/demo", Host="a.test")[0], 403)
        finally:
            demo.stop()

    def test_its_secrets_are_its_own(self):
        other = Demo(self.place.name + "/other")
        try:
            self.assertNotEqual(self.demo.key, other.key)
            for key in ["origin", other.key, ""]:
                self.assertEqual(ask(self.demo.origin + "/v3/users", Api_Token=key)[1]["code"], 400401)
            body = json.dumps({"category": "group_channel:message_send", "channel": {"channel_url": "general"}})
            for secret in ["origin", self.demo.key, ""]:
                code = hmac.new(secret.encode(), body.encode(), hashlib.sha256).hexdigest()
                connection = http.client.HTTPConnection(self.demo.url.removeprefix("http://"), timeout=10)
                connection.request("POST", "/v1/webhooks/sendbird", body, {
                    "Content-Type": "application/json", "x-sendbird-signature": code})
                self.assertEqual(connection.getresponse().status, 401)
                connection.close()
        finally:
            other.stop()
        with open(self.demo.log.name) as log:
            self.assertNotIn(self.demo.key, log.read())

    def test_B65_its_files_are_its_owners_alone(self):
        def names(place):
            return {os.path.join(folder, name) for folder, _, names in os.walk(place) for name in names}
        data = self.place.name + "/data"
        self.assertTrue({data + "/origin/origin.db", data + "/origin/origin.db-wal", data + "/origin/origin.db-shm",
                         data + "/perch.db", data + "/auth-secret", data + "/address"} <= names(data))
        self.assertEqual(wide(data), [])

    def test_B65_files_of_before_that_others_can_read_are_tightened(self):
        place, origin_listen = self.place.name + "/before", f"127.0.0.1:{free_port()}"
        Demo(place, origin_listen=origin_listen).stop()
        for folder, _, files in os.walk(place):
            os.chmod(folder, 0o755)
            for name in files:
                os.chmod(os.path.join(folder, name), 0o644)
        self.assertNotEqual(wide(place), [])
        again = Demo(place, origin_listen=origin_listen)
        try:
            self.assertEqual(wide(place), [])
            until("it works on", lambda: ask(again.url + "/readyz")[1]["upstream"] == "online")
        finally:
            self.assertEqual(again.stop(), 0)

    def test_B65_the_stand_in_alone_keeps_its_files_to_itself(self):
        place = self.place.name + "/alone"
        process = subprocess.Popen(
            [PERCH, "origin", "--listen", "127.0.0.1:0", "--data", place, "--seed", "none"], env=ENVIRONMENT,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            self.assertIn("listening on", process.stdout.readline())
            self.assertIn("origin.db-wal", os.listdir(place))
            self.assertEqual(wide(place), [])
        finally:
            process.terminate()
            process.wait(timeout=20)
            process.stdout.close()

    @unittest.skipUnless(os.geteuid() == 0, "takes root to be somebody else")
    def test_B65_a_directory_of_somebody_else_is_refused_in_words(self):
        place = tempfile.mkdtemp(dir="/tmp")
        try:
            os.chmod(place, 0o777)
            program = place + "-perch"
            shutil.copy(PERCH, program)
            os.chmod(program, 0o755)
            for command in (["serve"], ["demo", "--origin-listen", "127.0.0.1:0"], ["origin"]):
                done = subprocess.run(
                    [program, *command, "--listen", "127.0.0.1:0", "--data", place], env=ENVIRONMENT, user=65534,
                    group=65534, extra_groups=[], capture_output=True, text=True, timeout=20)
                self.assertEqual(done.returncode, 1)
                self.assertIn("belongs to user 0", done.stderr)
                self.assertIn("chmod it to 700", done.stderr)
            self.assertEqual(os.listdir(place), [])
        finally:
            shutil.rmtree(place)
            os.unlink(program)

    def load(self, **settings):
        """Runs `perch load` beside the demo, to its end."""
        settings = {"url": self.demo.url, "origin": self.demo.origin, "origin_token": self.demo.key,
                    "data": self.place.name + "/data"} | settings
        words = [word for name, value in settings.items() for word in ("--" + name.replace("_", "-"), str(value))]
        return subprocess.run(
            [PERCH, "load", *words], env=ENVIRONMENT, capture_output=True, text=True, timeout=120)

    def test_a_load_reports_what_was_sent_and_told(self):
        done = self.load(
            users=12, channels=9, parked=6, messages="20/s", pages="10/s", time="3s", warm_up="0s")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("errors: none; deliveries that did not come: 0", done.stdout)
        self.assertIn("12 of 12 users connected", done.stderr)
        counts = {name: int(count) for name, count in re.findall(r"^([a-z ]+?) {2,}(\d+) ", done.stdout, re.M)}
        self.assertEqual((counts["accepted"], counts["pages"]), (30, 30))
        texts = []
        for number in range(9):
            channel = f"/v3/group_channels/load-12-9-{number}"
            page = self.upstream(channel + "/messages?message_ts=0&next_limit=200&prev_limit=0&include=true")[1]
            members = self.upstream(channel + "/members?limit=100")[1]["members"]
            self.assertEqual(len(members), 10)
            texts += [message["message"] for message in page["messages"]]
        self.assertEqual(len(texts), 60, "half through the service, half at the stand-in")
        self.assertEqual(len(set(texts)), 60, "each once")
        told = counts["delivered"] + counts["delivered from the chat server"]
        self.assertGreater(told, 20)
        # A second load of the same sizes finds what the first one made.
        again = self.load(users=12, channels=9, parked=6, messages="20/s", pages="0/s", time="1s", warm_up="2s")
        self.assertEqual(again.returncode, 0, again.stdout + again.stderr)
        self.assertIn("for 1 s, after 2 s to warm up", again.stdout)
        accepted = int(re.search(r"^accepted +(\d+) ", again.stdout, re.M)[1])
        self.assertTrue(5 <= accepted <= 20, "ten of thirty are measured: " + again.stdout)

    def test_a_load_that_cannot_begin_says_why(self):
        for settings, reason in [
                ({"users": 2, "parked": 3}, "--parked: at most as many as --users, 2"),
                ({"messages": "often"}, "--messages: a number from 0 to 100000 and /s, such as 20/s"),
                ({"url": "https://127.0.0.1"}, "--url: https://127.0.0.1 does not begin with http://"),
                ({"origin_token": "wrong"}, "users at the chat server: 4"),
                ({"origin": f"http://127.0.0.1:{free_port()}"}, "users at the chat server: nobody answers"),
                ({"data": self.place.name + "/nothing"}, "secret")]:
            done = self.load(**settings)
            self.assertNotEqual(done.returncode, 0, settings)
            self.assertIn(reason, done.stderr)

    def test_a_load_beside_a_service_that_hangs_is_not_clean(self):
        demo = Demo(self.place.name + "/hangs")
        data = self.place.name + "/hangs"
        try:
            load = subprocess.Popen(
                [PERCH, "load", "--url", demo.url, "--origin", demo.origin, "--origin-token", demo.key, "--data", data,
                 "--users", "5", "--channels", "5", "--parked", "2", "--messages", "20/s", "--time", "6s"],
                env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            while not load.stderr.readline().startswith("0:02"):
                pass
            demo.process.send_signal(signal.SIGSTOP)
            while not load.stderr.readline().startswith("0:09"):
                pass
            load.send_signal(signal.SIGINT)
            report, _ = load.communicate(timeout=60)
            self.assertEqual(load.returncode, 1)
            self.assertRegex(report, r"errors: \d+ × end of a view without an answer, \d+ × page without an answer, \d+ × send")
        finally:
            demo.process.send_signal(signal.SIGCONT)
            demo.stop()

    def test_elsewhere_there_is_no_demo(self):
        self.assertEqual(ask(URL + "/demo")[0], 404)
        self.assertEqual(ask(URL + "/demo/upstream", "PUT", {"up": False})[0], 404)


if __name__ == "__main__":
    unittest.main(verbosity=1)
