"""A chat server, Perch and a Chromium for tests of the chat page, and a page that is watched all the time."""

import html
import os
import re
import shutil
import tempfile
import time
import unittest

from playwright.sync_api import expect, sync_playwright

from live_clients import Program, ask, bearer
from network import Proxy, free_port

# Debian has Chromium twice: whole, and without windows, which takes half as much processor time.
BROWSER = os.environ.get("PERCH_BROWSER", "chromium")
SHOTS = os.environ.get("PERCH_SCREENSHOTS", ".build/screenshots")
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 390, "height": 780}
# What a browser itself says of a request that failed or was refused, which is what some tests make happen.
NETWORK = re.compile(r"Failed to load resource|net::ERR_|ERR_INCOMPLETE")
# How long what has no bound of its own may take on a machine that is busy (s). Tests measure what has one.
PATIENCE = 30
expect.set_options(timeout=PATIENCE * 1000)
OBSERVER = "Tests/Browser/observer.js"
# What is wider than the box that shows it. Boxes that cut a text with an ellipsis, or scroll it, are meant to.
OVERFLOW = """() => [...document.querySelectorAll("body *")].filter((one) => {
  if (!one.clientWidth || one.scrollWidth <= one.clientWidth + 1 || one.closest("svg")) return false;
  return getComputedStyle(one).overflowX === "visible" && getComputedStyle(one).display !== "inline";
}).map((one) => `${one.tagName}.${one.className} ${one.scrollWidth}>${one.clientWidth}`)"""


def operations():
    """The methods and paths of the contract, as patterns."""
    found, path = [], ""
    with open("openapi.yaml") as file:
        for line in file:
            if line.startswith("components:"):
                break
            if match := re.match(r"  (/\S*):", line):
                path = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(match[1]))
            elif match := re.match(r"    (get|put|post|patch|delete):", line):
                found.append(re.compile(f"{match[1].upper()} {path}"))
    return found


class PageWorld:
    """The stand-in with its seed, a line to it that can be cut, Perch, and a browser. All tests share them."""

    def __init__(self):
        self.place = tempfile.TemporaryDirectory()
        self.log = open(self.place.name + "/log", "w")
        self.origin_port, self.port = free_port(), free_port()
        self.origin = Program(
            self.log, "origin", "--listen", f"127.0.0.1:{self.origin_port}", "--seed", "small",
            "--webhook", f"http://127.0.0.1:{self.port}/v1/webhooks/sendbird")
        self.line = Proxy(self.origin_port)
        self.start()
        with open(self.place.name + "/data/auth-secret") as file:
            self.secret = file.read().split()[0]
        self.base = f"http://127.0.0.1:{self.port}"
        self.playwright = sync_playwright().start()
        arguments = ["--disable-dev-shm-usage"] + (["--no-sandbox"] if os.geteuid() == 0 else [])
        self.browser = self.playwright.chromium.launch(executable_path=shutil.which(BROWSER), args=arguments)
        self.count, self.shots, self.operations = 0, [], operations()

    def start(self):
        self.service = Program(
            self.log, "serve", "--listen", f"127.0.0.1:{self.port}", "--access-log", "off", "--log-level", "warning",
            "--data", self.place.name + "/data", "--upstream", f"http://127.0.0.1:{self.line.port}",
            "--upstream-token", "origin", "--poll-interval", "1s", "--idle-poll-interval", "1s",
            "--backoff-max", "1s", "--uncertain-grace", "1s", "--upstream-deduplicates", "yes")

    def cut(self):
        """The chat server cannot be reached any more."""
        # Of what Perch stores after the cut it tells only when it knows the user's changes again (B1). So the first
        # fetching of channels and messages ends before.
        self.until(lambda: self.here("alice", "GET", "/v1/connection")[1]["sync"]["phase"] == "steady")
        self.line.fault = "refuse"
        self.line.reset()

    def mend(self):
        self.line.fault = None

    def there(self, method, path, body=None):
        """Asks the chat server."""
        status, found = ask(self.origin_port, method, path, body, {"Api-Token": "origin"})
        assert status == 200, (method, path, status, found)
        return found

    def here(self, user, method, path, body=None, scope="chat"):
        """Asks Perch."""
        return ask(self.port, method, path, body, {"Authorization": "Bearer " + bearer(self.secret, user, scope)})

    def channel(self, users=("alice", "bob"), messages=0, name=None, **fields):
        """A new channel, and so many messages of bob's in it. Its url."""
        self.count += 1
        url = f"room-{self.count}"
        body = {"channel_url": url, "name": name or f"Room {self.count}", "user_ids": list(users)} | fields
        self.there("POST", "/v3/group_channels", body)
        for number in range(messages):
            self.say(url, f"t{number} from bob")
        self.until(lambda: self.here(users[0], "GET", f"/v1/channels/{url}")[0] == 200)
        return url

    def say(self, channel, text, user="bob", **fields):
        """A message that somebody writes at the chat server."""
        return self.there("POST", f"/v3/group_channels/{channel}/messages", {
            "message_type": "MESG", "user_id": user, "message": text} | fields)

    def texts(self, channel):
        """The newest texts at the chat server, the oldest first."""
        page = self.there("GET", f"/v3/group_channels/{channel}/messages"
                          "?message_ts=9007199254740991&prev_limit=100&next_limit=0&include=true&include_reply_type=all")
        return [message.get("message") or message.get("file", {}).get("name") for message in page["messages"]]

    def until(self, holds, seconds=PATIENCE):
        ends = time.monotonic() + seconds
        while not (found := holds()):
            assert time.monotonic() < ends, "it does not become true"
            time.sleep(0.05)
        return found

    def write_index(self):
        """The page of all screenshots, to look at them."""
        pictures = "".join(f"<figure><figcaption>{html.escape(name)}</figcaption><img loading=lazy src='{name}.png'></figure>"
                           for name in sorted(file[:-4] for file in os.listdir(SHOTS) if file.endswith(".png")))
        with open(f"{SHOTS}/index.html", "w") as file:
            file.write("<!doctype html><meta charset=utf-8><title>States of the chat page</title><style>body{font:14px sans-serif}"
                       "figure{display:inline-block;margin:8px}img{max-height:520px;border:1px solid #999}</style>" + pictures)

    def end(self):
        self.browser.close()
        self.playwright.stop()
        if self.shots:
            self.write_index()
        self.service.kill()
        self.origin.kill()
        self.log.close()
        self.place.cleanup()


WORLD = None


def world():
    """The world of all tests of this process."""
    global WORLD
    WORLD = WORLD or PageWorld()
    return WORLD


class PageTest(unittest.TestCase):
    """A test that opens pages. Whatever it does, no page may have shown something wrong."""

    size, by_keyboard, scheme, observes = WIDE, False, "light", True

    def setUp(self):
        self.world = world()
        self.said, self.pages, self.hosts, self.asked = [], [], set(), set()
        self.addCleanup(self.world.mend)
        self.context = self.new_context()

    def tearDown(self):
        for page in self.pages:
            if not page.is_closed():
                self.assertEqual(page.evaluate("[...new Set(window.faults ?? [])]"), [], "the observer")
                self.assertEqual(page.evaluate(OVERFLOW), [], "no text is wider than its box")
        self.assertEqual(self.said, [], "the console")
        unknown = [asked for asked in self.asked if not any(one.fullmatch(asked) for one in self.world.operations)]
        self.assertEqual(unknown, [], "the page asks for nothing that the contract lacks")
        self.assertEqual(self.hosts - {self.world.base.split("/")[2]}, set(), "only Perch is asked")

    def new_context(self, **options):
        context = self.world.browser.new_context(
            viewport=self.size, color_scheme=self.scheme, has_touch=self.size is NARROW, **options)
        self.addCleanup(context.close)
        return context

    def page_of(self, user="alice", channel="", context=None, token=None, clock=0):
        """A page of somebody, with a channel open. `clock`: how far the browser's clock is ahead (ms)."""
        page = self.new_page(context)
        if clock:
            page.add_init_script(f"const now = Date.now; Date.now = () => now() + {clock};")
        token = token or bearer(self.world.secret, user)
        session = f'{{"user": "{user}", "token": "{token}"}}'
        page.add_init_script(f"sessionStorage.getItem('perch.session') || sessionStorage.setItem('perch.session', '{session}')")
        page.goto(f"{self.world.base}/#/{channel}" if channel else self.world.base)
        if channel:
            page.locator("#chat .composer").wait_for()
        return page

    def new_page(self, context=None):
        """An empty page that is watched."""
        page = (context or self.context).new_page()
        self.pages.append(page)
        page.set_default_timeout(PATIENCE * 1000)
        if self.observes:
            page.add_init_script(path=OBSERVER)
        page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        page.on("console", lambda line: self.said.append(line.text)
                if line.type in ("error", "warning") and not NETWORK.search(line.text) else None)
        page.on("request", self.note_request)
        return page

    def note_request(self, request):
        # The target of a redirect is named here though the page does not follow it. If it did, its policy would tell.
        if request.url.startswith("http") and not request.redirected_from:
            _, _, host, path = request.url.split("/", 3)
            self.hosts.add(host)
            self.asked.add(f"{request.method} /{path.split('?')[0].split('#')[0]}")

    def press(self, page, selector, key="Enter"):
        """Presses a control: with the pointer, or with nothing but keys."""
        if not self.by_keyboard:
            page.locator(selector).first.click()
            return
        self.reach(page, selector)
        page.keyboard.press(key)

    def reach(self, page, selector):
        """Goes to a control by Tab, and in lists by the arrow keys."""
        page.locator(selector).first.wait_for(state="attached")
        is_there = f"document.activeElement.matches({selector!r})"
        for _ in range(40):
            if page.evaluate(is_there):
                return
            inside = page.evaluate(f"""(() => {{
              const list = document.activeElement.closest("#channels, .log");
              const isInItem = document.activeElement.querySelector({selector!r});
              return Boolean(list?.querySelector({selector!r})) && !isInItem && document.activeElement.matches(".channel, article");
            }})()""")
            if inside and self.walk(page, selector) and page.evaluate(is_there):
                return
            page.keyboard.press("Tab")
        self.fail(f"{selector} cannot be reached by keyboard")

    def walk(self, page, selector):
        """Walks through a list, down and then up, to what is wanted or to the item that has it."""
        is_there = f"document.activeElement.matches({selector!r}) || Boolean(document.activeElement.querySelector({selector!r}))"
        for key in ("ArrowDown", "ArrowUp"):
            for _ in range(50):
                before = page.evaluate("document.activeElement.dataset.key ?? document.activeElement.dataset.url")
                page.keyboard.press(key)
                if page.evaluate(is_there):
                    return True
                if before == page.evaluate("document.activeElement.dataset.key ?? document.activeElement.dataset.url"):
                    break
        return False

    def focus_message(self, page, text):
        """Chooses a message, so that its buttons are there."""
        article = page.locator("#chat article", has_text=text)
        article.wait_for()
        if not self.by_keyboard:
            article.first.hover()
            article.first.locator(".text, .file").first.click()
            return
        key = article.first.get_attribute("data-key")
        self.reach(page, f'article[data-key="{key}"]')

    def write(self, page, text, pane="#chat"):
        """Writes a message and sends it."""
        self.reach(page, f"{pane} .field") if self.by_keyboard else page.locator(f"{pane} .field").click()
        page.keyboard.type(text)
        page.keyboard.press("Enter")

    def sees(self, page, text, pane="#chat"):
        expect(page.locator(f"{pane} .text", has_text=text)).to_be_visible()

    def misses(self, page, text, pane="#chat"):
        expect(page.locator(f"{pane} .text", has_text=text)).to_have_count(0)

    def shot(self, page, name):
        """Keeps a picture of a state."""
        width = "390" if self.size is NARROW else "1280"
        name = f"{name}-{width}-{self.scheme}"
        os.makedirs(SHOTS, exist_ok=True)
        page.screenshot(path=f"{SHOTS}/{name}.png")
        self.world.shots.append(name)
