#!/usr/bin/python3
"""The programs of docs/clients.md do what the page says, against a service beside a stand-in upstream."""

import json
import os
import re
import subprocess
import threading
import time
import unittest
import urllib.request
import uuid

URL, TOKEN, ORIGIN = os.environ["TARGET_URL"], os.environ["CHAT_TOKEN"], os.environ["ORIGIN_URL"]
with open("docs/clients.md") as file:
    PAGE = file.read()


def program(name):
    """The page's program called `name`."""
    return next(text for text in re.findall(r"```sh\n(.*?)```", PAGE, re.S) if f"\n# {name}\n" in text)


def environment(channel):
    return {"PATH": os.environ["PATH"], "PERCH": URL, "TOKEN": TOKEN, "CHANNEL": channel}


def run(name, channel="general"):
    return subprocess.run(["sh", "-c", program(name)], env=environment(channel), capture_output=True, text=True,
                          timeout=120)


def upstream(method, path, body=None):
    request = urllib.request.Request(ORIGIN + path, None if body is None else json.dumps(body).encode(), {
        "Api-Token": "origin", "Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def say(text):
    upstream("POST", "/v3/group_channels/general/messages", {"message_type": "MESG", "user_id": "bob", "message": text})


class Programs(unittest.TestCase):
    def follows(self, process, opened):
        """The program prints a message that is sent after it has opened its view."""
        lines, text = [], f"hello {uuid.uuid4()}"
        reader = threading.Thread(target=lambda: lines.extend(iter(process.stdout.readline, "")))
        reader.start()
        try:
            deadline = time.monotonic() + 30
            while not any(opened in line for line in lines):
                self.assertLess(time.monotonic(), deadline, "it opened its view")
                time.sleep(0.02)
            say(text)
            while not any(text in line for line in lines):
                self.assertLess(time.monotonic(), deadline, f"it heard what was said: {lines}")
                time.sleep(0.02)
        finally:
            process.kill()
            process.wait()
            reader.join()
            process.stdout.close()

    def test_a_paging_program_ends_where_older_messages_cannot_be_had(self):
        fault = {"kind": "deny", "code": 400108, "path": "/v3/group_channels/big/messages"}
        upstream("PUT", "/_faults", {"faults": [fault]})
        try:
            outcome = run("paging", "big")
        finally:
            upstream("PUT", "/_faults", {})
        self.assertEqual((outcome.returncode, outcome.stderr), (1, "older messages cannot be had now\n"))
        last = json.loads(outcome.stdout.splitlines()[-1])
        self.assertEqual((last["has_previous"], last["previous"], last["complete"]), (True, None, False))

    def test_paging_prints_every_message_once(self):
        outcome = run("paging", "big")
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        pages = [json.loads(line) for line in outcome.stdout.splitlines()]
        positions = [[item["position"] for item in page["items"]] for page in pages]
        ids = [item["message_id"] for page in pages for item in page["items"]]
        total = upstream("GET", "/v3/group_channels/big/messages/total_count")["total"]
        self.assertEqual((len(ids), len(set(ids))), (total, total))
        self.assertEqual(sum(reversed(positions), []), sorted(sum(positions, [])))
        self.assertEqual((pages[-1]["has_previous"], pages[-1]["previous"]), (False, None))

    def test_a_tag_given_back_is_a_304(self):
        # The worker still stores the chat server's channels: a list that changes between both requests is a 200.
        for _ in range(10):
            outcome = run("conditional")
            if outcome.stdout != "first: 200\nagain: 200\n":
                break
            time.sleep(0.5)
        self.assertEqual(outcome.stdout, "first: 200\nagain: 304\n", outcome.stderr)

    def test_errors_are_told_by_their_code(self):
        self.assertEqual(json.loads(run("errors").stdout)["channel_url"], "general")
        outcome = run("errors", "no-such-channel")
        self.assertEqual((outcome.returncode, outcome.stderr), (1, "404 channel_not_found\n"))

    def test_a_message_is_sent_or_waits(self):
        outcome = run("sending")
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        self.assertRegex(outcome.stdout, "^(sent|waits) [0-9]+-[0-9]+")
        self.assertEqual(run("sending", "no-such-channel").stderr, "not sent: 404\n")

    def test_sh_follows_a_channel(self):
        self.follows(subprocess.Popen(["sh", "-c", program("following")], env=environment("general"),
                                      stdout=subprocess.PIPE, text=True), "open ")

    def test_a_browsers_program_follows_a_channel(self):
        script = re.search(r"```js\n(.*?)```", PAGE, re.S)[1]
        script += "\nfollow(process.env.PERCH, process.env.TOKEN, process.env.CHANNEL,"
        script += " (event) => console.log(JSON.stringify(event)));\n"
        self.follows(subprocess.Popen(["node", "-e", script], env=environment("general"), stdout=subprocess.PIPE,
                                      text=True), "messages.replaced")

    def test_every_program_of_the_page_is_tried(self):
        self.assertEqual(re.findall(r"```sh\n#!/bin/sh\n# (\w+)", PAGE),
                         ["paging", "conditional", "errors", "sending", "following"])
        self.assertEqual(PAGE.count("```sh"), 5)
        self.assertEqual(PAGE.count("```js"), 1)


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=0).result
    if not result.wasSuccessful():
        raise SystemExit(1)
    print(f"documents: Test run with {result.testsRun} tests passed")
