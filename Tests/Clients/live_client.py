"""Drives a view of client.py for live_clients.py, as live_client.mjs does that of client.js."""

import base64
import hashlib
import hmac
import importlib.util
import json
import random
import sys
import threading
import time

OPTIONS = json.loads(sys.argv[1])
specification = importlib.util.spec_from_file_location("client", OPTIONS["client"])
client = importlib.util.module_from_spec(specification)
sys.dont_write_bytecode = True
specification.loader.exec_module(client)
writing = threading.Lock()
is_faulty = True
states = set()


def say(**value):
    with writing:
        print(json.dumps(value), flush=True)


def encode(value):
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def token():
    """Tokens end soon. Sometimes there is none, or one that the service refuses."""
    fault = random.random() if is_faulty else 1
    if fault < 0.1:
        raise RuntimeError("the server of tokens is away")
    secret = "other" if fault < 0.2 else OPTIONS["secret"]
    claims = {"sub": OPTIONS["user"], "exp": int(time.time()) + 7, "scope": "chat"}
    text = encode(b'{"alg":"HS256","typ":"JWT"}') + "." + encode(json.dumps(claims).encode())
    return text + "." + encode(hmac.new(secret.encode(), text.encode(), hashlib.sha256).digest())


def check(view):
    rows = view.messages
    for name in ("message_id", "request_id"):
        # Two users may use one request id. A row without a sender is the user's own.
        names = [(row[name], (row.get("sender") or {}).get("user_id", OPTIONS["user"])) for row in rows if row[name]]
        if len(set(names)) != len(names):
            say(broken=f"twins by {name}: {rows}")
    positions = [row["position"] for row in rows if "position" in row]
    if positions != sorted(positions):
        say(broken=f"order: {positions}")


def watch(view):
    while view.connection != "closed":
        states.add(view.connection)
        check(view)
        time.sleep(0.02)


def opened():
    while True:
        try:
            return client.open_view(
                OPTIONS["channel"], OPTIONS["url"], token, stream=OPTIONS["follow"] == "stream", wait=OPTIONS["wait"],
                timeout=OPTIONS["timeout"], max_pause=1, fields=OPTIONS["fields"])
        except client.PerchError as error:
            say(log=f"{type(error).__name__} {error.problem['code']}")
            time.sleep(0.3)


def calm():
    global is_faulty
    is_faulty = False


def show(view):
    return {"rows": view.messages, "unsent": view.unsent, "connection": view.connection, "states": sorted(states),
            "gaps": view.gaps, "error": view.error and view.error.problem,
            "has_previous": view.state.get("has_previous")}


def run(view, number, act, values):
    acts = {
        "send": lambda: view.send({"message": values["text"], "request_id": values["name"]}),
        "edit": lambda: view.edit(values["row"], {"message": values["text"]}),
        "remove": lambda: view.remove(values["row"]),
        "resend": lambda: view.resend(values["row"]),
        "previous": view.previous,
        "rows": lambda: view.messages,
        "show": lambda: show(view),
        "calm": calm,
        "become": lambda: OPTIONS.update(user=values["user"]),
        "close": view.close,
    }
    try:
        say(number=number, result=acts[act]())
    except client.PerchError as error:
        say(number=number, problem=error.problem, kind=type(error).__name__)
    except Exception as error:  # It is told by the test.
        say(number=number, problem={"code": "thrown", "detail": repr(error)}, kind=type(error).__name__)


def main():
    view = opened()
    view.start(lambda change: check(view))
    threading.Thread(target=watch, args=(view,), daemon=True).start()
    say(opened=True)
    for line in sys.stdin:
        values = json.loads(line)
        number, act = values.pop("number"), values.pop("act")
        threading.Thread(target=run, args=(view, number, act, values), daemon=True).start()


main()
