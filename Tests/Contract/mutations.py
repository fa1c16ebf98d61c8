"""Makes requests for the attack: from the operations and parameters of the contract, each value now and then one that
it does not allow, and from such requests' bytes with some of them changed.

The same seed makes the same requests.
"""

import json
import random
import re
import urllib.parse

from service import CONTRACT, DOCUMENT, resolved

# Texts that somebody has stumbled over somewhere.
TEXTS = [
    "", " ", "0", "-1", "-0", "00", "1e9", "0x10", "NaN", "null", "true", "[]", "{}", "%", "%00", "%25", "..", ".",
    "../..", "/", "//", "\\", "'", '"', "';--", "<script>", "*", "?", "#", "&", "=", "+", ",", ",,", "a,b", ";", ":", "~",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "18446744073709551616", "1.5", "١٢",
    "\u212aarl", "\u037e", "\u1fef", "\u00e9", "e\u0301", "\u0131", "\ufeff", "\u202e", "\U0001f600", "\U0010ffff",
    "\ud800", "\x00", "\x01", "\x7f", "\r\n", "\n", "\t", "a" * 80, "a" * 81, "a" * 201, "\u00e9" * 300, "a" * 1500,
    "latest", "now", "0000000000000000-0000000000000000", "7fffffffffffffff-ffffffffffffffff",
    "0000000000000000.1.0", "ffffffffffffffff.9223372036854775807.9223372036854775807",
]
NUMBERS = [0, -1, 1, 2, 20, 100, 101, 200, 201, 2**31, 2**53, 2**63 - 1, -2**63, 2**63, 2**64, 1.5, 1e300, -0.0]
# How often a request has more parameters than fit into the memory of its connection.
MANY_PARAMETERS = 0.002
# How often a request's head may be larger than the service takes (6144 bytes), or than the memory of its connection.
LARGE_HEADS = 0.002
SMALL_TARGET = 3000
HEADERS = ["Prefer", "Cache-Control", "If-None-Match", "Last-Event-ID", "Range", "X-Request-Id", "Origin", "Cookie",
           "Accept-Encoding", "Content-Type", "Perch-User", "Authorization", "Forwarded", "TE", "If-Range"]
# What holds a request for as long as it says: those that ask it to hold long are sent by clients that leave.
HELD = {"pollEvents", "pollChannelCollection", "pollMessageCollection"}


class Request:
    """One request: its bytes, the operation it was made from, and how it is sent."""

    def __init__(self, operation, data, *, is_whole, leaves=False):
        self.operation, self.data = operation, data
        # Whether it is one whole request, which must get one answer.
        self.is_whole = is_whole
        # Whether the client leaves without waiting for an answer.
        self.leaves = leaves
        self.method = data[:data.index(b" ")].decode("latin-1") if b" " in data[:12] else ""

    def __repr__(self):
        return f"{self.operation.id}, {len(self.data)} bytes: {self.data[:1500]!r}"


class Mutations:
    """An endless row of requests; `names` are texts that mean something to the service."""

    def __init__(self, seed, names, tokens):
        self.random, self.names, self.tokens = random.Random(seed), names, tokens
        self.operations = [operation for operation in CONTRACT.operations.values()
                           if operation.id not in ("clearCache", "disconnect", "setDemoUpstream")]

    def next(self):
        """A whole request, or one time in eight the bytes of one with some changed."""
        kind = self.random.random()
        if kind < 0.002:
            operation = CONTRACT.operations[self.random.choice(["disconnect", "clearCache"])]
        else:
            operation = self.random.choice(self.operations)
        data, is_held = self.request(operation)
        if kind > 0.875:
            return Request(operation, self.bent(data), is_whole=False, leaves=is_held)
        return Request(operation, data, is_whole=not is_held, leaves=is_held)

    # Values

    def is_odd(self, chance=0.12):
        return self.random.random() < chance

    def text(self):
        """A text that is not what was asked for."""
        pick = self.random.random()
        if pick < 0.6:
            return self.random.choice(TEXTS)
        if pick < 0.8:
            return self.random.choice(self.names)
        if pick < 0.9:
            name = self.random.choice(self.names)
            place = self.random.randrange(len(name) + 1)
            return name[:place] + self.random.choice(TEXTS)[:20] + name[place + self.random.randrange(2):]
        return "".join(chr(self.random.choice([self.random.randrange(128), self.random.randrange(0x3000)]))
                       for _ in range(self.random.randrange(1, 40)))

    def value(self, schema, depth=0):
        """A value for a schema, now and then one that it does not allow."""
        schema = resolved(schema)
        if self.is_odd():
            return self.junk(depth)
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        for word in ("oneOf", "anyOf", "allOf"):
            if word in schema:
                return self.value(self.random.choice(schema[word]), depth)
        kind = schema.get("type", "string")
        if isinstance(kind, list):
            kind = self.random.choice(kind)
        if kind == "object":
            return self.object(schema, depth)
        if kind == "array":
            return [self.value(schema.get("items", {}), depth + 1) for _ in range(self.random.randrange(4))]
        if kind == "boolean":
            return self.random.choice([True, False])
        if kind in ("integer", "number"):
            low, high = schema.get("minimum", 0), schema.get("maximum", 2**40)
            return self.random.choice([low, high, self.random.randint(int(low), int(high))])
        return self.random.choice(self.names) if self.is_odd(0.7) else self.text()

    def object(self, schema, depth):
        """An object: what must be there, some of the rest, now and then a field that nobody knows."""
        required = set(schema.get("required", []))
        found = {}
        for name, field in schema.get("properties", {}).items():
            if (name in required and not self.is_odd(0.05)) or self.is_odd(0.3):
                found[name] = self.value(field, depth + 1)
        if self.is_odd(0.05):
            found[self.text()] = self.junk(depth + 1)
        return found

    def junk(self, depth=0):
        pick = self.random.randrange(8 if depth < 4 else 5)
        if pick < 2:
            return self.text()
        if pick == 2:
            return self.random.choice(NUMBERS)
        if pick == 3:
            return self.random.choice([None, True, False])
        if pick == 4:
            return [self.text()] * self.random.choice([0, 1, 2, 30])
        if pick == 5:
            return {self.text(): self.junk(depth + 1) for _ in range(self.random.randrange(4))}
        nested = self.text()
        for _ in range(self.random.choice([2, 20, 200])):
            nested = [nested] if pick == 6 else {"a": nested}
        return nested

    # Requests

    def quoted(self, text):
        """A text within a target: escaped, some of it in odd ways."""
        text = urllib.parse.quote(str(text).encode("utf-8", "surrogatepass"), safe=self.random.choice(["", ",:", "!~"]))
        if self.is_odd(0.05):
            text = re.sub("[a-z]", lambda letter: f"%{ord(letter[0]):02x}", text, count=self.random.randrange(4))
        if self.is_odd(0.02):
            text += self.random.choice(["%", "%2", "%zz", "%ff", "%c0%af", "%00", "%ED%A0%80"])
        return text

    def request(self, operation):
        """The bytes of a request, and whether it may be held longer than this waits."""
        parameters = [resolved(parameter) for parameter in operation.document.get("parameters", [])]
        path = re.sub(r"{(\w+)}", lambda name: self.quoted(self.place()), operation.path)
        query, headers = [], []
        for parameter in parameters:
            if not self.is_odd(0.25):
                continue
            value = self.value(parameter["schema"])
            if isinstance(value, list):
                value = ",".join(map(str, value))
            text = str(value).lower() if isinstance(value, bool) else str(value)
            if parameter["in"] == "query" and parameter["name"] != "wait":
                query.append((parameter["name"], text))
            elif parameter["in"] == "header" and parameter["name"] != "Accept":
                headers.append((parameter["name"], text))
        is_held = False
        if operation.id in HELD:
            is_held = self.is_odd(0.02)
            query.insert(0, ("wait", str(self.value({"type": "integer", "maximum": 30})) if is_held else "0"))
        if self.is_odd(0.04):
            query.append((self.text(), self.text()))
        if self.is_odd(0.04) and query:
            query.append(self.random.choice(query))
        if self.is_odd(0.05):
            headers.append((self.random.choice(HEADERS), self.text()))
        if not self.is_odd(LARGE_HEADS):
            path = path[:SMALL_TARGET].rstrip("%0123456789abcdefABCDEF") if len(path) > SMALL_TARGET else path
            headers = [(name, value[:300]) for name, value in headers]
            query = self.fitting(query, SMALL_TARGET - len(path))
        if self.is_odd(MANY_PARAMETERS):
            query += [(str(n), "") for n in range(self.random.choice([50, 110, 130, 400]))]
        if query:
            path += "?" + "&".join(f"{self.quoted(name)}={self.quoted(value)}" for name, value in query)
        body = self.body(operation)
        method = operation.method
        if self.is_odd(0.02):
            method = self.random.choice(["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
        return self.head(method, path, headers, body), is_held

    @staticmethod
    def fitting(query, most):
        """The items that fit into so many bytes, each of which three may be needed to write."""
        found = []
        for name, value in query:
            most -= 3 * len(f"{name}{value}".encode("utf-8", "surrogatepass")) + 2
            if most >= 0:
                found.append((name, value))
        return found

    def place(self):
        """What stands for a name in a path. An empty one makes another path."""
        return self.random.choice(self.names) if not self.is_odd(0.3) else self.text()

    def body(self, operation):
        content = resolved(operation.document.get("requestBody", {})).get("content", {})
        if not content and not self.is_odd(0.02):
            return None
        schema = next(iter(content.values()), {}).get("schema", {})
        value = self.value(schema)
        text = json.dumps(value, ensure_ascii=self.is_odd(0.5)).encode("utf-8", "surrogatepass")
        if self.is_odd(0.05):
            text = self.bent(text)
        if self.is_odd(0.01):
            text = text[:-1] + b" " * self.random.choice([1000, 70_000]) + text[-1:]
        return text

    def head(self, method, path, headers, body):
        lines = [f"{method} {path} HTTP/1.1", "Host: attacked"]
        if not self.is_odd(0.05):
            lines.append("Authorization: Bearer " + self.random.choice(self.tokens))
        for name, value in headers:
            # A line end within a value would make another request of it; some requests are bent otherwise.
            if name == "Prefer" and re.search(r"wait\s*=\s*\d", value):
                value = "wait=0"
            lines.append(f"{name}: " + re.sub("[\r\n]", "", value))
        data = "\r\n".join(lines).encode("utf-8", "surrogatepass")
        if body is None:
            return data + b"\r\n\r\n"
        kind = "application/json" if not self.is_odd(0.05) else self.text().replace("\r", "").replace("\n", "")
        data += b"\r\nContent-Type: " + kind.encode("utf-8", "surrogatepass")
        if self.is_odd(0.1):
            place = self.random.randrange(len(body) + 1)
            parts = [part for part in (body[:place], body[place:]) if part]
            chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
            return data + b"\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
        return data + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    def bent(self, data):
        """The bytes with some of them changed, left out, doubled or put elsewhere."""
        data = bytearray(data)
        for _ in range(self.random.choice([1, 1, 1, 2, 4, 8])):
            place, count = self.random.randrange(len(data) + 1), self.random.choice([1, 1, 2, 8, 40])
            pick = self.random.randrange(7)
            if pick == 0:
                data[place:place + count] = b""
            elif pick == 1:
                data[place:place] = bytes(self.random.randrange(256) for _ in range(count))
            elif pick == 2 and place < len(data):
                data[place] ^= 1 << self.random.randrange(8)
            elif pick == 3:
                data[place:place] = data[place:place + count] * self.random.choice([1, 2, 20])
            elif pick == 4:
                data[place:place] = self.random.choice(
                    [b"\r\n", b"\n", b"\r", b"\0", b" ", b"\t", b":", b"\r\n\r\n", b"%", b"\xff", b"\xe2\x84\xaa"])
            elif pick == 5:
                del data[place:]
            else:
                other = self.random.randrange(len(data) + 1)
                data[place:place + count] = data[other:other + count]
        return bytes(data[:60_000])


# Statuses that the library of the server answers, beside those of the contract.
ANYWHERE = {status for status, _ in CONTRACT.anywhere}


def is_allowed(request, status):
    """Whether a whole request may be answered so: as its operation says, or as any operation may be answered."""
    if request.is_whole and status >= 500:
        return status in (503, 504) and (status in request.operation.statuses or status in ANYWHERE)
    return status < 500 or status in (503, 504, 505)


assert DOCUMENT["openapi"].startswith("3.")
