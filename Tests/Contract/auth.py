"""Who is let in, by the program as it is run: tokens, secrets, their rotation, and `--auth off` (B61)."""

import http.client
import json
import os
import re
import signal
import stat
import subprocess
import tempfile
import unittest

from service import CONTRACT, ENVIRONMENT, PERCH, Pair, note, until


def perch(*words):
    return subprocess.run([PERCH, *words], env=ENVIRONMENT, capture_output=True, text=True, timeout=20)


class Kept:
    """A connection that stays, as clients keep them."""

    def __init__(self, url):
        self.connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=20)

    def ask(self, token=None, path="/v1/unread", **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            headers["Authorization"] = "Bearer " + token
        self.connection.request("GET", path, headers=headers)
        answer = self.connection.getresponse()
        body = answer.read()
        problem = "problem" in answer.headers["Content-Type"]
        return answer.status, json.loads(body).get("code") if problem else None, answer.headers

    def close(self):
        self.connection.close()


class Tokens(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pair = Pair()
        cls.pair.connect("alice")

    @classmethod
    def tearDownClass(cls):
        cls.pair.stop()

    def setUp(self):
        self.kept = Kept(self.pair.url)
        self.addCleanup(self.kept.close)

    def test_B61_the_secret_is_made_at_first_start_for_its_owner_alone(self):
        self.assertEqual(stat.S_IMODE(os.stat(self.pair.data + "/auth-secret").st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(os.stat(self.pair.data).st_mode), 0o700)

    def test_perch_token_prints_a_good_token_and_nothing_else(self):
        made = perch("token", "--data", self.pair.data, "--user", "alice", "--ttl", "1m")
        self.assertEqual((made.returncode, made.stderr, made.stdout.count("\n")), (0, "", 1))
        token = made.stdout.strip()
        self.assertEqual(self.kept.ask(token)[0], 200)
        self.assertEqual(self.kept.ask(token, "/v1/admin/users")[:2], (403, "insufficient_scope"))
        operator = perch("token", "--data", self.pair.data, "--scope", "admin").stdout.strip()
        self.assertEqual(self.kept.ask(operator, "/v1/admin/users")[0], 200)
        self.assertEqual(self.kept.ask(operator)[:2], (403, "insufficient_scope"), "it names no chat user")
        self.assertNotEqual(perch("token", "--data", self.pair.data).returncode, 0)
        admin = perch("token", "--data", self.pair.data, "--user", "alice", "--scope", "admin").stdout.strip()
        self.assertEqual(self.kept.ask(admin, "/v1/admin/users")[0], 200)
        self.assertEqual(self.kept.ask(admin)[0], 200, "admin adds to chat")

    def test_B61_a_token_signed_elsewhere_with_the_secret_is_as_good(self):
        self.assertEqual(self.kept.ask(self.pair.token("alice"))[0], 200)

    def test_what_is_refused_says_how_to_ask(self):
        for token, headers in [(None, {}), ("nonsense", {}), ("", {}), (None, {"Authorization": "Basic YTpi"}),
                               (self.pair.token("alice", seconds=-1), {}), (self.pair.token("alice")[:-2] + "AA", {})]:
            status, code, answer = self.kept.ask(token, **headers)
            self.assertEqual((status, code), (401, "unauthorized"))
            self.assertTrue(answer["WWW-Authenticate"].startswith("Bearer"))
            self.assertEqual(answer["Cache-Control"], "no-store")
        self.assertIn("insufficient_scope", self.kept.ask(self.pair.token("alice", ""))[2]["WWW-Authenticate"])

    def test_B61_a_token_remembered_with_its_connection_still_ends(self):
        token = self.pair.token("alice", seconds=2)
        self.assertEqual(self.kept.ask(token)[0], 200)
        self.assertEqual(self.kept.ask(token)[0], 200)
        until("it has ended", lambda: self.kept.ask(token)[0] == 401, 5)

    def test_B1_one_connection_serves_whoever_its_token_names(self):
        """What a connection remembers of one token is nothing to the next."""
        self.pair.connect("bob")
        for user in ("alice", "bob", "alice"):
            self.kept.connection.request(
                "GET", "/v1/connection", headers={"Authorization": "Bearer " + self.pair.token(user)})
            self.assertEqual(json.loads(self.kept.connection.getresponse().read())["user"], user)

    def test_B61_two_secrets_are_good_while_they_are_exchanged(self):
        pair = Pair()
        self.addCleanup(pair.stop)
        kept = Kept(pair.url)
        self.addCleanup(kept.close)
        path = pair.data + "/auth-secret"
        old = pair.token("alice")
        self.assertEqual(kept.ask(old)[0], 200)
        with open(path) as file:
            first = file.read()
        second = "f" * 43 + "\n"

        def exchange(text):
            with open(path + ".new", "w") as file:
                file.write(text)
            os.rename(path + ".new", path)
            pair.process.send_signal(signal.SIGHUP)

        exchange(second + first)
        new = pair.token("alice")
        until("the new one is good", lambda: kept.ask(new)[0] == 200)
        self.assertEqual(kept.ask(old)[0], 200)
        exchange("too short\n")
        until("it is said that it cannot be read", lambda: "secrets_not_reread" in pair.log())
        self.assertEqual((kept.ask(new)[0], kept.ask(old)[0]), (200, 200))
        exchange(second)
        until("the old one is not", lambda: kept.ask(old)[0] == 401)
        self.assertEqual(kept.ask(new)[0], 200)

    def test_with_tokens_any_host_is_good(self):
        headers = {"Host": "chat.example.org", "Authorization": "Bearer " + self.pair.token("alice")}
        self.assertEqual(self.pair.send("GET", "/v1/unread", headers).status, 200)

    def test_B61_secrets_and_tokens_are_in_no_log(self):
        token = self.pair.token("alice")
        self.kept.ask(token)
        self.kept.ask(token, "/v1/events?ticket=secret-ticket")
        with open(self.pair.data + "/auth-secret") as file:
            secret = file.read().split()[0]
        until("both are logged", lambda: "pollEvents" in self.pair.log())
        for hidden in (token, token.split(".")[2], secret, "secret-ticket"):
            self.assertNotIn(hidden, self.pair.log())


class Off(unittest.TestCase):
    def test_without_tokens_it_listens_on_loopback_alone(self):
        with tempfile.TemporaryDirectory() as place:
            for address in ("0.0.0.0:0", "[::]:0"):
                refused = perch("serve", "--auth", "off", "--listen", address, "--data", place + "/data")
                self.assertEqual(refused.returncode, 2, refused)
                self.assertIn("loopback", refused.stderr)
            refused = perch("serve", "--auth", "off", "--listen", "127.0.0.1:0", "--admin-listen", "0.0.0.0:0",
                            "--data", place + "/data")
            self.assertEqual(refused.returncode, 2, refused)
            self.assertIn("loopback", refused.stderr)
            self.assertEqual(os.listdir(place), [], "what is refused makes nothing")

    def test_without_tokens_no_operation_is_answered_to_a_page_of_another_name(self):
        """A web page whose name resolves to this machine has that name in Host, and may send any header."""
        pair = Pair("--auth", "off")
        self.addCleanup(pair.stop)
        port = pair.url.rsplit(":", 1)[1]
        operations = [each for each in CONTRACT.operations.values() if each.path.startswith("/v1/")]
        self.assertGreater(len(operations), 30)
        for operation in operations:
            path = re.sub(r"{\w+}", "1", operation.path)
            for host in (f"evil.example:{port}", "127.0.0.1.evil.example", "192.168.1.5"):
                for method in {operation.method, "OPTIONS"}:
                    answer = pair.send(
                        method, path, {"Host": host, "Perch-User": "alice", "Origin": f"http://{host}"})
                    note(operation.id if method != "OPTIONS" else "*", answer.status, answer.code, answer.headers)
                    self.assertEqual((answer.status, answer.code), (403, "host_not_allowed"), (operation.id, host))
                    self.assertIn("--auth off", answer.json["detail"])
        for host in (f"127.0.0.1:{port}", "localhost", f"[::1]:{port}"):
            self.assertEqual(pair.send("GET", "/v1/admin/users", {"Host": host, "Perch-User": "alice"}).status, 200)
        self.assertEqual(pair.send("GET", "/healthz", {"Host": "evil.example"}).status, 200)

    def test_without_tokens_a_header_names_the_user(self):
        pair = Pair("--auth", "off")
        self.addCleanup(pair.stop)
        kept = Kept(pair.url)
        self.addCleanup(kept.close)
        self.assertEqual(kept.ask()[:2], (401, "unauthorized"))
        status, _, headers = kept.ask(Perch_User="alice")
        self.assertEqual((status, headers["Vary"]), (200, "Perch-User"))
        self.assertEqual(kept.ask(Perch_User="alice", path="/v1/admin/users")[0], 200)


if __name__ == "__main__":
    unittest.main(verbosity=0)
