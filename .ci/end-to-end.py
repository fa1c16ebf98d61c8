#!/usr/bin/python3
"""Tests the program's command line, and its start, service and stop."""

import gzip
import json
import os
import signal
import socket
import sqlite3
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

URL = os.environ["TARGET_URL"]
PERCH = os.environ["TARGET_BINARY"]
STORED = os.path.dirname(os.path.abspath(__file__)) + "/../Tests/StoredFiles/schema-13.db.gz"
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("PERCH_")}


def call(*words, **variables):
    """Runs perch to its end."""
    return subprocess.run(
        [PERCH, *words], env=ENVIRONMENT | variables, capture_output=True, text=True, timeout=20
    )


def get(path, base=URL, headers={}):
    """Status, headers and body, whatever the status is."""
    try:
        with urllib.request.urlopen(urllib.request.Request(base + path, headers=headers), timeout=10) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


class Server:
    """A server for one test that ends it."""

    def __init__(self, *words):
        self.place = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen(
            [PERCH, "serve", "--listen", "127.0.0.1:0", "--data", self.place.name + "/data", *words],
            env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        self.first_line = self.process.stdout.readline()
        self.url = self.first_line.split()[-1]

    def is_ready(self):
        """Waits until its database is open, at most 10 s."""
        end = time.monotonic() + 10
        while time.monotonic() < end:
            if get("/readyz", self.url)[0] == 200:
                return True
            time.sleep(0.05)
        return False

    def stop(self, with_signal):
        began = time.monotonic()
        self.process.send_signal(with_signal)
        code = self.process.wait(timeout=20)
        self.process.stdout.close()
        self.place.cleanup()
        return code, time.monotonic() - began


class Starting(unittest.TestCase):
    def test_B63_it_answers_while_the_database_is_not_open_yet(self):
        with tempfile.TemporaryDirectory() as place, socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
            probe.close()
            server = Server()
            data = server.place.name + "/data"
            server.process.send_signal(signal.SIGTERM)
            server.process.wait(timeout=20)
            server.process.stdout.close()
            other = sqlite3.connect(data + "/perch.db", isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            process = subprocess.Popen(
                [PERCH, "serve", "--listen", f"127.0.0.1:{port}", "--data", data],
                env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )
            base = f"http://127.0.0.1:{port}"
            try:
                deadline = time.monotonic() + 4
                while time.monotonic() < deadline:
                    try:
                        status, headers, body = get("/readyz", base)
                        break
                    except OSError:
                        time.sleep(0.02)
                self.assertEqual((status, json.loads(body)["status"]), (503, "starting"))
                self.assertEqual(get("/healthz", base)[0], 200)
                for path in ("/v1/channels", "/nowhere"):
                    status, headers, body = get(path, base)
                    self.assertEqual((status, json.loads(body)["code"]), (503, "starting"))
                    self.assertEqual(headers["Retry-After"], "1")
                other.execute("ROLLBACK")
                self.assertIn("listening on", process.stdout.readline())
                self.assertEqual(get("/readyz", base)[0], 200)
                self.assertEqual(get("/nowhere", base)[0], 404)
            finally:
                other.close()
                process.kill()
                process.wait()
                process.stdout.close()
                server.place.cleanup()


    def test_B63_B45_a_file_of_an_older_program_opens_with_what_was_unsent_and_readiness_tells_of_it(self):
        with tempfile.TemporaryDirectory() as place:
            os.mkdir(place + "/data", 0o700)
            with gzip.open(STORED) as stored, open(place + "/data/perch.db", "wb") as file:
                file.write(stored.read())
            other = sqlite3.connect(place + "/data/perch.db", isolation_level=None)
            wanted = other.execute(
                "SELECT user_id, request_id, kind, CASE WHEN state IN ('failed', 'canceled') THEN state ELSE 'pending' END "
                "FROM outbox JOIN user ON user.id = outbox.user").fetchall()
            # No row may be expired today.
            other.execute("UPDATE outbox SET expires_at = ?", (int(time.time() * 1000) + 86_400_000,))
            # Another user has so many unsent rows that the migration takes a while.
            other.executescript("""
                BEGIN;
                INSERT INTO user (user_id, phase, seen_at) VALUES ('carol', 'connected', 0);
                INSERT INTO outbox (user, channel_url, request_id, kind, state, place, params, body, accepted_at,
                  expires_at, next_try_at)
                SELECT max(u.id), 'general', 'c' || n.value, 'message', 'failed', n.value, x'7b7d', x'2261223a31', 1, 1, 1
                FROM user AS u, (
                  WITH RECURSIVE number (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM number LIMIT 30000)
                  SELECT value FROM number) AS n
                GROUP BY n.value;
                COMMIT;""")
            other.close()
            process = subprocess.Popen(
                [PERCH, "serve", "--listen", "127.0.0.1:0", "--auth", "off", "--data", place + "/data"],
                env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )
            try:
                base = process.stdout.readline().split()[-1]
                told, deadline = [], time.monotonic() + 30
                while (answer := get("/readyz", base))[0] != 200:
                    found = json.loads(answer[2])
                    self.assertEqual(answer[0], 503)
                    if found["status"] == "migrating":
                        self.assertEqual((found["from"], found["to"] > 13), (13, True))
                        told.append(found["percent"])
                    self.assertLess(time.monotonic(), deadline, "it is never ready")
                self.assertEqual(told, sorted(told))
                self.assertGreater(len(told), 1, "it told nothing of its migration")
                rows = [(user, row["request_id"], row["kind"], row["status"]) for user in ("alice", "bob")
                        for row in json.loads(get("/v1/outbox?limit=200", base, {"Perch-User": user})[2])["items"]]
                self.assertEqual(sorted(rows), sorted(wanted))
            finally:
                process.kill()
                process.wait()
                process.stdout.close()


class CommandLine(unittest.TestCase):
    def test_version_is_one_line(self):
        self.assertRegex(call("--version").stdout, r"^perch \d+\.\d+\.\d+\n$")

    def test_help_lists_each_flag_with_its_variable(self):
        text = call("serve", "--help").stdout
        for flag, variable in [("--listen", "PERCH_LISTEN"), ("--data", "PERCH_DATA")]:
            self.assertIn(flag, text)
            self.assertIn(variable, text)

    def test_an_unknown_command_names_those_there_are(self):
        result = call("sreve")
        self.assertEqual(result.returncode, 2)
        self.assertIn("serve", result.stderr)

    def test_an_unknown_flag_names_those_there_are(self):
        result = call("serve", "--lisen", "x")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--listen", result.stderr)

    def test_a_wrong_value_names_what_is_expected(self):
        result = call("serve", "--log-level", "loud")
        self.assertEqual(result.returncode, 2)
        self.assertIn("debug, info, warning, error", result.stderr)

    def test_an_unknown_variable_is_an_error(self):
        result = call("serve", PERCH_LISTNE="x")
        self.assertEqual(result.returncode, 2)
        self.assertIn("PERCH_LISTEN", result.stderr)

    def test_a_taken_port_is_a_clear_failure(self):
        with tempfile.TemporaryDirectory() as place:
            result = call("serve", "--listen", URL.removeprefix("http://"), "--data", place)
        self.assertEqual(result.returncode, 1)
        self.assertIn("cannot listen on", result.stderr)

    def test_B64_check_tells_a_sound_cache_from_a_broken_one_beside_a_running_service(self):
        server = Server()
        try:
            self.assertTrue(server.is_ready())
            data = server.place.name + "/data"
            sound = call("check", "--data", data)
            self.assertEqual(sound.returncode, 0, sound.stdout + sound.stderr)
            self.assertRegex(sound.stdout, "^0 channels looked at in [0-9]+ ms: sound\n$")
            database = sqlite3.connect(data + "/perch.db")
            with database:
                database.execute("INSERT INTO tombstone VALUES (99, 1, 1, 0)")
            broken = call("check", "--data", data)
            self.assertEqual(broken.returncode, 1, broken.stdout)
            self.assertIn("rows_orphaned the cache: 1 rows of tombstone belong to no channel", broken.stdout)
            rows = database.execute("SELECT count(*) FROM tombstone").fetchone()
            database.close()
            self.assertEqual(rows, (1,), "it only looks")
        finally:
            server.stop(signal.SIGTERM)
        self.assertEqual(call("check", "--data", "/nowhere").returncode, 1)

    def test_health_tells_well_from_not_well(self):
        self.assertEqual(call("health", "--url", URL + "/healthz").returncode, 0)
        self.assertEqual(call("health", "--url", URL + "/nowhere").returncode, 1)
        self.assertEqual(call("health", "--url", "http://127.0.0.1:1/healthz").returncode, 1)


class Serving(unittest.TestCase):
    def test_it_is_ready_and_says_what_is_missing(self):
        status, _, body = get("/readyz")
        self.assertEqual(status, 200)
        self.assertEqual(json.loads(body)["reasons"], ["no_upstream"])

    def test_it_serves_the_contract_it_was_built_with(self):
        with open("openapi.yaml", "rb") as file:
            self.assertEqual(get("/openapi.yaml")[2], file.read())

    def test_metrics_are_samples_under_their_help(self):
        text = get("/metrics")[2].decode()
        self.assertIn("# TYPE perch_http_connections gauge\nperch_http_connections ", text)
        for line in text.splitlines():
            self.assertRegex(line, r"^(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+(\{[a-z]+=\"[^\"]*\"\})? -?\d+(\.\d+)?)$")

    def test_an_unknown_path_is_a_problem_with_a_request_id(self):
        status, headers, body = get("/nowhere")
        self.assertEqual((status, headers["Content-Type"]), (404, "application/problem+json"))
        self.assertEqual(json.loads(body)["x_request_id"], headers["X-Request-Id"])


class AdminAddress(unittest.TestCase):
    """`--admin-listen`: operators have an address of their own."""

    ADMIN = ["/metrics", "/docs", "/docs.js", "/openapi.yaml", "/openapi.json", "/v1/admin/users"]
    BOTH = ["/", "/healthz", "/readyz", "/problems/unauthorized"]

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--admin-listen", "127.0.0.1:0")
        cls.second_line = cls.server.process.stdout.readline()
        cls.admin = cls.second_line.split()[-1]
        assert cls.server.is_ready()

    @classmethod
    def tearDownClass(cls):
        code, seconds = cls.server.stop(signal.SIGTERM)
        assert (code, seconds < 5) == (0, True), (code, seconds)

    def test_its_address_is_the_second_line(self):
        self.assertRegex(self.server.first_line, r"^listening on http://127\.0\.0\.1:\d+\n$")
        self.assertRegex(self.second_line, r"^admin listening on http://127\.0\.0\.1:\d+\n$")
        self.assertNotEqual(self.server.url, self.admin)

    def test_what_is_for_operators_is_answered_there_alone(self):
        token = call("token", "--data", self.server.place.name + "/data", "--user", "a", "--scope", "admin").stdout
        for path in self.ADMIN:
            status, _, body = get(path, self.server.url)
            self.assertEqual((status, json.loads(body)["code"]), (404, "route_not_found"), path)
            request = urllib.request.Request(self.admin + path, headers={"Authorization": "Bearer " + token.strip()})
            with urllib.request.urlopen(request, timeout=10) as answer:
                self.assertEqual(answer.status, 200, path)
        self.assertEqual(get("/v1/admin/users", self.admin)[0], 401)
        self.assertIn(b"perch_http_connections", get("/metrics", self.admin)[2])

    def test_what_is_for_both_is_answered_on_both(self):
        for path in self.BOTH:
            for base in (self.server.url, self.admin):
                self.assertEqual(get(path, base)[0], 200, (base, path))
        for path in ("/", "/problems/unauthorized"):
            self.assertNotIn(b"/docs", get(path, self.server.url)[2], "no link to what is not there")
            self.assertIn(b"/docs", get(path, self.admin)[2])
        self.assertNotIn("/openapi.yaml", json.loads(get("/nowhere", self.server.url)[2])["detail"])

    def test_what_is_for_clients_is_not_answered_to_operators(self):
        for path in ("/v1/channels", "/v1/events", "/v1/cache", "/demo"):
            self.assertEqual(get(path, self.admin)[0], 404, path)
        self.assertEqual(get("/v1/channels", self.server.url)[0], 401)

    def test_without_it_one_address_has_everything(self):
        for path in [*self.ADMIN[:-1], *self.BOTH]:
            self.assertEqual(get(path)[0], 200, path)
        self.assertEqual(get("/v1/admin/users")[0], 401)

    def test_a_taken_address_is_a_clear_failure(self):
        with tempfile.TemporaryDirectory() as place:
            result = call("serve", "--listen", "127.0.0.1:0", "--data", place + "/data",
                          "--admin-listen", self.admin.removeprefix("http://"))
        self.assertEqual(result.returncode, 1)
        self.assertIn("cannot listen on " + self.admin.removeprefix("http://"), result.stderr)

    def test_both_stop_within_the_time_given(self):
        server = Server("--admin-listen", "127.0.0.1:0", "--stop-within", "2s")
        admin = server.process.stdout.readline().split()[-1]
        self.assertTrue(server.is_ready())
        halves = []
        for base in (server.url, admin):
            host, port = base.removeprefix("http://").split(":")
            half = socket.create_connection((host, int(port)))
            # A request that is never complete runs until the stop ends it.
            half.sendall(b"GET /healthz HTTP/1.1\r\nHost: here\r\nContent-Length: 5\r\n\r\n")
            idle = socket.create_connection((host, int(port)))
            halves += [half, idle]
        code, seconds = server.stop(signal.SIGTERM)
        self.assertEqual(code, 0)
        self.assertLess(seconds, 3.5)
        for half in halves:
            half.close()


class Stopping(unittest.TestCase):
    def test_the_first_line_is_where_it_listens(self):
        server = Server()
        self.assertRegex(server.first_line, r"^listening on http://127\.0\.0\.1:\d+\n$")
        self.assertEqual(server.stop(signal.SIGTERM)[0], 0)

    def test_a_data_directory_has_one_owner_and_a_second_is_told_who(self):
        server = Server()
        result = call("serve", "--listen", "127.0.0.1:0", "--data", server.place.name + "/data")
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"in use by process {server.process.pid}", result.stderr)
        self.assertEqual(server.stop(signal.SIGTERM)[0], 0)

    def test_a_killed_owner_leaves_the_directory_to_the_next(self):
        server = Server()
        data = server.place.name + "/data"
        server.process.kill()
        server.process.wait(timeout=20)
        again = subprocess.Popen(
            [PERCH, "serve", "--listen", "127.0.0.1:0", "--data", data],
            env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        self.assertRegex(again.stdout.readline(), r"^listening on ")
        again.send_signal(signal.SIGTERM)
        self.assertEqual(again.wait(timeout=20), 0)
        again.stdout.close()
        server.process.stdout.close()
        server.place.cleanup()

    def test_both_signals_end_it_at_once_and_well(self):
        for which in (signal.SIGTERM, signal.SIGINT):
            code, seconds = Server().stop(which)
            self.assertEqual(code, 0)
            self.assertLess(seconds, 5)

    def test_idle_connections_do_not_hold_it_up(self):
        server = Server()
        host, port = server.url.removeprefix("http://").split(":")
        idle = [socket.create_connection((host, int(port))) for _ in range(20)]
        for connection in idle:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n")
            connection.recv(65536)
        code, seconds = server.stop(signal.SIGTERM)
        self.assertEqual(code, 0)
        self.assertLess(seconds, 5)
        for connection in idle:
            connection.close()


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=0).result
    if not result.wasSuccessful():
        raise SystemExit(1)
    print(f"end to end: Test run with {result.testsRun} tests passed")
