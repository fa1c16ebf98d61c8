#!/usr/bin/env python3
"""Pages in a real Chromium, from another origin than Perch, follow a channel whatever happens.

One is the page of docs/clients.md, with an EventSource of its own. The other uses `client.js` as Perch serves it. While
messages come and go the service is killed and started again, the tokens of the page's server end, and the browser loses
its network. No page may ever show a message twice or say an error of its own, and 5 s after all is quiet both show what
is true.
"""

import http.server
import re
import shutil
import threading
import time
import unittest

from playwright.sync_api import sync_playwright

from live_clients import AGREEING, Story, World, bearer
from network import free_port

# How long a token of the page's server is valid (s): a stream ends several times in each test.
TOKEN_SECONDS = 3
with open("docs/clients.md") as file:
    DOCUMENTED = re.search(r"```html\n(.*?)```", file.read(), re.S)[1]
WITH_CLIENT = """<!doctype html>
<meta charset="utf-8">
<ul></ul>
<script type="module">
  import { open } from "http://127.0.0.1:8080/client.js";
  const token = async () => (await fetch("/token")).text();
  window.view = await open("general", { url: "http://127.0.0.1:8080", token, maxPause: 1 });
  view.listen(() => {
    document.querySelector("ul").replaceChildren(...view.messages.map((row) => {
      const item = document.createElement("li");
      item.textContent = `${row.message} ${row.sending_status}`;
      return item;
    }));
  });
</script>
"""
# Runs in each page before its own script: keeps what was shown twice at one moment.
OBSERVER = """
window.twice = [];
new MutationObserver(() => {
  const texts = [...document.querySelectorAll("li")].map((item) => item.textContent.replace(/ [a-z]+$/, ""));
  twice.push(...texts.filter((text, at) => texts.indexOf(text) !== at));
}).observe(document, { childList: true, subtree: true });
"""
# What a browser itself says of a request that failed, which is what these tests make happen.
NETWORK = re.compile(r"Failed to load resource|net::ERR_|ERR_INCOMPLETE")


class PageServer(http.server.ThreadingHTTPServer):
    """The app's own server: it gives the pages, and a token for their user."""

    def __init__(self):
        super().__init__(("127.0.0.1", free_port()), Handler)
        self.origin = f"http://127.0.0.1:{self.server_port}"
        self.pages = {"/favicon.ico": ""}
        self.tokens = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/token":
            self.server.tokens += 1
            return self.answer("text/plain", bearer(self.server.secret, "alice", seconds=TOKEN_SECONDS))
        self.answer("text/html; charset=utf-8", self.server.pages[self.path])

    def answer(self, kind, text):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


class Talk(Story):
    """A channel that two pages show."""

    def __init__(self, world, name):
        world.open = lambda *_: []
        super().__init__(world, name)

    def shown(self):
        """What a page must show."""
        sent, unsent = self.settle()
        return [f"{row['message']} {row['sending_status']}" for row in sent + unsent]


class LivePages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = PageServer()
        cls.world = World("--cors-origins", cls.server.origin)
        cls.server.secret = cls.world.secret
        cls.playwright = sync_playwright().start()
        cls.browser = cls.playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-dev-shm-usage"])

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.playwright.stop()
        cls.world.end()
        cls.server.shutdown()
        cls.server.server_close()

    def open(self, name):
        """The channel, and both pages that show it."""
        self.talk = Talk(self.world, name)
        self.talk.settle()
        self.context = self.browser.new_context()
        self.addCleanup(self.context.close)
        self.said, self.pages = [], []
        for page, text in (("documented", DOCUMENTED), ("client", WITH_CLIENT)):
            address = f"http://127.0.0.1:{self.world.port}"
            text = text.replace("http://127.0.0.1:8080", address).replace('"general"', f'"{self.talk.channel}"')
            self.server.pages[f"/{page}"] = text
            self.pages.append(self.load(page))
        self.agree()

    def load(self, name):
        page = self.context.new_page()
        page.add_init_script(OBSERVER)
        page.on("pageerror", lambda error: self.said.append(f"{name}: {error}"))
        page.on("console", lambda line: self.said.append(f"{name}: {line.text}")
                if line.type in ("error", "warning") and not NETWORK.search(line.text) else None)
        page.goto(f"{self.server.origin}/{name}")
        return page

    def agree(self):
        """Each page shows the truth within 5 s. None has shown a message twice, or said an error."""
        wanted, ends = self.talk.shown(), time.monotonic() + AGREEING
        for page in self.pages:
            while (shown := page.locator("li").all_inner_texts())[-len(wanted):] != wanted[-len(shown):] or len(shown) < 30:
                self.assertLess(time.monotonic(), ends, f"{page.url} shows {shown}, not {wanted}")
                time.sleep(0.1)
            self.assertEqual(page.evaluate("window.twice"), [], page.url)
        self.assertEqual(self.said, [])

    def talk_for(self, seconds):
        """Bob says, edits and deletes things, and alice says something from her page."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            self.talk.say()
            self.talk.random.choice([self.talk.say, self.talk.others])()
            self.talk.count += 1
            self.pages[1].evaluate(
                "(text) => { view.send(text).catch((error) => console.error(error.message)); }", f"alice {self.talk.count}")
            self.pages[1].wait_for_timeout(100)

    def test_a_page_shows_what_is_said_and_goes_on_when_its_tokens_end(self):
        self.open("tokens")
        tokens = self.server.tokens
        self.talk_for(3 * TOKEN_SECONDS)
        self.agree()
        self.assertGreater(self.server.tokens, tokens + 3, "tokens were renewed")

    def test_a_page_outlives_the_service(self):
        self.open("killed")
        for _ in range(3):
            self.talk_for(1)
            self.world.service.kill()
            self.pages[1].wait_for_timeout(700)
            self.world.start()
            self.talk_for(1)
        self.agree()

    def test_a_page_outlives_its_network(self):
        self.open("offline")
        for _ in range(2):
            self.talk_for(1)
            self.context.set_offline(True)
            self.talk_for(TOKEN_SECONDS)
            self.context.set_offline(False)
            self.talk_for(1)
        self.agree()

    def test_a_page_shows_nothing_of_a_lost_channel_and_goes_on_when_the_user_is_back(self):
        self.open("left")
        self.talk.leave()
        for page in self.pages:
            page.wait_for_function("document.querySelectorAll('li').length === 0", timeout=10_000)
        self.talk.come_back()
        self.talk.say()
        for page in self.pages:
            page.wait_for_function("document.querySelectorAll('li').length > 0", timeout=10_000)
        self.agree()


if __name__ == "__main__":
    unittest.main(verbosity=2)
