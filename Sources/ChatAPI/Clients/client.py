"""A live view of a chat channel of Perch, for Python 3.9 or later. It needs nothing but the standard library.

    from client import open_view
    view = open_view("general", "http://127.0.0.1:8080", token=lambda: my_token)
    for change in view.follow():
        for row in change.added:
            print(row["message"])

Rows, gaps and problems have the fields of the contract, /openapi.yaml. A view may be used by several threads.
"""

import base64
import collections
import contextlib
import http.client
import json
import random
import socket
import threading
import time
import urllib.parse
import uuid

Change = collections.namedtuple("Change", "added changed removed")
Change.__doc__ = "Rows that are shown differently. All three are empty if only a state changed."
# What a repeated deletion or resend is refused with if an earlier try did it.
DONE = ("not_resendable", "message_not_found")
FACTS = ("channel", "tail", "previous", "next", "has_previous", "has_next")


class PerchError(Exception):
    """Nobody answered (`unreachable`), or the answer is `problem`."""

    def __init__(self, problem, retry_after=0):
        super().__init__(f"{problem.get('code')}: {problem.get('detail')}")
        self.problem, self.retry_after = problem, retry_after

    @property
    def status(self):
        return self.problem.get("status", 503)

    @property
    def passes(self):
        """Whether the same request may succeed later."""
        return self.status >= 500 or self.status in (401, 429)


class MistakeError(PerchError):
    """The caller made a mistake. The same call fails again."""

    passes = False


def mistake(code, detail):
    return MistakeError({"code": code, "detail": detail, "status": 400})


def name_of(row):
    """How a row is named, also in paths."""
    return row["message_id"] or "request_id:" + row["request_id"]


def sender_of(row):
    return (row.get("sender") or {}).get("user_id")


def key_of(row):
    """Stays the same when the row is sent. Two users may use one request_id."""
    return (sender_of(row), row["request_id"]) if row["request_id"] else row["message_id"]


def claims_of(token):
    """What a token says: `sub` is its user, `exp` its end."""
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def open_view(channel, url, token, **options):
    """Opens a view. It tries again for a while if the service cannot be reached. Options are those of View."""
    view = View(channel, url, token, **options)
    while view.connection == "connecting":
        view._turn()
    if view.error:
        raise view.error
    return view


class Rows:
    """What a view shows. It knows nothing but answers."""

    def __init__(self):
        # By name, and own rows that the service has not accepted by request_id.
        self.accepted, self.own = {}, {}

    def all(self):
        """Sent rows by position, then the user's unsent ones."""
        accepted = sorted(self.accepted.values(), key=lambda row: row.get("position", "~"))
        return accepted + list(self.own.values())

    def put(self, row):
        """Inserts a row or replaces it. A sent row replaces its sender's unsent one."""
        self.own.pop(row["request_id"], None)
        name = "request_id:" + row["request_id"]
        if row["message_id"] and sender_of(self.accepted.get(name, {})) == sender_of(row):
            self.accepted.pop(name, None)
        self.accepted[name_of(row)] = row

    def drop(self, ref):
        if self.accepted.pop(ref.get("message_id"), None) is None:
            self.accepted.pop("request_id:" + ref.get("request_id", ""), None)

    def replace(self, view):
        """Takes a whole view."""
        self.accepted.clear()
        for row in view["failed"] + view["pending"] + view["messages"]:
            self.put(row)

    def apply(self, event):
        if event["type"] == "messages.replaced":
            self.accepted = {name: row for name, row in self.accepted.items() if not row["message_id"]}
        for row in event.get("messages", []):
            self.put(row)
        for ref in event.get("message_refs", []):
            self.drop(ref)


class View:
    """One channel, live.

    `token` is called for a bearer token whenever one is needed. `stream` follows by server-sent events instead of long
    polls. A poll waits for `wait` seconds. An answer may take `timeout` seconds more, a pause between two tries
    `max_pause`, and all tries of a send or of another change `within`. `fields` are those of a
    MessageCollectionRequest.
    """

    def __init__(self, channel, url, token, *, stream=False, timeout=15, wait=25, max_pause=30, within=60,
                 fields=None):
        # `connecting`, `live`, `offline` (no answer), `lost` (the channel is not the user's now) or `closed`.
        self.connection = "connecting"
        # Why it is not live.
        self.error = None
        # `channel`, `tail`, `has_previous` and `has_next` of the answers.
        self.state = {}
        self._channel, self._token = channel, token
        self._url, self._timeout = urllib.parse.urlsplit(url), timeout
        self._poll_wait, self._max_pause = wait, max_pause
        self._request = {"channel_url": channel, **(fields or {})}
        self._within, self._stream, self._streams = within, stream, False
        self._rows, self._gaps, self._shown = Rows(), {}, {}
        self._id = self._cursor = self._bearer = self._user = self._source = None
        self._is_stale, self._failures, self._wait, self._pages = True, 0, 0, 0
        # `lock` guards what is shown; `paging` is held while a page is asked for.
        self._lock, self._paging = threading.RLock(), threading.Lock()
        self._closed, self._sockets, self._accepted = threading.Event(), set(), set()

    # What it shows

    @property
    def messages(self):
        """Sent rows, the oldest first, then the user's unsent ones."""
        with self._lock:
            return self._rows.all()

    @property
    def unsent(self):
        """The user's rows that are pending, failed or canceled."""
        return [row for row in self.messages if not row["message_id"]]

    @property
    def gaps(self):
        """Stretches without their messages."""
        with self._lock:
            return list(self._gaps.values())

    def follow(self):
        """Yields what is shown differently, at first everything, until the view is closed."""
        while True:
            yield self._change()
            if self.connection == "closed":
                if self.error:
                    raise self.error
                return
            self._turn()

    def start(self, listener):
        """Follows in a thread of its own, and calls `listener` with each change. `error` tells why it ended."""
        def run():
            with contextlib.suppress(PerchError):
                for change in self.follow():
                    listener(change)
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    # What it does

    def send(self, message):
        """Sends a text, or the fields of a NewMessage, once."""
        body = {"request_id": str(uuid.uuid4()), **(message if isinstance(message, dict) else {"message": message})}
        key = body["request_id"]
        row = {"message_id": "", "message": "", "sending_status": "pending", "sender": {"user_id": self._user}, **body}
        with self._lock:
            if all(shown["request_id"] != key for shown in self._rows.all()):
                self._rows.own[key] = row
        try:
            answer = self._try("POST", "", body, key)
            self._accepted.add(key)
            return answer
        except PerchError:
            with self._lock:
                self._rows.own.pop(key, None)
            raise

    def edit(self, row, fields):
        """Changes the fields of a MessageEdit."""
        return self._try("PATCH", "/" + name_of(row), fields)

    def remove(self, row):
        """Deletes a sent row, takes a pending one back, or removes a failed one."""
        return self._try("DELETE", "/" + name_of(row))

    def resend(self, row):
        """Sends a failed row again."""
        return self._try("POST", f"/{name_of(row)}/resend")

    def previous(self):
        """Loads older rows. `state["has_previous"]` says whether more are left. Fails if they cannot be had now."""
        self._load("previous")

    def next(self):
        """Loads newer rows."""
        self._load("next")

    def close(self):
        """Disposes of the view. What still waits for it ends with an error."""
        self._become("closed")
        self._closed.set()
        for end in list(self._sockets):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        if self._id:
            with contextlib.suppress(PerchError):
                self._once("DELETE", self._path(), timeout=5)  # If it fails, the service disposes of it later.
            self._id = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # How it follows

    def _turn(self):
        """One step: waits if the last one failed, then reads what is stale or takes what is new."""
        if self._wait:
            self._closed.wait(self._wait)
            self._wait = 0
        with self._paging:
            pages = self._pages
            accepted = set(self._accepted)
        try:
            if self.connection != "closed":
                is_whole = self._read(pages) if self._is_stale else self._hear() if self._source else self._poll(pages)
                if is_whole:
                    self._settle(accepted)
                self._failures = 0
        except PerchError as error:
            if self.connection != "closed":
                self._recover(error, self._failures)
                self._failures += 1

    def _settle(self, accepted):
        """What was accepted before an answer was asked for, and is not in it, is not the view's."""
        with self._lock:
            for key in accepted:
                self._rows.own.pop(key, None)
        self._accepted -= accepted

    def _read(self, pages):
        """Reads the whole view again, or opens it. What a page overtook is asked for again."""
        if self._id:
            view = self._ask("GET", self._path())
        else:
            view = self._ask("POST", "/v1/message-collections", self._request)
        with self._lock:
            if pages != self._pages:
                return False
            self._id, self._is_stale = view["id"], False
            self._rows.replace(view)
            self._gaps.clear()
            self._take(view)
            self._arrive(view["cursor"])
            return True

    def _poll(self, pages):
        """Asks for events, and opens a stream after that if one is wanted."""
        path = f"{self._path()}/events?since={self._cursor}&wait={0 if self._streams else self._poll_wait}"
        page = self._ask("GET", path, timeout=self._poll_wait + self._timeout)
        self._streams = False
        is_whole = self._apply(pages, page["events"], page["cursor"]) and not page["has_more"]
        if is_whole and self._stream:
            self._source = self._batches(), pages
        return is_whole

    def _hear(self):
        """Takes one answer from the stream. A poll has to tell what became of an accepted row that it does not show."""
        batches, pages = self._source
        batch = next(batches, None)
        self._streams = self._streams or batch is not None
        if not batch or not self._apply(pages, *batch):
            batches.close()
            self._source = None
        return False

    def _batches(self):
        """The answers of a stream: events and the next cursor, which only the last event of an answer has.

        One that is empty means that nothing came for a while, and an accepted row is not shown.
        """
        events, block = [], {}
        try:
            path, timeout = f"{self._path()}/events?since={self._cursor}", self._poll_wait + self._timeout
            with self._answer("GET", path, timeout=timeout, stream=True) as answer:
                for line in answer if answer.status == 200 else []:
                    name, _, value = line.decode().strip().partition(":")
                    if line.startswith(b":") and not self._rows.own.keys().isdisjoint(self._accepted):
                        yield ()
                    if line.strip():
                        block[name] = value.strip()
                        continue
                    if "event" in block:
                        return
                    if "data" in block:
                        events.append(json.loads(block["data"]))
                    if "id" in block and events:
                        yield events, block["id"]
                        events = []
                    block = {}
        except (OSError, ValueError, http.client.HTTPException):
            return  # The next poll finds out why.

    def _apply(self, pages, events, cursor):
        """Takes events, unless a page overtook them. Tells whether to go on from here."""
        with self._lock:
            if pages != self._pages:
                return False
            for event in events:
                self._rows.apply(event)
                if "gaps" in event:
                    self._gaps.clear()
                self._take(event)
                if event["type"] == "huge_gap.detected":
                    self._is_stale = True
                if event["type"] == "channel.deleted":
                    self._lose()
            self._arrive(cursor)
            return not self._is_stale

    def _take(self, answer):
        """Takes what an answer says beside its rows."""
        self.state.update({name: answer[name] for name in FACTS if name in answer})
        if "channels" in answer:
            self.state["channel"] = answer["channels"][0]
        if "read_at" in answer and "reader_count" not in self.state["channel"]:
            self.state["channel"]["read_receipts"][answer["user_id"]] = answer["read_at"]
        gaps = answer.get("gaps", [answer["gap"]] if "gap" in answer else [])
        for gap in gaps:
            if gap["state"] == "closed":
                self._gaps.pop(gap["id"], None)
            else:
                self._gaps[gap["id"]] = gap

    def _arrive(self, cursor):
        self._cursor = cursor
        self._become("live" if self._id else "lost")

    def _become(self, connection, error=None):
        with self._lock:
            if self.connection != "closed":
                self.connection, self.error = connection, error

    def _load(self, edge):
        """Loads a page. Answers to what was asked for before are not used after it."""
        with self._paging:
            if not self.state.get(edge):
                return
            self._pages += 1
            side, has = {"previous": "before", "next": "after"}[edge], "has_" + edge
            page = self._ask("POST", f"{self._path()}/{edge}", {side: self.state[edge]})
            is_cut_off = page[has] and not page[edge]
            with self._lock:
                for row in page["items"]:
                    self._rows.put(row)
                self._take({"gaps": page["gaps"], has: page[has], edge: self.state[edge] if is_cut_off else page[edge]})
            if is_cut_off:
                raise PerchError({"code": "upstream_unreachable", "detail": "The rest cannot be had now."})

    def _recover(self, error, failures):
        """What follows from a failure: read or open again, give up, or try later."""
        is_new = self.connection == "connecting"
        is_gone = error.status == 410 or error.problem.get("code") == "collection_not_found"
        is_final = not error.passes or error.status == 401 or failures > 6
        if isinstance(error, MistakeError) or is_new and is_final and not is_gone:
            self._become("closed", error)
            return
        if is_gone:
            self._is_stale, self._id = True, None if error.status == 404 else self._id
        elif not error.passes:
            self._lose()
        if not is_new:
            self._become("offline" if is_gone or error.passes else "lost", error)
        if failures or not is_gone:
            self._wait = self._pause(failures, error)

    def _lose(self):
        """The channel is not the user's now. Nothing of it is shown, and it is opened when that is possible."""
        with self._lock:
            self._rows.accepted.clear()
            self._id, self._is_stale = None, True

    def _change(self):
        """What is shown differently since the last call."""
        with self._lock:
            before, now = self._shown, {key_of(row): row for row in self._rows.all()}
            self._shown = now
        return Change(
            [row for name, row in now.items() if name not in before],
            [row for name, row in now.items() if name in before and row != before[name]],
            [row for name, row in before.items() if name not in now])

    # How it asks

    def _path(self):
        return f"/v1/message-collections/{self._id}"

    def _pause(self, failures, error):
        """Half a second at first, then longer, or as long as the service says."""
        return max(min(self._max_pause, 2 ** failures / 2) * random.uniform(0.5, 1), error.retry_after)

    def _try(self, method, end, body=None, key=None):
        """Makes a change once, however often it has to be tried, and tries for `within` seconds."""
        path = f"/v1/channels/{urllib.parse.quote(self._channel, safe='')}/messages{end}"
        key, failures, ends = key or str(uuid.uuid4()), 0, time.monotonic() + self._within
        while True:
            try:
                return self._ask(method, path, body, key)
            except PerchError as error:
                if failures and body is None and error.problem.get("code") in DONE:
                    return None
                if not error.passes or time.monotonic() > ends:
                    raise
                self._closed.wait(self._pause(failures, error))
                failures += 1

    def _ask(self, *request, **options):
        """Makes one request. A refused token is renewed once."""
        if self.connection == "closed":
            raise mistake("view_closed", "The view was closed. Open another.")
        try:
            return self._once(*request, **options)
        except PerchError as error:
            if error.status != 401:
                raise
            self._bearer = None
            return self._once(*request, **options)

    def _once(self, method, path, body=None, key=None, timeout=None):
        try:
            with self._answer(method, path, body, key, timeout or self._timeout) as answer:
                text = answer.read()
                content = None if answer.status == 204 else json.loads(text)
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise PerchError({"code": "unreachable", "detail": repr(error)}) from error
        if answer.status < 300:
            return content
        kind, wait = MistakeError if answer.status == 400 else PerchError, answer.headers.get("Retry-After", "")
        problem = content if isinstance(content, dict) else {"code": "unexpected_answer", "detail": str(content)}
        raise kind({**problem, "status": answer.status}, int(wait) if wait.isdigit() else 0)

    @contextlib.contextmanager
    def _answer(self, method, path, body=None, key=None, timeout=None, stream=False):
        """The answer to a request. `close` ends it."""
        headers = {"Authorization": "Bearer " + self._bearer_now(), "Content-Type": "application/json"}
        if key:
            headers["Idempotency-Key"] = key
        if stream:
            headers["Accept"] = "text/event-stream"
        kind = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
        connection = kind(self._url.netloc, timeout=timeout)
        try:
            connection.connect()
            self._sockets.add(connection.sock)
            content = None if body is None else json.dumps(body)
            connection.request(method, self._url.path.rstrip("/") + path, content, headers)
            yield connection.getresponse()
        finally:
            self._sockets.discard(connection.sock)
            connection.close()

    def _bearer_now(self):
        """The token, or a new one of the same user."""
        if not self._bearer or claims_of(self._bearer)["exp"] < time.time() + 5:
            try:
                bearer = self._token()
                user = claims_of(bearer)["sub"]
            except Exception as error:  # The app's own, such as a server of tokens that is away.
                raise PerchError({"code": "unreachable", "detail": f"There is no token: {error!r}"}) from error
            self._user = self._user or user
            if user != self._user:
                raise mistake("other_user", f"The view is of {self._user}, and the token is of {user}.")
            self._bearer = bearer
        return self._bearer
