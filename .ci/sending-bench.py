#!/usr/bin/python3
"""Measures sending, for `make bench` (ROW=sending): how many messages are accepted a second, and how fast the outbox
drains.

Accepting: 64 keep-alive senders over HTTP against plain SQLite without HTTP, one commit for each send (`commit`), in
turns; once while the chat server is away, and once while sync stores prefetched messages. A shim stretches every fsync
of both to 5 ms. The times are those of requests that were made; wrk adds others for those that a slow answer kept a
sender from. Draining: 10 000 messages of 100 channels against curl, which posts the same to the chat server itself
with as many requests at once. Pages: those of a channel with pending edits against those of one without.
"""

import http.client
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid

PERCH, PEERS = os.environ["TARGET_BINARY"], os.environ.get("BENCH_PEERS", "")
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAIRS = int(os.environ.get("BENCH_PAIRS", "7"))
SECONDS = int(os.environ.get("BENCH_SECONDS", "2"))
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("PERCH_")}
SYNC, SENDERS, IN_FLIGHT, CHANNELS = 5000, 64, 4, 100
MESSAGES = int(os.environ.get("BENCH_MESSAGES", "10000"))


class World:
    """A chat server with its data in a directory, and a service beside it."""

    def __init__(self, channels):
        self.place = tempfile.TemporaryDirectory()
        self.running = {}
        self.run("origin", "origin", "--data", self.place.name + "/origin", "--seed", str(channels))
        self.names = []

    def run(self, name, command, *words, listen="127.0.0.1:0", more={}):
        process = subprocess.Popen([PERCH, command, "--listen", listen, *words], env=ENVIRONMENT | more,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.running[name] = process, process.stdout.readline().split()[-1].removeprefix("http://")

    def serve(self, more={}, prefetch="1"):
        self.run("serve", "serve", "--auth", "off", "--access-log", "off", "--data", self.place.name + "/data",
                 "--upstream", "http://" + self.running["origin"][1], "--upstream-token", "origin", "--max-unsent",
                 "1000000", "--upstream-in-flight", str(IN_FLIGHT), "--prefetch-rate", prefetch, "--backoff-max", "1s",
                 more=more)
        self.ask("PUT", "/v1/connection", {})
        for _ in range(600):
            page = self.ask("GET", "/v1/channels?limit=100&include_empty=true")
            if page.get("complete"):
                break
            time.sleep(0.1)
        self.names = [channel["channel_url"] for channel in page["items"]]

    def stop(self, name):
        process, host = self.running.pop(name)
        process.kill()
        process.wait()
        process.stdout.close()
        return host

    def end(self):
        for name in list(self.running):
            self.stop(name)
        self.place.cleanup()

    def ask(self, method, path, body=None, connection=None):
        line = connection or http.client.HTTPConnection(self.running["serve"][1], timeout=60)
        line.request(method, path, None if body is None else json.dumps(body),
                     {"Perch-User": "alice", "Content-Type": "application/json"})
        answer = line.getresponse()
        found = json.loads(answer.read() or b"null")
        if answer.status not in (200, 202):
            sys.exit(f"{method} {path}: {answer.status} {found}")
        return found


    def there(self, method, path, body):
        line = http.client.HTTPConnection(self.running["origin"][1], timeout=60)
        line.request(method, path, json.dumps(body), {"Api-Token": "origin", "Content-Type": "application/json"})
        if line.getresponse().status != 200:
            sys.exit(f"{method} {path} upstream is refused")

    def stored(self):
        return self.ask("GET", "/v1/cache")["messages"]


def accepting(isIngesting):
    """Accepted a second and p99 in ms, of Perch and of the peer, in turns, and the messages that sync stored a second.

    The chat server is away meanwhile, or takes no message while sync prefetches from it.
    """
    world = World(6000 if isIngesting else 1)
    shim, senders = world.place.name + "/shim.so", world.place.name + "/senders"
    source = ROOT + "/Tests/SyncShim/sync_shim.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", shim, source, "-ldl"], check=True)
    subprocess.run(["cc", "-O2", "-o", senders, ROOT + "/Sources/BenchmarkPeers/senders.c"], check=True)
    shimmed = {"LD_PRELOAD": shim, "SYNC_SHIM_MICROSECONDS": str(SYNC)}
    if isIngesting:
        limit = {"path": "/v3/group_channels/*/messages", "method": "POST", "requests": 1, "seconds": 600}
        world.there("PUT", "/_faults", {"rate_limits": [limit]})
        world.serve(shimmed, prefetch="1000")
    else:
        world.serve(shimmed)
        world.stop("origin")
    ours, theirs, late, stored = [], [], [], []
    for _ in range(PAIRS):
        if isIngesting and ours:
            # Start with an empty cache again, because sync stores everything within some ten seconds.
            world.stop("serve")
            shutil.rmtree(world.place.name + "/data")
            world.serve(shimmed, prefetch="1000")
        port, path = world.running["serve"][1].split(":")[1], f"/v1/channels/{world.names[0]}/messages"
        before = world.stored()
        said = subprocess.run([senders, port, path, "alice", str(SENDERS), str(SECONDS)], check=True,
                              capture_output=True, text=True).stdout
        ours.append(float(re.match(r"([0-9]+)/s", said)[1]))
        late.append(float(re.search(r"p99 ([0-9.]+) ms", said)[1]))
        stored.append((world.stored() - before) / SECONDS)
        if PEERS:
            words = [PEERS + "/commit", world.place.name + "/peer.db", "one", str(SENDERS), str(SECONDS), str(SYNC)]
            said = subprocess.run(words, capture_output=True, text=True).stdout
            theirs.append(float(re.search(r": ([0-9.]+)/s", said)[1]))
    world.end()
    return ours, theirs, late, stored


def pages():
    """Pages a second of a channel with unsent messages and edits, and of one without, in turns.

    Three messages and three edits are unsent, as when somebody writes on without a network.
    """
    world = World(2)
    world.serve()
    edited, plain = world.names[:2]
    for number in range(3):
        world.ask("POST", f"/v1/channels/{edited}/messages", {"message": f"to be edited {number}"})
    while world.ask("GET", "/v1/outbox?limit=1")["items"]:
        time.sleep(0.1)
    time.sleep(5)  # until sync has listed the sent messages, so that a page needs no request to the chat server
    world.stop("origin")
    mine = [m["message_id"] for m in world.ask("GET", f"/v1/channels/{edited}/messages?limit=30")["items"]
            if m.get("message", "").startswith("to be edited")]
    for message in mine:
        world.ask("PATCH", f"/v1/channels/{edited}/messages/{message}", {"message": "edited"})
        world.ask("POST", f"/v1/channels/{edited}/messages", {"message": "unsent"})
    if len(mine) != 3 or len(world.ask("GET", "/v1/outbox?limit=10")["items"]) != 6:
        sys.exit("not six rows are unsent")
    rates = {edited: [], plain: []}
    for _ in range(PAIRS):
        for channel, rate in rates.items():
            url = f"http://{world.running['serve'][1]}/v1/channels/{channel}/messages?limit=30"
            said = subprocess.run(["wrk", "-t1", "-c32", f"-d{SECONDS}", "-H", "Perch-User: alice", url],
                                  capture_output=True, text=True).stdout
            rate.append(float(re.search(r"Requests/sec:\s+([0-9.]+)", said)[1]))
    world.end()
    return rates[edited], rates[plain]


def draining():
    """Messages a second that the service drains, and that curl posts to the same chat server.

    The time begins when the first message has left the outbox, because before that the service waits to retry the link.
    """
    world = World(CHANNELS)
    world.serve()
    address = world.stop("origin")
    line = http.client.HTTPConnection(world.running["serve"][1], timeout=60)
    for number in range(MESSAGES):
        channel = world.names[number % len(world.names)]
        world.ask("POST", f"/v1/channels/{channel}/messages", {"message": f"message {number}"}, line)
    head = world.ask("GET", "/v1/outbox?limit=1")["items"]
    world.run("origin", "origin", "--data", world.place.name + "/origin", listen=address)
    began = time.monotonic()
    while world.ask("GET", "/v1/outbox?limit=1")["items"] == head:
        if time.monotonic() - began > 60:
            sys.exit("nothing left the outbox")
        time.sleep(0.01)
    began = time.monotonic()
    while world.ask("GET", "/v1/outbox?limit=1")["items"]:
        if time.monotonic() - began > 600:
            sys.exit("the outbox did not drain")
        time.sleep(0.05)
    ours = MESSAGES / (time.monotonic() - began)
    config = world.place.name + "/curl"
    with open(config, "w") as file:
        for number in range(MESSAGES):
            # The same fields as the service sends, so that the chat server does the same work for both.
            body = json.dumps({"message_type": "MESG", "user_id": "alice", "message": f"message {number}",
                               "dedup_id": str(uuid.uuid4()), "mark_as_read": True})
            channel = world.names[number % len(world.names)]
            file.write(f'next\nurl = "http://{address}/v3/group_channels/{channel}/messages"\n'
                       f'data = {json.dumps(body)}\nheader = "Api-Token: origin"\n'
                       'header = "Content-Type: application/json"\noutput = "/dev/null"\n')
    began = time.monotonic()
    subprocess.run(["curl", "-sS", "--parallel", "--parallel-max", str(IN_FLIGHT), "-K", config], check=True)
    theirs = MESSAGES / (time.monotonic() - began)
    world.end()
    return ours, theirs


def main():
    for isIngesting in (False, True):
        ours, theirs, late, stored = accepting(isIngesting)
        beside = f" beside {statistics.median(stored):.0f} messages/s of sync" if isIngesting else ""
        print(f"P6 accepted{beside}: {statistics.median(ours):.0f}/s, p99 {statistics.median(late):.1f} ms = "
              f"{statistics.median(late) * 1000 / SYNC:.1f} syncs (goal 3)")
        if theirs:
            ratio = statistics.median(o / t for o, t in zip(ours, theirs))
            print(f"P6 against commit one: {statistics.median(theirs):.0f}/s, ratio {ratio:.1f} (goal 20)")
    ours, theirs = pages()
    ratio = statistics.median(o / t for o, t in zip(ours, theirs))
    print(f"pages with three edits and three messages unsent: {statistics.median(ours):.0f}/s, without {statistics.median(theirs):.0f}/s, "
          f"ratio {ratio:.2f} (goal 0.8)")
    ours, theirs = draining()
    print(f"drained: {ours:.0f}/s, curl {theirs:.0f}/s, ratio {ours / theirs:.2f} (goal 0.6)")


if __name__ == "__main__":
    main()
