#!/usr/bin/python3
"""A real browser runs nothing of a file that a user sent, when it opens the file's endpoint (B45).

A user sends a page, an image and a script that would request an address of this test. Chromium opens each through a
proxy, which adds the header that names the user. With Perch's answers the browser requests nothing. Without the
protecting headers it does, which shows that this test can fail.
"""

import http.client
import http.server
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

PERCH = os.environ["TARGET_BINARY"]
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("PERCH_")}
CHROMIUM = shutil.which("chromium")
# How long the browser may go on after it got the file (s).
SECONDS = 10
PROTECTION = {"content-disposition", "content-security-policy", "x-content-type-options", "content-type"}
# The script requests an address, and it changes the page.
SCRIPT = """new Image().src = "CANARY"; document.documentElement.setAttribute("data-" + "ran", "yes");"""
PAGE = f"<!doctype html><html><body>hello<script>{SCRIPT}</script></body></html>"
PICTURE = f'<svg xmlns="http://www.w3.org/2000/svg"><script>{SCRIPT}</script></svg>'
# The type that the sender names, the one that the file has, and its content.
FILES = {
    "page": ("text/html", "text/html", PAGE),
    "picture": ("image/svg+xml", "image/svg+xml", PICTURE),
    "script": ("text/javascript", "text/javascript", SCRIPT),
    "page-as-text": ("text/plain", "text/html", PAGE),
    "page-as-png": ("image/png", "text/html", PAGE),
    "script-as-text": ("text/plain", "text/javascript", SCRIPT),
}


class Proxy(http.server.BaseHTTPRequestHandler):
    """GET /MODE/… asks the service for the rest of the path. /canary/… is the address that no script may request.

    The mode `whole` keeps the headers of the answer. `bare` drops those that protect it, and gives the file's own type.
    `policy` does the same, but keeps Content-Security-Policy. `embedded-MODE` is a page with that answer as its script.
    """

    service, types, asked, statuses = "", {}, [], []

    def do_GET(self):
        mode, _, path = self.path[1:].partition("/")
        if mode == "canary":
            Proxy.asked.append(path)
            return self.answer(204, [], b"")
        if mode.startswith("embedded-"):
            page = f'<!doctype html><script src="/{mode.removeprefix("embedded-")}/{path}"></script>'
            return self.answer(200, [("Content-Type", "text/html")], page.encode())
        if path not in Proxy.types:
            return self.answer(404, [], b"")
        connection = http.client.HTTPConnection(Proxy.service, timeout=20)
        connection.request("GET", "/" + path, headers={"Perch-User": "alice"})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        Proxy.statuses.append(answer.status)
        dropped = {"whole": set(), "bare": PROTECTION, "policy": PROTECTION - {"content-security-policy"}}[mode]
        headers = [(name, value) for name, value in answer.getheaders()
                   if name.lower() not in dropped | {"connection", "content-length", "date"}]
        self.answer(answer.status, headers + ([("Content-Type", Proxy.types[path])] if dropped else []), body)

    def answer(self, status, headers, body):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Browser(unittest.TestCase):
    def setUp(self):
        self.place, self.running = tempfile.TemporaryDirectory(), []
        origin = self.start("origin", "--listen", "127.0.0.1:0")
        service = self.start(
            "serve", "--listen", "127.0.0.1:0", "--auth", "off", "--access-log", "off", "--data",
            self.place.name + "/data", "--upstream", origin[1], "--upstream-token", "origin")
        Proxy.service = service[1].removeprefix("http://")
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        end = time.monotonic() + 20
        while not self.ask("GET", "/v1/channels?limit=9")[1].get("complete"):
            self.assertLess(time.monotonic(), end, "a channel")
            time.sleep(0.05)
        # The files stay unsent, because Perch itself answers only the bytes of unsent files.
        origin[0].kill()
        for name, (named, real, content) in FILES.items():
            self.send(name, named, content.replace("CANARY", f"{self.address}/canary/{name}"))
            Proxy.types[self.path(name)] = real

    def tearDown(self):
        self.server.shutdown()
        self.server.server_close()
        for process in self.running:
            process.kill()
            process.wait()
            process.stdout.close()
        self.place.cleanup()

    def start(self, *words):
        process = subprocess.Popen(
            [PERCH, *words], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.running.append(process)
        return process, process.stdout.readline().split()[-1]

    def ask(self, method, path, body=None, headers={}):
        connection = http.client.HTTPConnection(Proxy.service, timeout=20)
        connection.request(method, path, body, {"Perch-User": "alice"} | headers)
        answer = connection.getresponse()
        found = json.loads(answer.read())
        connection.close()
        return answer.status, found

    def send(self, name, mime, content):
        form = (f'--b\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\nContent-Type: {mime}\r\n\r\n'
                f"{content}\r\n--b--\r\n").encode()
        status, found = self.ask("POST", "/v1/channels/general/messages", form, {
            "Content-Type": "multipart/form-data; boundary=b", "Idempotency-Key": name})
        self.assertEqual(status, 202, found)

    @staticmethod
    def path(name):
        return f"v1/channels/general/messages/request_id:{name}/file"

    def open(self, mode, name):
        """What ran when the browser opened the file: whether it sent a request, and whether it changed the page."""
        Proxy.asked, Proxy.statuses = [], []
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            browser = subprocess.Popen(
                [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                 "--disable-background-networking", f"--user-data-dir={profile}", "--timeout=5000", "--dump-dom",
                 f"{self.address}/{mode}/{self.path(name)}"],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True)
            try:
                end = time.monotonic() + 60
                while not Proxy.statuses and time.monotonic() < end:
                    time.sleep(0.05)
                page = browser.communicate(timeout=SECONDS)[0]
            except subprocess.TimeoutExpired:
                # The browser saves the file, so it has no page to print.
                page = ""
            finally:
                try:
                    os.killpg(browser.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                browser.communicate()
        self.assertEqual(set(Proxy.statuses), {200}, "the browser got the file")
        self.assertLessEqual(set(Proxy.asked), {name})
        return bool(Proxy.asked), 'data-ran="yes"' in page

    def test_B45_a_browser_runs_nothing_of_a_page_or_a_picture(self):
        for name in ("page", "picture", "page-as-text", "page-as-png"):
            with self.subTest(name):
                self.assertEqual(self.open("bare", name), (True, True), "unprotected it runs")
                self.assertEqual(self.open("whole", name), (False, False))
                self.assertEqual(self.open("policy", name), (False, False))

    def test_B45_a_browser_runs_no_file_as_the_script_of_a_page(self):
        for name in ("script", "script-as-text"):
            with self.subTest(name):
                self.assertEqual(self.open("embedded-bare", name), (True, True), "unprotected it runs")
                self.assertEqual(self.open("embedded-whole", name), (False, False))


if __name__ == "__main__":
    if not CHROMIUM:
        sys.exit("there is no chromium here: apt-get install chromium")
    unittest.main(verbosity=2)
