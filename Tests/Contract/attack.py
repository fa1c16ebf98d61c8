"""Sends a running service many thousand requests that are not as they should be, and looks at what is left of it.

Each request is answered or its connection closed, in time; nothing is a fault of the service's (5xx but a declared
503). Afterwards the same process answers, no request runs, and descriptors and anonymous memory are where they were.
Then it stops within two seconds. `attack.py REQUESTS SEED`; the failing request and its seed are printed.
"""

import asyncio
import os
import signal
import sys
import time

from mutations import Mutations, is_allowed
from service import ENVIRONMENT, Pair, until

# Connections at a time, and requests sent over one before their answers are read.
LINES, PIPELINE = 16, 12
# Connections at a time that each bring one request, whole or not.
ALONE = 400
# Seconds in which an answer, or the end of the connection, must come. A head that is cut short has 10 s, a body 30 s;
# clients here end their sending, which ends both at once.
PATIENCE = 15
# Bytes of anonymous memory that one quarter of the requests may add, and how many quarters are tried: caches fill for a
# while and then stop, a leak adds the same each time.
MEMORY, QUARTERS = 2 << 20, 6
# Descriptors that may be more afterwards: connections to the database and to the upstream that are kept, as many as were
# ever needed at a time.
KEPT = 16
STOP_SECONDS = 2


class Broken(Exception):
    """What the service did that it must not do."""


class Attack:
    """One run over one service."""

    def __init__(self, pair, seed):
        self.pair, self.seed = pair, seed
        host, port = pair.url.removeprefix("http://").split(":")
        self.address = host, int(port)
        self.answered = self.closed = self.left = 0
        self.statuses = {}
        self.slowest = (0.0, b"")

    async def send(self, count, names, tokens):
        """Sends so many requests over all lines; each line's requests follow from the seed and its number."""
        async def line(number):
            mutations = Mutations(f"{self.seed}-{number}", names, tokens)
            left = count // LINES
            while left > 0:
                requests = [mutations.next() for _ in range(min(PIPELINE, left))]
                left -= len(requests)
                whole = [request for request in requests if request.is_whole]
                while whole:
                    whole = whole[await self.pipelined(whole):]
                # A request that is cut short is let go at the service's next tick, a second later at most.
                for request in requests:
                    if not request.is_whole:
                        await room.acquire()
                        others.append(asyncio.ensure_future(self.alone(request, room)))
                others[:] = [task for task in others if not task.done() or task.exception()]
        room, others = asyncio.Semaphore(ALONE), []
        await asyncio.gather(*(line(number) for number in range(LINES)))
        await asyncio.gather(*others)

    async def connected(self):
        return await asyncio.wait_for(asyncio.open_connection(*self.address, limit=1 << 24), PATIENCE)

    async def pipelined(self, requests):
        """Sends whole requests one behind the other; says how many of them were dealt with."""
        reader, writer = await self.connected()
        began = time.monotonic()
        try:
            writer.write(b"".join(request.data for request in requests))
            for number, request in enumerate(requests):
                status, closes = await self.timed(self.answer(reader, request), request)
                if status is None:
                    # A connection that ends before the first answer was closed because of the request.
                    self.closed += 1 if number == 0 else 0
                    return max(number, 1)
                self.note(request, status)
                if closes:
                    return number + 1
            return len(requests)
        except OSError:
            self.closed += 1
            return 1
        finally:
            self.slowest = max(self.slowest, (time.monotonic() - began, requests[0].data))
            writer.transport.abort()

    async def alone(self, request, room):
        """Sends bytes over a connection of their own, ends sending, and reads until the service closes it."""
        reader, writer = await self.connected()
        began = time.monotonic()
        try:
            writer.write(request.data)
            if request.leaves:
                self.left += 1
                await writer.drain()
                return
            writer.write_eof()
            text = await self.timed(reader.read(), request)
            if not text:
                self.closed += 1
                return
            if not text.startswith(b"HTTP/1.1 "):
                raise Broken(f"no answer of HTTP: {text[:200]!r} to {request!r}")
            self.note(request, int(text[9:12]))
        except OSError:
            self.closed += 1
        finally:
            self.slowest = max(self.slowest, (time.monotonic() - began, request.data))
            writer.transport.abort()
            room.release()

    async def timed(self, answer, request):
        try:
            return await asyncio.wait_for(answer, PATIENCE)
        except asyncio.TimeoutError:
            raise Broken(f"neither answered nor closed within {PATIENCE} s: {request!r}") from None

    async def answer(self, reader, request):
        """Reads one answer: its status, and whether the connection ends with it."""
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                return None, True
            status, lower = int(head[9:12]), head.lower()
            if status != 100:
                break
        closes = b"\r\nconnection: close" in lower
        if request.method != "HEAD" and status not in (204, 304):
            length = lower.find(b"\r\ncontent-length: ")
            if length < 0:
                if b"\r\ntransfer-encoding: chunked" not in lower:
                    raise Broken(f"an answer without a length: {head!r} to {request!r}")
                while (size := int(await reader.readuntil(b"\r\n"), 16)) > 0:
                    await reader.readexactly(size + 2)
                await reader.readexactly(2)
            else:
                await reader.readexactly(int(lower[length + 18:lower.index(b"\r\n", length + 18)]))
        return status, closes

    def note(self, request, status):
        self.answered += 1
        self.statuses[status] = self.statuses.get(status, 0) + 1
        if not is_allowed(request, status):
            raise Broken(f"{request.operation.id} answers {status} to {request!r}")


class Usage:
    """What a process holds: requests that run, connections, descriptors, anonymous memory."""

    def __init__(self, pair):
        place = f"/proc/{pair.process.pid}"
        self.descriptors = len(os.listdir(place + "/fd"))
        with open(place + "/status") as status:
            fields = dict(line.split(":", 1) for line in status)
        self.memory = int(fields["RssAnon"].split()[0]) * 1024
        metrics = pair.ask("getMetrics").body.decode()
        values = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if line and line[0] != "#")
        # The one that asks is one of them.
        self.running = int(float(values["perch_http_requests_running"])) - 1

    def __str__(self):
        return f"{self.running} running, {self.descriptors} descriptors, {self.memory / (1 << 20):.1f} MB"


def world(pair):
    """Two users with channels and messages; names that mean something, and tokens good and bad."""
    for user in ("ana", "ben"):
        pair.origin("POST", "/v3/users", {"user_id": user, "nickname": user, "profile_url": ""})
    messages = []
    for url, users in [("ours", ["ana", "ben"]), ("anas", ["ana"]), ("bens", ["ben"]), ("empty", ["ana", "ben"])]:
        pair.origin("POST", "/v3/group_channels", {"channel_url": url, "user_ids": users, "name": url})
        for n in range(0 if url == "empty" else 40):
            messages.append(pair.origin("POST", f"/v3/group_channels/{url}/messages", {
                "message_type": "MESG", "user_id": users[0], "message": f"message {n} \U0001f600"}))
    for user in ("ana", "ben"):
        pair.connect(user)
        until("messages are here", lambda: len(
            pair.ask("listMessages", user, {"channel_url": "ours"}).json["items"]) > 10)
    names = ["ours", "anas", "bens", "empty", "ana", "ben", "latest", "now"]
    for user, url in (("ana", "ours"), ("ben", "bens")):
        page = pair.ask("listMessages", user, {"channel_url": url}).json
        view = pair.ask("openMessageCollection", user, body={"channel_url": url}).json
        shown = pair.ask("openChannelCollection", user, body={"query": {"limit": 1, "include_empty": True}}).json
        channels = pair.ask("listChannels", user, query={"limit": 1, "include_empty": "true"}).json
        ticket = pair.ask("createEventTicket", user, body={"path": "/v1/events"}).json["ticket"]
        names += [view["id"], view["cursor"], shown["id"], shown["next"], channels["next"], ticket]
        names += [page["items"][0]["position"], page["items"][0]["message_id"], str(page["items"][0]["created_at"])]
    good = [pair.token("ana"), pair.token("ana", "chat admin"), pair.token("ben")]
    bad = [pair.token("nobody"), pair.token("ana", seconds=-5), good[0][:-2], good[0] + "x", "a.b.c"]
    return [name for name in names if name], good * 4 + bad


def settled(pair, before=None):
    """What the service holds once nothing runs any more."""
    for user in ("ana", "ben"):
        pair.ask("disconnect", user, query={"force": "true"})
    if before:
        until("descriptors are given back", lambda: Usage(pair).descriptors <= before.descriptors + KEPT, seconds=15)
    return until("no request runs", lambda: resting(pair), seconds=15)


def resting(pair):
    """What the service holds, if no request runs: the upstream's webhooks may."""
    usage = Usage(pair)
    return usage if usage.running == 0 else None


def again(pair):
    for user in ("ana", "ben"):
        pair.connect(user)


def main(count, seed):
    pair = Pair()
    try:
        names, tokens = world(pair)
        # Three quarters come first: then what is allocated once, such as caches, threads' arenas and statements, is there.
        first = Attack(pair, f"{seed}-first")
        asyncio.run(first.send(count * 3 // 4, names, tokens))
        held, attack = [settled(pair)], Attack(pair, seed)
        while len(held) < 2 or held[-1].memory - held[-2].memory > MEMORY:
            assert len(held) <= QUARTERS, f"the memory grows: {'; '.join(map(str, held))}"
            attack.seed = f"{seed}-{len(held)}"
            again(pair)
            began = time.monotonic()
            asyncio.run(attack.send(count // 4, names, tokens))
            seconds = time.monotonic() - began
            held.append(settled(pair, held[0]))
        again(pair)
        assert pair.ask("listMessages", "ana", {"channel_url": "ours"}).status == 200, "the service answers no page"
        assert pair.origin_process.poll() is None, "the stand-in upstream has ended"
        began = time.monotonic()
        pair.process.send_signal(signal.SIGTERM)
        pair.process.wait(timeout=30)
        stopped = time.monotonic() - began
        assert stopped < STOP_SECONDS, f"stopping took {stopped:.1f} s"
    finally:
        pair.stop()
    print(f"attack: {first.answered + attack.answered} answered, {first.closed + attack.closed} closed, "
          f"{first.left + attack.left} left, {seconds:.0f} s for the last quarter, seed {seed}; slowest {attack.slowest[0]:.1f} s; "
          f"{dict(sorted(attack.statuses.items()))}")
    print(f"attack: {'; '.join(map(str, held))}; stopped in {stopped:.2f} s")


if __name__ == "__main__":
    requests, chosen = (sys.argv[1:] + ["40000", "1"][len(sys.argv) - 1:])[:2]
    try:
        main(int(requests), chosen)
    except (Broken, AssertionError) as error:
        sys.exit(f"attack, seed {chosen}: {error}")
