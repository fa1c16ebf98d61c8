#!/usr/bin/python3
"""The service beside a chat server: rows arrive in the database, whatever happens in between."""

import hashlib
import hmac
import http.server
import json
import os
import pty
import random
import re
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)) + "/../Tests/Clients")
from network import free_port  # noqa: E402

PERCH = os.environ["TARGET_BINARY"]
# The machine's settings for certificates and proxies are left out: each test sets its own.
ENVIRONMENT = {
    k: v for k, v in os.environ.items()
    if not k.startswith("PERCH_") and not k.lower().endswith("_proxy")
    and k not in ("CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")
}
TOKEN = "key-of-the-test"


def ask(method, url, body=None, headers=None):
    """Status and JSON of an answer, whatever the status is."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        url, data, {"Content-Type": "application/json", "Api-Token": TOKEN} | (headers or {}), method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"null")


class Program:
    """A server that ends with the test."""

    def __init__(self, *words):
        self.process = subprocess.Popen(
            [PERCH, *words], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.url = self.process.stdout.readline().split()[-1]

    def stop(self, with_signal=signal.SIGTERM):
        self.process.send_signal(with_signal)
        code = self.process.wait(timeout=20)
        self.process.stdout.close()
        return code


class Between:
    """A server between the service and the upstream: a proxy, or with a certificate a server of its own."""

    def __init__(self, upstream, certificate=None):
        self.asked, self.breaks, self.moments = [], set(), []
        # How many requests are here now, the most at once, and how long each is kept (s).
        self.here, self.most, self.keeps = 0, 0, 0
        lock = threading.Lock()
        between = self

        class Passing(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                with lock:
                    between.here += 1
                    between.most = max(between.most, between.here)
                between.moments.append(time.monotonic())
                try:
                    time.sleep(between.keeps)
                    self.carry()
                finally:
                    with lock:
                        between.here -= 1

            def carry(self):
                between.asked.append(self.path)
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if len(between.asked) in between.breaks:
                    return self.answer(502, b"<html>Bad gateway</html>")
                path = self.path.removeprefix(upstream)
                headers = {name: self.headers[name] for name in ("Api-Token", "Content-Type") if name in self.headers}
                request = urllib.request.Request(upstream + path, body or None, headers, method=self.command)
                try:
                    # Without the environment's proxy, because that may be this server.
                    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
                        self.answer(answer.status, answer.read())
                except urllib.error.HTTPError as error:
                    self.answer(error.code, error.read())

            do_POST = do_GET

            def answer(self, status, body):
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *words):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Passing)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *words: None
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Beside(unittest.TestCase):
    """An upstream of the test's own, and a data directory to sync into."""

    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.data = self.place.name + "/data"
        self.webhook_port = free_port()
        self.servers = []
        self.start_origin("127.0.0.1:0")
        self.upstream = ["--upstream", self.origin.url, "--upstream-token", TOKEN, "--prefetch-rate", "0"]

    def start_origin(self, address):
        self.origin = Program(
            "origin", "--listen", address, "--data", self.place.name + "/origin", "--token", TOKEN, "--seed", "small",
            "--webhook", f"http://127.0.0.1:{self.webhook_port}/v1/webhooks/sendbird",
        )
        self.servers.append(self.origin)

    def tearDown(self):
        for server in self.servers:
            if server.process.poll() is None:
                server.stop()
        self.place.cleanup()

    def sync(self, *words, user="alice"):
        return subprocess.run(
            [PERCH, "sync", "--once", "--user", user, "--data", self.data, *self.upstream, *words],
            env=ENVIRONMENT, capture_output=True, text=True, timeout=60,
        )

    def serve(self, *words):
        server = Program(
            "serve", "--listen", f"127.0.0.1:{self.webhook_port}", "--data", self.data, *self.upstream, *words
        )
        self.servers.append(server)
        return server

    def token(self, user="alice"):
        return subprocess.run(
            [PERCH, "token", "--data", self.data, "--user", user],
            env=ENVIRONMENT, capture_output=True, text=True, timeout=20,
        ).stdout.strip()

    def rows(self, query, *values):
        with sqlite3.connect(f"file:{self.data}/perch.db?mode=ro", uri=True) as database:
            return database.execute(query, values).fetchall()

    def cached(self, url):
        return [
            json.loads(b"{" + body + b"}")["message"]
            for (body,) in self.rows(
                "SELECT m.body FROM message m JOIN channel c ON c.id = m.channel WHERE c.channel_url = ?"
                " ORDER BY m.created_at, m.message_id", url)
        ]

    def until(self, holds, seconds=10):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if holds():
                return True
            time.sleep(0.05)
        return holds()

    def send(self, url, text, user="bob"):
        status, message = ask(
            "POST", f"{self.origin.url}/v3/group_channels/{url}/messages",
            {"message_type": "MESG", "user_id": user, "message": text},
        )
        self.assertEqual(status, 200, message)
        return message["message_id"]


class Syncing(Beside):
    def test_perch_sync_brings_every_channel_of_the_user_and_no_other(self):
        result = self.sync()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"^synced: 6/6 channels, \d+ messages, \d+ requests, \d+\.\d s\n$")
        urls = {url for (url,) in self.rows("SELECT channel_url FROM channel")}
        self.assertEqual(urls, {"general", "random", "alice-and-bob", "announcements", "quiet", "big"})
        for url in urls - {"big", "general"}:
            total = ask("GET", f"{self.origin.url}/v3/group_channels/{url}/messages/total_count")[1]["total"]
            self.assertEqual(len(self.cached(url)), total, url)
        for url in ("big", "general"):
            self.assertGreaterEqual(len(self.cached(url)), 200)
        self.assertEqual(self.sync().returncode, 0, "again")

    LINE = re.compile(
        r"(connecting|online): (\d+)(?:/(\d+))? channels, (\d+) messages, (\d+) requests,"
        r" (time left unknown|nothing left|about (\d+) (s|min) left)")

    def test_perch_sync_tells_channels_messages_requests_and_the_time_left(self):
        self.upstream[-1] = "2"
        result = self.sync()
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = [self.LINE.fullmatch(line) for line in result.stderr.splitlines()]
        self.assertGreater(len(lines), 2, "one a second")
        self.assertTrue(all(lines), result.stderr)
        self.assertTrue(any(line[7] for line in lines), "it learned how fast it goes: " + result.stderr)
        for number in (4, 5):
            told = [int(line[number]) for line in lines]
            self.assertEqual(told, sorted(told))
        summary = re.fullmatch(
            r"synced: 6/6 channels, (\d+) messages, (\d+) requests, (\d+)\.\d s\n", result.stdout)
        self.assertEqual(int(summary[1]), self.rows("SELECT count(*) FROM message")[0][0])
        self.assertGreaterEqual(int(summary[2]), int(lines[-1][5]))
        self.assertGreaterEqual(int(summary[3]), len(lines) - 1)

    def test_on_a_terminal_the_line_is_written_over_and_gone_at_the_end(self):
        self.upstream[-1] = "2"
        master, terminal = pty.openpty()
        process = subprocess.Popen(
            [PERCH, "sync", "--once", "--user", "alice", "--data", self.data, *self.upstream],
            env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=terminal, text=True,
        )
        os.close(terminal)
        written = b""
        try:
            while more := os.read(master, 65536):
                written += more
        except OSError:
            pass  # Linux raises this error at the end of a terminal that no process has open.
        os.close(master)
        self.assertRegex(process.communicate(timeout=20)[0], r"^synced: 6/6 channels, ")
        parts = written.decode().split("\r\x1b[K")
        self.assertEqual((parts[0], parts[-1]), ("", ""))
        self.assertGreater(len(parts), 4)
        for part in parts[1:-1]:
            self.assertRegex(part, self.LINE)
        self.assertNotIn("\n", written.decode())

    def test_a_proxy_of_the_environment_is_used_and_the_key_is_in_no_line_of_the_log(self):
        proxy = Between(self.origin.url)
        self.addCleanup(proxy.stop)
        ENVIRONMENT["http_proxy"] = f"http://127.0.0.1:{proxy.port}"
        self.addCleanup(ENVIRONMENT.pop, "http_proxy")
        proxy.breaks = {5, 9, 13}
        result = self.sync("--log-level", "debug")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(all(line.startswith("http://") for line in proxy.asked), proxy.asked[:3])
        self.assertGreater(len(proxy.asked), 10)
        self.assertIn("sync_job_failed", result.stderr, "there was something to log")
        self.assertNotIn(TOKEN, result.stderr + result.stdout)

    def between(self):
        gate = Between(self.origin.url)
        self.addCleanup(gate.stop)
        self.upstream[1] = f"http://127.0.0.1:{gate.port}"
        return gate

    def test_B35_no_more_requests_are_in_flight_than_are_allowed(self):
        gate = self.between()
        gate.keeps = 0.02
        self.assertEqual(self.sync("--upstream-in-flight", "1").returncode, 0)
        self.assertEqual(gate.most, 1)
        self.data += "-again"
        self.assertEqual(self.sync().returncode, 0)
        self.assertTrue(2 <= gate.most <= 4, gate.most)

    def test_B35_requests_come_no_faster_than_is_allowed(self):
        gate = self.between()
        self.assertEqual(self.sync("--upstream-rate", "10").returncode, 0)
        self.assertGreater(len(gate.moments), 15)
        for first, last in zip(gate.moments, gate.moments[15:]):
            # The first ten at once, then ten a second.
            self.assertGreater(last - first, 0.4)

    def test_a_certificate_is_trusted_that_the_environment_names_and_no_other(self):
        certificate, key = self.place.name + "/certificate.pem", self.place.name + "/key.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
             "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate],
            check=True, capture_output=True,
        )
        gate = Between(self.origin.url, (certificate, key))
        self.addCleanup(gate.stop)
        self.upstream[1] = f"https://localhost:{gate.port}"
        refused = self.sync()
        self.assertEqual(refused.returncode, 1)
        self.assertIn("certificate is not trusted", refused.stderr)
        self.assertEqual(gate.asked, [], "no request and no key went to whoever it is")
        ENVIRONMENT["SSL_CERT_FILE"] = certificate
        self.addCleanup(ENVIRONMENT.pop, "SSL_CERT_FILE")
        trusted = self.sync()
        self.assertEqual(trusted.returncode, 0, trusted.stderr)
        self.assertGreater(len(gate.asked), 10)

    def test_perch_sync_says_why_it_cannot(self):
        unknown = self.sync(user="nobody")
        self.assertEqual(unknown.returncode, 1)
        self.assertIn("knows no user nobody", unknown.stderr)
        self.assertEqual(self.sync().returncode, 0)
        self.origin.stop()
        dark = self.sync()
        self.assertEqual(dark.returncode, 1, "also where the user is known from before")
        self.assertIn("cannot be reached", dark.stderr)
        server = self.serve()
        served = self.sync()
        self.assertEqual(served.returncode, 1)
        self.assertIn("the running service is offline", served.stderr)
        self.assertEqual(server.stop(), 0)

    def test_a_directory_belongs_to_one_upstream(self):
        self.assertEqual(self.sync().returncode, 0)
        self.upstream[1] = "http://127.0.0.1:1"
        other = self.sync()
        self.assertEqual(other.returncode, 1)
        self.assertIn(self.origin.url, other.stderr)
        self.assertIn("http://127.0.0.1:1", other.stderr)

    def test_the_service_follows_sends_edits_and_deletes_by_webhook(self):
        self.assertEqual(self.sync().returncode, 0)
        server = self.serve()
        self.assertTrue(self.until(lambda: ask("GET", server.url + "/readyz")[1]["upstream"] == "online"))
        first = self.send("random", "a first one")
        second = self.send("random", "a second one")
        self.assertTrue(self.until(lambda: self.cached("random")[-2:] == ["a first one", "a second one"], 5))
        messages = f"{self.origin.url}/v3/group_channels/random/messages"
        ask("PUT", f"{messages}/{first}", {"message_type": "MESG", "message": "an edited one"})
        self.assertTrue(self.until(lambda: self.cached("random")[-2] == "an edited one", 5))
        ask("DELETE", f"{messages}/{second}")
        self.assertTrue(self.until(lambda: self.cached("random")[-1] == "an edited one", 5))
        self.assertTrue(self.until(lambda: not self.rows("SELECT 1 FROM webhook_note"), 5), "nothing is left due")
        self.assertEqual(server.stop(), 0)

    def test_what_was_missed_while_stopped_or_killed_is_found(self):
        self.assertEqual(self.sync().returncode, 0)
        server = self.serve()
        self.assertTrue(self.until(lambda: ask("GET", server.url + "/readyz")[1]["upstream"] == "online"))
        self.assertEqual(server.stop(signal.SIGKILL), -signal.SIGKILL)
        self.send("general", "while it was killed")
        server = self.serve()
        self.assertTrue(self.until(lambda: self.cached("general")[-1:] == ["while it was killed"]))
        self.assertEqual(server.stop(), 0)

    def test_B1_who_was_removed_while_no_webhook_came_sees_nothing_from_after_that(self):
        """Alice is removed while the service is down. Carol is not, and her changes cannot be fetched either."""
        for user in ("alice", "bob", "carol"):
            self.assertEqual(self.sync(user=user).returncode, 0)
        faults = f"{self.origin.url}/_faults"
        ask("PUT", faults, {"faults": [{"kind": "drop_webhook"}] + [
            {"kind": "status", "path": f"/v3/users/{user}*"} for user in ("alice", "carol")]})
        ask("PUT", f"{self.origin.url}/v3/group_channels/general/leave", {"user_ids": ["alice"]})
        self.send("general", "SECRET")
        server = self.serve("--poll-interval", "200ms", "--backoff-max", "500ms")
        token = {user: {"Authorization": f"Bearer {self.token(user)}"} for user in ("alice", "bob", "carol")}
        view = {"channel_url": "general"}

        def asked(user, method, path, body=None, **more):
            return ask(method, server.url + path, body, token[user] | more)

        def opened(user):
            status, answer = asked(user, "POST", "/v1/message-collections", view)
            self.assertEqual((status, len(answer["messages"])), (201, 40), answer)
            return f"/v1/message-collections/{answer['id']}", answer["cursor"]

        def told(user, path, since, wait):
            """The events after a cursor, and the cursor after them."""
            status, answer = asked(user, "GET", f"{path}/events?since={since}&wait={wait}")
            self.assertEqual(status, 200, answer)
            return json.dumps(answer["events"]), answer["cursor"]

        places = {user: [opened(user)] for user in ("alice", "carol")}
        # Bob's view brings the message into the cache.
        self.assertEqual(asked("bob", "POST", "/v1/message-collections", view, Prefer="wait=5")[0], 201)
        self.assertTrue(self.until(lambda: self.cached("general")[-1:] == ["SECRET"]))
        for user in places:
            places[user] += [opened(user), ("/v1", places[user][0][1])]
        for user, followed in places.items():
            for path, cursor in followed:
                events, at = told(user, path, cursor, 1)
                # The chat server was lost for a moment.
                self.assertLessEqual({event["type"] for event in json.loads(events)}, {"connection.changed"})
                self.assertEqual(at.split(".")[:3], cursor.split(".")[:3])
            for method, path, body in (
                ("GET", "/v1/channels/general/messages", None), ("GET", "/v1/channels", None),
                ("GET", "/v1/channels/general", None), ("POST", "/v1/channel-collections", {}),
                ("POST", "/v1/message-collections", view), ("POST", "/v1/channels/general/read", None),
                ("GET", followed[0][0], None),
            ):
                status, answer = asked(user, method, path, body, Prefer="wait=0")
                self.assertIn(status, (200, 201), answer)
                self.assertFalse("SECRET" in json.dumps(answer), f"{user} is shown it by {method} {path}")
                self.assertTrue("message" not in path or not answer["complete"])
        # As soon as the changes can be fetched, the channel is gone for alice, and carol is told all.
        ask("PUT", faults, {"faults": []})
        self.assertTrue(self.until(lambda: asked("alice", "GET", "/v1/channels/general/messages")[0] == 404))
        self.assertTrue(self.until(lambda: "SECRET" in json.dumps(asked("carol", "GET", "/v1/channels/general/messages"))))
        for user, followed in places.items():
            for path, cursor in followed:
                news, more = "", None
                while more != "[]" and "channel.deleted" not in news:
                    more, cursor = told(user, path, cursor, 0)
                    news += more
                ended = "channel.left" if path == "/v1" else "channel.deleted"
                self.assertEqual((ended in news, "SECRET" in news), (user == "alice", user == "carol"), f"{path} {news}")

    def test_perch_sync_beside_a_service_asks_the_service(self):
        server = self.serve()
        self.assertTrue(self.until(lambda: ask("GET", server.url + "/readyz")[1]["upstream"] == "online"))
        result = self.sync()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"^synced by the running service: 6/6 channels, \d+ messages, \d+ requests, \d+\.\d s\n$")
        self.assertGreaterEqual(len(self.cached("general")), 200)
        unknown = self.sync(user="nobody")
        self.assertEqual(unknown.returncode, 1)
        self.assertIn("answers 403", unknown.stderr)
        self.assertEqual(server.stop(), 0)

    def test_readiness_tells_the_link_and_comes_back_with_it(self):
        self.assertEqual(self.sync().returncode, 0)
        server = self.serve("--poll-interval", "200ms", "--backoff-max", "500ms")
        ready = lambda: ask("GET", server.url + "/readyz")[1]
        self.assertTrue(self.until(lambda: ready()["upstream"] == "online"))
        self.origin.stop()
        self.assertTrue(self.until(lambda: ready()["reasons"] == ["upstream_unreachable"]))
        self.assertEqual(ready()["status"], "ready")
        self.start_origin(self.origin.url.removeprefix("http://"))
        self.assertTrue(self.until(lambda: ready()["upstream"] == "online"))
        self.send("random", "after the comeback")
        self.assertTrue(self.until(lambda: self.cached("random")[-1:] == ["after the comeback"]))

    def act(self, dice):
        url = dice.choice(["general", "random", "alice-and-bob"])
        messages = f"{self.origin.url}/v3/group_channels/{url}/messages"
        known = self.made.setdefault(url, [])
        what = dice.random()
        if what < 0.6 or not known:
            known.append(self.send(url, f"text {dice.randrange(10_000)}"))
        elif what < 0.8:
            ask("PUT", f"{messages}/{dice.choice(known[-30:])}", {"message_type": "MESG", "message": "edited"})
        else:
            ask("DELETE", f"{messages}/{known.pop(dice.randrange(len(known)))}")

    def test_killed_again_and_again_it_agrees_with_the_upstream_at_the_end(self):
        dice = random.Random(int(os.environ.get("KILLS_SEED", "1")))
        self.made = {}
        self.assertEqual(self.sync().returncode, 0)
        for _ in range(int(os.environ.get("KILLS", "6"))):
            server = self.serve("--poll-interval", "200ms", "--backoff-max", "500ms")
            for _ in range(dice.randrange(30)):
                self.act(dice)
            time.sleep(dice.random() * 0.3)
            server.stop(signal.SIGKILL)
            for _ in range(dice.randrange(10)):
                self.act(dice)
        server = self.serve("--poll-interval", "200ms", "--backoff-max", "500ms")
        headers = {"Authorization": f"Bearer {self.token()}", "Cache-Control": "no-cache"}
        for url in ("general", "random", "alice-and-bob"):
            truth = ask(
                "GET", f"{self.origin.url}/v3/group_channels/{url}/messages?message_ts=9007199254740991"
                "&prev_limit=90&next_limit=0&include_reply_type=all")[1]["messages"]
            expected = sorted((m["created_at"], m["message_id"], m["message"]) for m in truth)
            # A listing alone deletes nothing: what it lacks is served until the chat server was asked for it.
            ends, found = time.monotonic() + 10, None
            while found != expected[-90:] and time.monotonic() < ends:
                status, page = ask(
                    "GET", f"{server.url}/v1/channels/{url}/messages?limit=90&reply_type=all", headers=headers)
                self.assertEqual(status, 200, page)
                found = sorted((m["created_at"], int(m["message_id"]), m["message"]) for m in page["items"])[-90:]
            self.assertEqual(found, expected[-90:], url)
        self.assertEqual(self.rows("PRAGMA integrity_check"), [("ok",)])
        self.assertEqual(server.stop(), 0)

    def test_a_webhook_needs_its_signature(self):
        server = self.serve()
        body = json.dumps({"category": "group_channel:message_send", "channel": {"channel_url": "general"}})
        good = hmac.new(TOKEN.encode(), body.encode(), hashlib.sha256).hexdigest()
        url = server.url + "/v1/webhooks/sendbird"

        def post(signature):
            request = urllib.request.Request(
                url, body.encode(), {"Content-Type": "application/json", "x-sendbird-signature": signature})
            try:
                with urllib.request.urlopen(request, timeout=10) as answer:
                    return answer.status
            except urllib.error.HTTPError as error:
                return error.code

        self.assertEqual(post(good), 200)
        self.assertEqual(post(good[:-1] + ("0" if good[-1] != "0" else "1")), 401)
        self.assertEqual(post(""), 401)


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=0).result
    if not result.wasSuccessful():
        raise SystemExit(1)
    print(f"syncing: Test run with {result.testsRun} tests passed")
