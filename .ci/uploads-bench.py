#!/usr/bin/python3
"""Measures uploads, for `make bench` (ROW=upload): how long a file of 25 MiB takes to be on the disk and accepted.

curl posts the same form to the service and to plain C, which writes it to a file and syncs file and folder (`receive`),
in turns. The chat server is away meanwhile. Pages: how many the service answers while such files come in one after the
other, against how many it answers alone.
"""

import http.client
import importlib
import os
import re
import statistics
import subprocess
import sys
import threading

World = importlib.import_module("sending-bench").World
PEERS = os.environ.get("BENCH_PEERS", "")
PAIRS = int(os.environ.get("BENCH_PAIRS", "7"))
SECONDS = int(os.environ.get("BENCH_SECONDS", "2"))
SIZE = 26_214_400


class Files:
    """A service without its chat server, the peer, and a file for both."""

    def __init__(self):
        self.world, self.count = World(2), 0
        self.world.serve()
        self.world.stop("origin")
        self.service = self.world.running["serve"][1]
        self.path = f"/v1/channels/{self.world.names[0]}/messages"
        self.file = self.world.place.name + "/file"
        with open(self.file, "wb") as file:
            file.write(os.urandom(SIZE))
        os.mkdir(self.world.place.name + "/peer")
        if PEERS:
            self.peer = subprocess.Popen([PEERS + "/receive", self.world.place.name + "/peer"],
                                         stdout=subprocess.PIPE, text=True)
            self.port = int(self.peer.stdout.readline())

    def end(self):
        if PEERS:
            self.peer.kill()
            self.peer.wait()
            self.peer.stdout.close()
        self.world.end()

    def post(self, url, *words):
        """How long the file takes to its 202, in ms."""
        said = subprocess.run(
            ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code} %{time_total}", *words,
             "-F", f"file=@{self.file}", url],
            capture_output=True, text=True, check=True).stdout.split()
        if said[0] != "202":
            sys.exit(f"{url}: {said}")
        return float(said[1]) * 1000

    def ours(self):
        self.count += 1
        name = f"file-{self.count}"
        taken = self.post(
            f"http://{self.service}{self.path}", "-H", "Perch-User: alice", "-H", f"Idempotency-Key: {name}")
        # Takes the accepted message back, then removes its row and its bytes.
        for status in (202, 204):
            line = http.client.HTTPConnection(self.service, timeout=60)
            line.request("DELETE", f"/v1/outbox/{name}", headers={"Perch-User": "alice"})
            if line.getresponse().status != status:
                sys.exit(f"{name} is not removed")
            line.close()
        return taken

    def theirs(self):
        return self.post(f"http://127.0.0.1:{self.port}/")

    def pages(self):
        """Pages a second."""
        said = subprocess.run(["wrk", "-t1", "-c32", f"-d{SECONDS}", "-H", "Perch-User: alice",
                               f"http://{self.service}{self.path}?limit=30"], capture_output=True, text=True).stdout
        if "Non-2xx" in said:
            sys.exit(said)
        return float(re.search(r"Requests/sec:\s+([0-9.]+)", said)[1])

    def pages_beside_files(self):
        """Pages a second while files come in, and how many files came."""
        before, is_over = self.count, threading.Event()

        def post():
            while not is_over.is_set():
                self.ours()

        client = threading.Thread(target=post)
        client.start()
        rate = self.pages()
        is_over.set()
        client.join()
        return rate, (self.count - before) / SECONDS


def main():
    files = Files()
    try:
        measure(files)
    finally:
        files.end()


def measure(files):
    files.ours()
    pairs = [(files.ours(), files.theirs() if PEERS else 0) for _ in range(PAIRS)]
    print(f"a file of 25 MiB accepted: {statistics.median(ours for ours, _ in pairs):.0f} ms", end="")
    if PEERS:
        ratio = statistics.median(ours / theirs for ours, theirs in pairs)
        theirs = statistics.median(theirs for _, theirs in pairs)
        print(f", receive {theirs:.0f} ms, ratio {ratio:.2f} (goal 1.5)", end="")
    print()
    rates = [(files.pages(), *files.pages_beside_files()) for _ in range(PAIRS)]
    alone, beside, came = (statistics.median(column) for column in zip(*rates))
    ratio = statistics.median(b / a for a, b, _ in rates)
    print(f"pages beside {came:.1f} such files/s: {beside:.0f}/s, alone {alone:.0f}/s, ratio {ratio:.2f} (goal 0.6)")


if __name__ == "__main__":
    main()
