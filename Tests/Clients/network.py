"""A network that fails: it stands between a client and a server on this machine."""

import random
import socket
import threading
import time

# Above the ports of services that people start by hand, below those that connections get.
PORTS = range(9430, 9990)
# Holds what this process was given, against tests of other processes. They end with it.
given = []


def free_port():
    """A port that nobody uses now and no other test gets while this process lives."""
    for port in random.sample(PORTS, len(PORTS)):
        claim = socket.socket(socket.AF_UNIX)
        with socket.socket() as probe:
            try:
                claim.bind(f"\0perch-test-port-{port}")
                probe.bind(("127.0.0.1", port))
                given.append(claim)
                return port
            except OSError:
                claim.close()
    raise AssertionError("no port is free")


class Proxy:
    """Passes bytes on to a server's port, and fails as `fault` says.

    refuse: no connection is made. slow: each piece waits. cut: pieces are cut, and their connections end.
    silent: a connection stays open and passes nothing on any more.
    """

    def __init__(self, target):
        self.target, self.fault, self.open = target, None, set()
        self.lock = threading.Lock()
        self.socket = socket.create_server(("127.0.0.1", free_port()), backlog=64)
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near, _ = self.socket.accept()
            try:
                if self.fault == "refuse":
                    raise OSError("refused")
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                near.close()
                continue
            with self.lock:
                self.open.add((near, far))
            # It may have been made while `reset` ended the others.
            if self.fault == "refuse":
                self.end((near, far))
                continue
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self.carry, args=(source, sink, (near, far)), daemon=True).start()

    def carry(self, source, sink, pair):
        is_silent = False
        try:
            while data := source.recv(16384):
                came = time.monotonic()
                is_silent = is_silent or self.fault == "silent"
                if is_silent:
                    continue
                if answer := self.answer(data):
                    source.sendall(answer)
                    break
                if self.fault == "slow":
                    time.sleep(0.15)
                if self.fault == "cut" and random.random() < 0.3:
                    sink.sendall(data[: random.randrange(len(data))])
                    break
                self.passes(pair, source is pair[0], data, came)
                sink.sendall(data)
        except OSError:
            pass
        self.end(pair)

    def answer(self, data):
        """What is answered in the server's place; nothing: the server is asked."""

    def passes(self, pair, is_asked, data, came):
        """A piece that came then is about to be passed on whole: of a request, or of an answer.

        So what follows it is noted later.
        """

    def end(self, pair):
        with self.lock:
            self.open.discard(pair)
        for end in pair:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()

    def reset(self):
        """Ends every connection."""
        with self.lock:
            pairs = list(self.open)
        for pair in pairs:
            self.end(pair)
