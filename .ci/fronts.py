#!/usr/bin/python3
"""The service with a front before the chat server: TLS, HTTP/2, HTTP/1.1, a certificate that it does not trust."""

import ctypes
import select
import shutil
import socket
import subprocess
import threading
import time
import unittest

from syncing import ENVIRONMENT, Beside, ask, free_port


def versions():
    """The versions and features of the libcurl that the program loads."""
    library = ctypes.CDLL("libcurl.so.4")
    library.curl_version.restype = ctypes.c_char_p
    return library.curl_version().decode()


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, capture_output=True)


class Authority:
    """A certificate authority, which signs keys for localhost."""

    def __init__(self, place, name):
        self.path = f"{place}/{name}"
        self.certificate = self.path + ".pem"
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                "-keyout", self.path + ".key", "-out", self.certificate)

    def sign(self):
        """Makes a key for localhost and its certificate. Returns their files."""
        key, request, certificate, names = (self.path + end for end in ("-host.key", ".csr", "-host.pem", ".names"))
        with open(names, "w") as file:
            file.write("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", key, "-out", request)
        openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.path + ".key",
                "-CAcreateserial", "-days", "2", "-extfile", names, "-out", certificate)
        return key, certificate


class Front:
    """nghttpx before the upstream. Its log names the protocol of each request: h2 or http/1.1."""

    def __init__(self, place, upstream, authority, protocols="h2,http/1.1"):
        self.log, self.port = f"{place}/front.log", free_port()
        host, port = upstream.removeprefix("http://").split(":")
        self.process = subprocess.Popen(
            ["nghttpx", "--conf=/dev/null", f"--frontend=127.0.0.1,{self.port}", f"--backend={host},{port}",
             f"--npn-list={protocols}", "--no-ocsp", "--workers=1", f"--accesslog-file={self.log}",
             "--accesslog-format=$alpn $status $remote_port $request", *authority.sign()],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + 10
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self.port)).close()
            except OSError:
                if time.monotonic() > end or self.process.poll() is not None:
                    raise
                time.sleep(0.02)

    def lines(self):
        """Protocol, status, the client's port, method, path and version of each request."""
        with open(self.log) as file:
            return [line.split() for line in file]

    def stop(self):
        self.process.kill()
        self.process.wait()


class Wire:
    """Carries bytes to a port. After `lose` it still takes the bytes of earlier connections but drops them, as a router
    does that lost its state. It carries later connections."""

    def __init__(self, port):
        self.target, self.cut, self.pairs, self.is_open = port, set(), [], True
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while self.is_open:
            try:
                near = self.listener.accept()[0]
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self.target))
            self.pairs.append((near, far))
            threading.Thread(target=self.carry, args=(near, far), daemon=True).start()

    def carry(self, near, far):
        while True:
            for side in select.select([near, far], [], [])[0]:
                try:
                    data = side.recv(65536)
                    if near not in self.cut:
                        (far if side is near else near).sendall(data)
                except OSError:
                    data = b""
                if not data:
                    near.close()
                    far.close()
                    return

    def lose(self):
        """From now on the present connections stay open, and their bytes are dropped."""
        self.cut = {near for near, _ in self.pairs}

    def dead(self):
        """How many of these connections are still open."""
        return len([near for near in self.cut if near.fileno() >= 0])

    def stop(self):
        self.is_open = False
        self.listener.close()


@unittest.skipUnless(shutil.which("nghttpx"), "there is no nghttpx here: `.ci/install tools` installs it")
class Fronts(Beside):
    def setUp(self):
        super().setUp()
        self.authority = Authority(self.place.name, "authority")
        self.trust(self.authority)

    def trust(self, authority):
        ENVIRONMENT["SSL_CERT_FILE"] = authority.certificate
        self.addCleanup(ENVIRONMENT.pop, "SSL_CERT_FILE", None)

    def put(self, protocols):
        front = Front(self.place.name, self.origin.url, self.authority, protocols)
        self.addCleanup(front.stop)
        self.upstream[1] = f"https://localhost:{front.port}"
        return front

    def syncs_and_follows(self):
        """The service gets everything, at once and later."""
        result = self.sync()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"^synced: 6/6 channels, \d+ messages, \d+ requests, \d+\.\d s\n$")
        total = ask("GET", f"{self.origin.url}/v3/group_channels/random/messages/total_count")[1]["total"]
        self.assertEqual(len(self.cached("random")), total)
        self.assertGreaterEqual(len(self.cached("big")), 200)
        server = self.serve("--poll-interval", "200ms")
        self.assertTrue(self.until(lambda: ask("GET", server.url + "/readyz")[1]["upstream"] == "online"))
        self.send("random", "through the front")
        self.assertTrue(self.until(lambda: self.cached("random")[-1:] == ["through the front"]))
        self.assertEqual(server.stop(), 0)

    @unittest.skipUnless("nghttp2" in versions(), f"the libcurl here speaks no HTTP/2: {versions()}")
    def test_http_2_is_spoken_where_it_is_offered(self):
        front = self.put("h2,http/1.1")
        self.syncs_and_follows()
        lines = front.lines()
        self.assertGreater(len(lines), 20)
        self.assertEqual({line[0] for line in lines}, {"h2"}, "each request is one of HTTP/2")
        self.assertEqual({line[-1] for line in lines}, {"HTTP/2"})
        self.assertLess(len({line[2] for line in lines}), 10, "connections are kept")

    def test_http_1_1_is_spoken_where_nothing_else_is_offered(self):
        front = self.put("http/1.1")
        self.syncs_and_follows()
        lines = front.lines()
        self.assertGreater(len(lines), 20)
        self.assertEqual({line[0] for line in lines}, {"http/1.1"})

    def test_a_strangers_certificate_is_refused_and_it_is_said_why(self):
        front = self.put("h2,http/1.1")
        self.trust(Authority(self.place.name, "stranger"))
        refused = self.sync()
        self.assertEqual(refused.returncode, 1)
        self.assertIn("certificate", refused.stderr)
        self.assertIn("SSL_CERT_FILE", refused.stderr)
        server = self.serve()
        ready = lambda: ask("GET", server.url + "/readyz")
        self.assertTrue(self.until(lambda: ready()[1]["reasons"] == ["upstream_untrusted"]), ready())
        self.assertEqual((ready()[0], ready()[1]["upstream"]), (200, "offline"))
        status, problem = ask("GET", server.url + "/v1/channels", headers=self.bearer())
        self.assertEqual((status, problem["code"]), (503, "upstream_unreachable"))
        self.assertIn("upstream_untrusted", problem["detail"])
        self.assertEqual(front.lines(), [], "no request and no key went to whoever it is")
        self.assertEqual(server.stop(), 0)

    @unittest.skipUnless("nghttp2" in versions(), f"the libcurl here speaks no HTTP/2: {versions()}")
    def test_B3_a_connection_that_is_alive_in_name_only_is_left(self):
        front = self.put("h2,http/1.1")
        wire = Wire(front.port)
        self.addCleanup(wire.stop)
        self.upstream[1] = f"https://localhost:{wire.port}"
        server = self.serve("--poll-interval", "100ms", "--backoff-max", "1s")
        self.assertTrue(self.until(lambda: ask("GET", server.url + "/readyz")[1]["upstream"] == "online"))
        self.assertTrue(self.until(lambda: "general" in self.listed(server)))
        wire.lose()
        self.assertGreater(wire.dead(), 0)
        self.send("random", "while the line was dead")
        self.assertTrue(self.until(lambda: self.cached("random")[-1:] == ["while the line was dead"], 25))
        self.assertTrue(self.until(lambda: wire.dead() == 0, 25), "and it is closed")
        self.assertEqual(server.stop(), 0)

    def bearer(self):
        return {"Authorization": "Bearer " + self.token()}

    def listed(self, server):
        page = ask("GET", server.url + "/v1/channels", headers=self.bearer())[1]
        return [channel["channel_url"] for channel in page.get("items", [])]


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=0).result
    if not result.wasSuccessful():
        raise SystemExit(1)
    print(f"fronts: Test run with {result.testsRun} tests passed")
