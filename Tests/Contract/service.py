"""What the checks of the contract share: the contract itself, services to ask, and a record of what they answered.

Every answer is noted as a line `operationId status code headers` in the file that CONTRACT_SEEN names, and every event as
a line `event type fields`, for the table that coverage.py makes of them.
"""

import base64
import functools
import gzip
import hashlib
import hmac
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)) + "/../Clients")
from network import free_port  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PERCH = os.environ.get("TARGET_BINARY", ROOT + "/.build/debug/perch")
# `unknown`: the service uses libmicrohttpd's public interface alone.
HTTP_LIBRARY = os.environ.get("CONTRACT_HTTP_LIBRARY", "checked")
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("PERCH_")}


class Operation:
    """One operation of the contract, with the statuses and problem codes it declares."""

    def __init__(self, path, method, document):
        self.id, self.path, self.method, self.document = document["operationId"], path, method.upper(), document
        self.statuses = {int(status) for status in document["responses"] if status != "default"}
        self.problems = problems(document)
        # By status, the headers an answer may have.
        self.headers = {int(status): {name.lower() for name in resolved(response).get("headers", {})}
                        for status, response in document["responses"].items() if status != "default"}
        self.scope = "admin" if document.get("description", "").startswith("Scope admin") else "chat"
        # Whose callers are named by a bearer token.
        self.has_caller = {"bearer": []} in document.get("security", [{"bearer": []}])

    def declares(self, status, code):
        return (status, code) in self.problems

    @property
    def is_of_view(self):
        """Whether it names an open view."""
        return self.declares(404, "collection_not_found")


def problems(document):
    return {(int(status), code) for status, codes in document.get("x-problems", {}).items() for code in codes}


with open(ROOT + "/Sources/ChatAPI/Contract/openapi.json") as file:
    DOCUMENT = json.load(file)


def resolved(value):
    """What a reference within the contract points to."""
    while "$ref" in value:
        place = DOCUMENT
        for part in value["$ref"].removeprefix("#/").split("/"):
            place = place[part]
        value = place
    return value


def undeclared(schema, value, path=""):
    """The fields of a value that the contract does not name. Objects without any are anything."""
    schema = chosen(resolved(schema), value)
    if isinstance(value, list):
        for item in value:
            yield from undeclared(schema.get("items", {}), item, path + "[]")
    elif isinstance(value, dict) and ("properties" in schema or "additionalProperties" in schema):
        for name, content in value.items():
            known = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
            if known is None:
                yield f"{path}.{name}"
            elif isinstance(known, dict):
                yield from undeclared(known, content, f"{path}.{name}")


def chosen(schema, value):
    """Of a schema with a discriminator, the one that the value says it has."""
    if "discriminator" not in schema:
        return schema
    kind = value.get(schema["discriminator"]["propertyName"])
    assert kind in schema["discriminator"]["mapping"], f"a kind that the contract does not name: {kind}"
    return resolved({"$ref": schema["discriminator"]["mapping"][kind]})


def anchored(value):
    """A schema whose references are read within the contract, wherever it stands."""
    if isinstance(value, dict):
        return {name: "contract:" + content if name == "$ref" else anchored(content)
                for name, content in value.items()}
    return [anchored(item) for item in value] if isinstance(value, list) else value


def validator(schema):
    """What checks a value against a schema of the contract."""
    # Imported here, because programs outside the virtual environment use this file, too.
    from openapi_schema_validator import OAS31Validator
    from referencing import Registry, Resource
    from referencing.jsonschema import DRAFT202012

    whole = Resource.from_contents(DOCUMENT, default_specification=DRAFT202012)
    return OAS31Validator(anchored(schema), registry=Registry().with_resource("contract:", whole))


@functools.cache
def validator_of(name):
    """What checks a value against the schema of that name."""
    return validator({"$ref": "#/components/schemas/" + name})


def check_event(event):
    """Fails unless an event is exactly one of the contract's."""
    schema = resolved({"$ref": "#/components/schemas/Event"})
    fields = set(undeclared(schema, event))
    assert not fields, f"{event['type']}: fields that the contract does not name: {fields}"
    # The schema of its type says more plainly what is wrong.
    validator_of(schema["discriminator"]["mapping"][event["type"]].split("/")[-1]).validate(event)
    validator_of("Event").validate(event)


def note_event(event):
    """Checks an event that came, and notes its type and its fields."""
    check_event(event)
    note_fields(event["type"], event)


def note_fields(kind, fields):
    path = os.environ.get("CONTRACT_SEEN")
    if path:
        with open(path, "a") as file:
            file.write(f"event {kind} {','.join(sorted(fields))}\n")


def note_frame(frame):
    """Checks a frame of a stream that came, and notes it. A frame with `data` and without `event` is an event."""
    frame = frame | ({"retry": int(frame["retry"])} if "retry" in frame else {})
    validator_of("StreamedEvent").validate(frame)
    fields = set(undeclared({"$ref": "#/components/schemas/StreamedEvent"}, frame))
    assert not fields, f"a frame with fields that the contract does not name: {fields}"
    if "data" in frame and "event" not in frame:
        note_event(json.loads(frame["data"]))
    if "event" in frame:
        note_fields(frame["event"], frame)


def events(body):
    """The events in an answer of a poll, or of the opening of a view."""
    if not isinstance(body, dict):
        return []
    return [event for event in [*body.get("events", []), body.get("api_result")] if event is not None]


class Contract:
    """openapi.yaml, as JSON."""

    def __init__(self):
        self.document = DOCUMENT
        self.operations = {}
        for path, item in self.document["paths"].items():
            for method, document in item.items():
                operation = Operation(path, method, document)
                self.operations[operation.id] = operation
        # What any operation may answer.
        self.anywhere = problems(self.document["components"]["responses"]["Problem"])


CONTRACT = Contract()


# The headers that mean something to a client beside what HTTP itself says of them.
HEADERS = ("allow", "cache-status", "etag", "idempotency-replayed", "link", "location", "preference-applied", "retry-after", "vary",
           "www-authenticate")


def note(operation, status, code, headers):
    path = os.environ.get("CONTRACT_SEEN")
    if path:
        names = ",".join(name for name in HEADERS if name in {given.lower() for given in headers})
        with open(path, "a") as file:
            file.write(f"{operation} {status} {code or '-'} {names or '-'}\n")


class Answer:
    """What came back."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body
        self.json = None
        if "json" in headers.get("Content-Type", "") and body:
            self.json = json.loads(gzip.decompress(body) if headers.get("Content-Encoding") == "gzip" else body)
        is_problem = "problem" in headers.get("Content-Type", "")
        self.code = self.json["code"] if is_problem and self.json else None

    def __repr__(self):
        return f"{self.status} {self.code or ''} {self.body[:300]!r}"


class Service:
    """A service to ask, by operationId."""

    url = None
    data = None

    def token(self, user, scope="chat", seconds=3600):
        """A bearer token, signed here with the service's secret, as any JWT library would."""
        with open(self.data + "/auth-secret") as file:
            secret = file.read().split()[0].encode()
        claims = {"sub": user, "exp": int(time.time()) + seconds, "scope": scope}
        parts = [{"alg": "HS256", "typ": "JWT"}, claims]
        text = b".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
        code = base64.urlsafe_b64encode(hmac.new(secret, text, hashlib.sha256).digest()).rstrip(b"=")
        return (text + b"." + code).decode()

    def ask(self, operation, user=None, params=None, query=None, body=None, headers=None, scope=None, timeout=40):
        """Asks an operation as a user; `params` fill its path, in whatever characters they have."""
        document = CONTRACT.operations[operation]
        path = re.sub(
            r"{(\w+)}", lambda name: urllib.parse.quote(str((params or {})[name[1]]), safe=""), document.path)
        if query:
            path += "?" + urllib.parse.urlencode(query)
        headers = dict(headers or {})
        if user is not None:
            headers["Authorization"] = "Bearer " + self.token(user, document.scope if scope is None else scope)
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        answer = self.send(document.method, path, headers, body, timeout)
        note(operation, answer.status, answer.code, answer.headers)
        fields = set(undeclared(self.schema(document, answer), answer.json))
        assert not fields, f"{operation} {answer.status}: fields that the contract does not name: {fields}"
        for event in events(answer.json):
            note_event(event)
        return answer

    @staticmethod
    def schema(operation, answer):
        """What an answer's JSON may be."""
        response = resolved(operation.document["responses"].get(
            str(answer.status), operation.document["responses"]["default"]))
        media = answer.headers.get("Content-Type", "").split(";")[0]
        return response.get("content", {}).get(media, {}).get("schema", {})

    def send(self, method, path, headers, body=None, timeout=40):
        """One request over a connection of its own."""
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=timeout)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def raw(self, text):
        """Bytes as they are; the first answer."""
        host, port = self.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(text.encode() if isinstance(text, str) else text)
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            return Answer(answer.status, answer.headers, answer.read())


def first_line(process, log):
    line = process.stdout.readline()
    if not line.startswith("listening on "):
        process.kill()
        raise AssertionError("it did not start: " + open(log).read()[-2000:])
    return line.split()[-1]


class Pair(Service):
    """`perch serve` beside a stand-in upstream whose webhooks reach it."""

    def __init__(self, *words):
        self.place = tempfile.TemporaryDirectory()
        self.data = self.place.name + "/data"
        port = free_port()
        self.origin_process = self.start(
            "origin", "--listen", "127.0.0.1:0", "--webhook", f"http://127.0.0.1:{port}/v1/webhooks/sendbird")
        self.origin_url = first_line(self.origin_process, self.place.name + "/origin.log")
        self.words = ["--listen", f"127.0.0.1:{port}", "--data", self.data, "--upstream", self.origin_url,
                      "--upstream-token", "origin", "--poll-interval", "1s", "--prefetch-rate", "0", "--http-library", HTTP_LIBRARY, *words]
        self.process = self.start("serve", *self.words)
        self.url = first_line(self.process, self.place.name + "/serve.log")

    def start(self, *words):
        log = open(f"{self.place.name}/{words[0]}.log", "a")
        process = subprocess.Popen([PERCH, *words], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=log, text=True)
        log.close()
        return process

    def origin(self, method, path, body=None):
        """Asks the stand-in as its operator would; its answer must be good."""
        connection = http.client.HTTPConnection(self.origin_url.removeprefix("http://"), timeout=20)
        connection.request(method, path, None if body is None else json.dumps(body),
                           {"Api-Token": "origin", "Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        assert answer.status == 200, (method, path, answer.status, text)
        return json.loads(text) if text else None

    def connect(self, user):
        """Connects a user and waits until all of the user's channels are listed."""
        def is_synced():
            answer = self.ask("connect", user, headers={"Prefer": "wait=5"})
            assert answer.status == 200, answer
            return answer.json["sync"]["phase"] in ("messages", "steady")
        until(f"{user} is synced", is_synced)

    def log(self):
        """What the service has logged so far."""
        with open(self.place.name + "/serve.log") as file:
            return file.read()

    def cut(self):
        """The upstream is gone."""
        self.origin_process.kill()
        self.origin_process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout=30)
            # A crash is reported between the lines of the log.
            report = [line for line in self.log().splitlines() if not line.startswith("{")]
            last_words = "\n".join(report)[:20_000] or self.log()[-4000:]
        finally:
            for process in (self.process, self.origin_process):
                process.kill()
                process.wait()
                process.stdout.close()
            self.place.cleanup()
        assert code == 0, f"it ended with {code}: {last_words}"


class Demo(Service):
    """`perch demo`."""

    def __init__(self):
        self.place = tempfile.TemporaryDirectory()
        self.data = self.place.name + "/data"
        log = open(self.place.name + "/log", "a")
        self.process = subprocess.Popen(
            [PERCH, "demo", "--listen", "127.0.0.1:0", "--origin-listen", "127.0.0.1:0", "--data", self.data],
            env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=log, text=True)
        log.close()
        self.url = first_line(self.process, self.place.name + "/log")

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.place.cleanup()


def until(what, condition, seconds=30):
    """Waits, within a bound, until a condition holds; answers what it found."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {what}")
