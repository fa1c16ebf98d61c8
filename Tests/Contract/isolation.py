"""Two users and one service: what is one's is not there for the other (B1, B23).

Ana asks every operation of the contract with ben's names: his channel, messages, gaps, views, page links, positions,
cursors and tickets. She must be answered exactly as when she makes the names up. Every answer is searched for the
texts that only ben may read: those of his own channel, of one that ana is only invited to, and of messages below her
history floor in a channel they share. No tag of one's answer gives the other a 304.

Then users and channels whose names are one to Unicode (NFC, NFKC), but for the case of letters, or once they are
percent-decoded: each asks every operation with the names of the first one. They are strangers to each other.
"""

import hashlib
import json
import re
import time
import unicodedata
import unittest
import urllib.parse

from places import PLACES, Names, operations
from service import CONTRACT, Pair, until

# In everything that ana must never read.
SECRET = "zqxj"
OURS = "our-channel"
BELOW = "all-below"
HIS = "his-channel"
INVITED = "not-joined-yet"


class Scene:
    """A service beside its upstream, and what a test makes there."""

    def __init__(self):
        self.pair = Pair()

    def channel(self, url, users, name, **fields):
        self.pair.origin("POST", "/v3/group_channels", {"channel_url": url, "user_ids": users, "name": name} | fields)

    def send(self, url, text, user="ben", **fields):
        return self.pair.origin("POST", f"/v3/group_channels/{urllib.parse.quote(url, safe='')}/messages",
                                {"message_type": "MESG", "user_id": user, "message": text} | fields)

    def page(self, user, url, **query):
        return self.pair.ask("listMessages", user, {"channel_url": url}, query)

    def names(self, user, url, message, sends=True):
        """Everything of a user's that can be named. `sends`: also a request of the user's, whose message moves the channel
        when it comes back."""
        ask = self.pair.ask
        channels = ask("listChannels", user, query={"limit": 1, "include_empty": "true"})
        page = self.page(user, url, around=0)
        view = ask("openMessageCollection", user, body={"channel_url": url, "previous_size": 1, "next_size": 1,
                                                        "starting_point": page.json["items"][1]["position"]})
        assert view.status == 201, view
        shown = ask("openChannelCollection", user, body={"query": {"limit": 1, "include_empty": True}})
        gaps = ask("listGaps", user, {"channel_url": url}).json["items"]
        request = "sent-" + hashlib.sha1(f"{user} {url}".encode()).hexdigest()
        if sends:
            unsent = ask("sendMessage", user, {"channel_url": url}, body={
                "message": f"{SECRET if user == 'ben' and url == HIS else 'mine'} unsent", "request_id": request})
            assert unsent.status == 202, unsent
            until("the message is sent", lambda: not ask("listUnsent", user).json["items"])
        ticket = ask("createEventTicket", user, body={"path": f"/v1/message-collections/{view.json['id']}/events"})
        return Names(
            own=str(message), request=request, channel=url, message=str(message), parent=str(message), gap=gaps[0]["id"] if gaps else "1",
            list=shown.json["id"], view=view.json["id"], edge=channels.json["next"],
            more=shown.json["next"], member=user, position=page.json["items"][0]["position"],
            previous=view.json["previous"] or page.json["items"][0]["position"],
            next=view.json["next"] or page.json["items"][0]["position"], cursor=view.json["cursor"],
            ticket=ticket.json["ticket"])


class World(Scene):
    """Both users, connected, each with views open."""

    def __init__(self):
        super().__init__()
        pair = self.pair
        for user in ("ana", "ben"):
            pair.origin("POST", "/v3/users", {"user_id": user, "nickname": user, "profile_url": ""})
        self.channel(HIS, ["ben"], f"{SECRET} name", data=f"{SECRET} data")
        pair.origin("POST", f"/v3/group_channels/{HIS}/metadata", {"metadata": {"key": SECRET}})
        self.his = [self.send(HIS, f"{SECRET} {n}") for n in range(3)]
        self.reply = self.send(HIS, f"{SECRET} reply", parent_message_id=self.his[0]["message_id"])
        self.channel(OURS, ["ana", "ben"], "ours")
        self.old = self.send(OURS, f"{SECRET} before her floor")
        self.channel(BELOW, ["ana", "ben"], "all of it below her floor")
        self.below = self.send(BELOW, f"{SECRET} the last message, below her floor")
        # What is sent in the floor's own millisecond is at the floor, not below it.
        time.sleep(0.005)
        for url in (OURS, BELOW):
            pair.origin("PUT", f"/v3/group_channels/{url}/reset_user_history", {"user_id": "ana"})
        self.new = [self.send(OURS, f"for both {n}") for n in range(3)]
        self.answer = self.send(OURS, "a reply for both", parent_message_id=self.old["message_id"])
        self.channel(INVITED, ["ben"], "invited")
        self.unread = self.send(INVITED, f"{SECRET} she has not joined")
        pair.origin("POST", f"/v3/group_channels/{INVITED}/invite",
                    {"user_ids": ["ana"], "inviter_id": "ben", "invitation_status": {"ana": "invited_by_friend"}})
        for user in ("ana", "ben"):
            pair.connect(user)
        until("ben's messages are here", lambda: len(self.page("ben", HIS).json["items"]) == 3)
        until("ana's messages are here", lambda: len(self.page("ana", OURS).json["items"]) >= 3)
        self.mine = self.send(OURS, "hers", user="ana")
        self.anas = self.names("ana", OURS, self.new[0]["message_id"]).but(own=str(self.mine["message_id"]))
        self.bens = self.names("ben", HIS, self.his[0]["message_id"])
        self.bens_of_ours = self.names("ben", OURS, self.old["message_id"])


# Headers that differ from one answer to the next.
FRESH = ("date", "x-request-id", "location", "content-length")


def plain(answer, names):
    """An answer without what is new in every answer, and without the names that were asked with."""
    asked = [re.escape(value) for value in vars(names).values() if isinstance(value, str) and len(value) > 3]
    whole = re.compile(rf"(?<![A-Za-z0-9])({'|'.join(asked)})(?![A-Za-z0-9])")
    text = whole.sub("NAME", answer.body.decode())
    text = re.sub(r'"(x_request_id|ticket|id|cursor)":"[^"]*"', "", text)
    headers = {k.lower(): whole.sub("NAME", v) for k, v in answer.headers.items() if k.lower() not in FRESH}
    return answer.status, answer.code, text, headers


class Isolation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.world = World()

    @classmethod
    def tearDownClass(cls):
        cls.world.pair.stop()

    def ask(self, operation, names, user="ana", **more):
        """Asks as ana; whatever she gets holds nothing of ben's."""
        answer = self.world.pair.ask(operation, user, **PLACES[operation](names), **more)
        if user == "ana":
            self.search(operation, answer)
        return answer

    def search(self, what, answer):
        text = answer.body.decode() + "".join(f"{k}: {v}\n" for k, v in answer.headers.items())
        self.assertNotIn(SECRET, text.lower(), f"{what}: {answer}")

    def test_B1_the_marks_are_there_for_ben(self):
        """Else nothing below would prove anything."""
        for operation, names in [("getChannel", self.world.bens), ("listMessages", self.world.bens),
                                 ("getMessage", self.world.bens), ("getMessageCollection", self.world.bens),
                                 ("getMessage", self.world.bens_of_ours), ("listMessages", self.world.bens_of_ours)]:
            self.assertIn(SECRET, self.ask(operation, names, "ben").body.decode().lower(), operation)

    def test_B1_every_operation_answers_anothers_names_as_it_answers_made_up_ones(self):
        made_up = Names()
        walked = 0
        for operation in operations():
            if operation.id in ("clearCache", "disconnect", "receiveSendbirdWebhook") or not operation.has_caller:
                continue
            for field, value in vars(self.world.bens).items():
                strange = getattr(made_up, field)
                if not isinstance(value, str) or field in ("edge", "member", "cursor", "position", "code", "ticket"):
                    continue
                bens, nobodys = self.world.anas.but(**{field: value}), self.world.anas.but(**{field: strange})
                if PLACES[operation.id](bens) == PLACES[operation.id](nobodys):
                    continue
                with self.subTest(operation=operation.id, field=field):
                    walked += 1
                    # What sync brings between the two answers is in one of them once; what leaks is in it each time.
                    for more in (2, 1, 0):
                        one = plain(self.ask(operation.id, bens), bens)
                        other = plain(self.ask(operation.id, nobodys), nobodys)
                        if one == other or not more:
                            break
                    self.assertEqual(one, other)
        self.assertGreater(walked, 25)

    def test_B1_all_of_bens_names_together_find_nothing(self):
        for operation in operations():
            if not operation.has_caller or operation.id in ("clearCache", "disconnect"):
                continue
            with self.subTest(operation=operation.id):
                self.ask(operation.id, self.world.bens)
                self.ask(operation.id, self.world.bens_of_ours)

    def test_B1_places_of_bens_are_only_places(self):
        """Page links and cursors name places: they lead to ana's own rows, or to none."""
        for field in ("edge", "more", "member", "cursor", "position", "previous", "next"):
            for source in (self.world.bens, self.world.bens_of_ours):
                names = self.world.anas.but(**{field: getattr(source, field)})
                for operation in operations():
                    if not operation.has_caller or operation.id in (
                            "clearCache", "disconnect", "disposeMessageCollection", "disposeChannelCollection",
                            "resetMessageCollection", "clearChannelCache"):
                        continue
                    if PLACES[operation.id](names) == PLACES[operation.id](self.world.anas):
                        continue
                    with self.subTest(operation=operation.id, field=field):
                        answer = self.ask(operation.id, names)
                        self.assertLess(answer.status, 500)
                        if field in ("cursor", "edge"):
                            self.assertEqual(answer.status, 200)
                        if field == "more":
                            self.assertEqual(answer.status, 400)
        self.assertEqual(self.ask("loadMoreChannels", self.world.anas).status, 200)

    def test_B23_nothing_below_the_floor_comes_whatever_way_it_is_asked_for(self):
        old, old_id = self.world.bens_of_ours.position, str(self.world.old["message_id"])
        ours = {"channel_url": OURS}
        switches = {"include_parent_message": "true", "include_thread_info": "true", "include_reactions": "true",
                    "include_metaarray": "true", "reply_type": "all", "inclusive": "true", "limit": 200}
        for query in [{"before": old}, {"after": 0}, {"after": old}, {"around": old}, {"around": 0}, {"before": 0},
                      {"reverse": "true"}, {"parent_message_id": old_id}, {"sender_user_ids": "ben"},
                      {"message_type": "user"}, {"after": old, "reverse": "true"}]:
            with self.subTest(query=query):
                answer = self.world.pair.ask("listMessages", "ana", ours, switches | query)
                self.assertEqual(answer.status, 200)
                self.search("listMessages", answer)
                self.assertNotIn(old_id, [item["message_id"] for item in answer.json["items"]])
        self.assertEqual(self.ask("getMessage", self.world.anas.but(message=old_id)).code, "message_not_found")
        for text in self.texts():
            self.search("a channel", text)
        for start in (old, 0, "latest"):
            body = {"channel_url": OURS, "starting_point": start, "include_parent_message": True, "reply_type": "all"}
            view = self.world.pair.ask("openMessageCollection", "ana", body=body, headers={"Prefer": "wait=3"})
            self.assertEqual(view.status, 201)
            self.search("openMessageCollection", view)
            for operation, edge in [("loadPreviousMessages", view.json["previous"]),
                                    ("loadNextMessages", view.json["next"]), ("loadPreviousMessages", old)]:
                if edge:
                    page = self.world.pair.ask(
                        operation, "ana", {"collection_id": view.json["id"]}, body={"before" if "Previous" in operation else "after": edge})
                    self.search(operation, page)
            events = self.world.pair.ask(
                "pollEvents", "ana", query={"since": view.json["cursor"], "wait": 0, "collections": view.json["id"]})
            self.search("pollEvents", events)

    def texts(self):
        ask = self.world.pair.ask
        for url in (OURS, BELOW, INVITED):
            yield ask("getChannel", "ana", {"channel_url": url}, {"include_member_list": "true"})
        yield ask("listChannels", "ana", query={"include_empty": "true", "hidden": "all", "include_metadata": "true"})
        yield ask("openChannelCollection", "ana", body={"query": {"include_empty": True, "include_metadata": True}})
        yield ask("listCachedChannels", "ana")

    def test_B23_the_times_of_what_is_below_the_floor_are_not_told_either(self):
        hidden = {str(message["created_at"]) for message in (self.world.below, self.world.unread, self.world.old)}
        for answer in self.texts():
            for time in hidden:
                self.assertNotRegex(answer.body.decode(), f'"(last_message|created|updated)_at":{time}')

    def test_B1_what_one_is_invited_to_is_seen_and_not_read(self):
        names = self.world.anas.but(channel=INVITED, message=str(self.world.unread["message_id"]))
        self.assertEqual(self.ask("getChannel", names).status, 200)
        for operation in operations():
            if operation.declares(403, "not_joined") and operation.declares(404, "channel_not_found"):
                if "channel_url" in json.dumps(PLACES[operation.id](names)):
                    with self.subTest(operation=operation.id):
                        self.assertEqual(self.ask(operation.id, names).code, "not_joined")

    def test_no_tag_of_one_users_answer_is_another_users_304(self):
        names = self.world.anas
        tried = 0
        for operation in operations():
            # The chat page's files are the same for everybody.
            if 304 not in operation.statuses or not operation.has_caller:
                continue
            bens = self.ask(operation.id, names, "ben")
            tag = bens.headers["ETag"]
            self.assertIsNotNone(tag, operation.id)
            for other in (tag, "W/" + tag, f'"x", {tag}'):
                with self.subTest(operation=operation.id, tag=other):
                    tried += 1
                    mine = self.ask(operation.id, names, headers={"If-None-Match": other})
                    self.assertEqual(mine.status, 200)
                    self.assertNotEqual(mine.headers["ETag"], tag)
                    self.assertIn("Authorization", mine.headers["Vary"])
        self.assertGreater(tried, 10)

    def test_B51_a_ticket_is_its_users_and_its_paths_alone(self):
        pair, bens, anas = self.world.pair, self.world.bens, self.world.anas
        own = f"/v1/message-collections/{bens.view}/events?since={bens.cursor}&wait=0&ticket="
        self.assertEqual(pair.send("GET", own + bens.ticket, {}).status, 200)
        mine = {"Authorization": "Bearer " + pair.token("ana")}
        refused = pair.send("GET", own + "made-up", mine)
        self.assertEqual(refused.status, 401)
        # With a token of hers it is no better than a made-up one, and on other paths it never is.
        for path in (own, f"/v1/message-collections/{anas.view}/events?since=now&ticket=", "/v1/events?ticket="):
            for headers in (mine, {}):
                if path == own and not headers:
                    continue
                answer = pair.send("GET", path + bens.ticket, headers)
                self.search(path, answer)
                self.assertEqual(plain(answer, bens), plain(refused, bens))
        body = {"path": f"/v1/message-collections/{bens.view}/events"}
        ticket = pair.ask("createEventTicket", "ana", body=body).json["ticket"]
        answer = pair.send("GET", own + ticket, {})
        self.assertEqual((answer.status, answer.code), (404, "collection_not_found"))

    def test_B1_the_feed_tells_nothing_of_what_happens_elsewhere(self):
        before = self.world.pair.ask("pollEvents", "ana", query={"since": "now"}).json["cursor"]
        self.world.send(HIS, f"{SECRET} while she polls")
        self.world.send(INVITED, f"{SECRET} while she is invited")
        sent = self.world.send(OURS, "seen by both")
        names = self.world.anas.but(cursor=before)

        def came():
            answer = self.ask("pollEvents", names)
            return answer if str(sent["message_id"]) in answer.body.decode() else None

        answer = until("ana hears of what is hers", came)
        self.assertTrue({event.get("channel_url", OURS) for event in answer.json["events"]} <= {OURS, INVITED})


# A name, and what others are called that some comparison takes for the same.
NAME = "Karl;\u00e9"
ALIKE = {
    "NFC: the Kelvin sign": NAME.replace("K", "\u212a"),
    "NFC: the Greek question mark": NAME.replace(";", "\u037e"),
    "NFC: a letter and its accent": unicodedata.normalize("NFD", NAME),
    "NFKC: a wide letter": NAME.replace("r", "\uff52"),
    "case folding": NAME.lower(),
    "percent-encoding": urllib.parse.quote(NAME, safe=""),
    "percent-encoding of one letter": "%4B" + NAME[1:],
}


class Alike(Scene):
    """The first user in a channel of the same name, and each of the others in one of their own name."""

    def __init__(self):
        super().__init__()
        self.users = {}
        for name in [NAME, *ALIKE.values()]:
            self.pair.origin("POST", "/v3/users", {"user_id": name, "nickname": "somebody", "profile_url": ""})
            self.channel(name, [name], "a channel")
            mark = SECRET if name == NAME else "own"
            message = [self.send(name, f"{mark} {n}", user=name) for n in range(3)][0]
            self.pair.connect(name)
            until("the messages are here", lambda: len(self.page(name, name).json["items"]) == 3)
            self.users[name] = self.names(name, name, message["message_id"], sends=False)


class LookAlikes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.world = Alike()

    @classmethod
    def tearDownClass(cls):
        cls.world.pair.stop()

    def read(self):
        """What the first user sees of all that is the user's own, which fills every memory of answers."""
        names, ask = self.world.users[NAME], self.world.pair.ask
        found = {}
        for operation in ("getConnection", "getUnread", "listChannels", "getChannel", "listMembers", "listMessages",
                          "getMessage", "listGaps", "getChannelCollection", "getMessageCollection",
                          "pollMessageCollection", "pollChannelCollection", "pollEvents"):
            answer = ask(operation, NAME, **PLACES[operation](names))
            self.assertEqual(answer.status, 200, f"{operation}: {answer}")
            shown = answer.json.get("items", answer.json.get("messages", answer.json.get("channels")))
            found[operation] = [answer.json.get("state"), json.dumps(shown)]
        self.assertIn(SECRET, found["listMessages"][1])
        self.assertIn(SECRET, found["getMessageCollection"][1])
        return found

    def strange(self, user, operation, names, **more):
        """Asks as one of the others: nothing of the first one's comes."""
        asked = PLACES[operation](names)
        if more.get("query"):
            asked["query"] = asked.get("query", {}) | more.pop("query")
        answer = self.world.pair.ask(operation, user, **asked, **more)
        text = answer.body.decode() + "".join(f"{k}: {v}\n" for k, v in answer.headers.items())
        self.assertNotIn(SECRET, text.lower(), f"{operation}: {answer}")
        self.assertLess(answer.status, 500, f"{operation}: {answer}")
        return answer

    def test_B1_every_operation_by_one_who_is_called_alike_leaks_nothing_and_does_nothing(self):
        asked = 0
        for kind, user in ALIKE.items():
            first, own = self.world.users[NAME], self.world.users[user]
            before = self.read()
            for operation in operations():
                if not operation.has_caller or operation.id in ("clearCache", "disconnect", "checkCache", "listUsers"):
                    continue
                # The first one's names; the same with one's own form of the channel; in both orders.
                for names in (first, first.but(channel=own.channel), own.but(channel=first.channel), first):
                    with self.subTest(kind=kind, operation=operation.id):
                        asked += 1
                        answer = self.strange(user, operation.id, names)
                        if "channel_url" in operation.path and names.channel == NAME:
                            self.assertEqual(answer.code, "channel_not_found")
                        if "collection_id" in operation.path and names.view == first.view:
                            self.assertEqual(answer.code, "collection_not_found")
            with self.subTest(kind=kind):
                self.assertEqual(self.read(), before)
        self.assertGreater(asked, 500)

    def test_B1_no_memory_of_answers_takes_one_for_the_other_in_any_order(self):
        for kind, user in ALIKE.items():
            own = self.world.users[user]
            for order in ((NAME, user), (user, NAME), (NAME, user, user, NAME), (user, user, NAME, user)):
                for operation in ("listChannels", "getChannel", "listMessages", "listMembers", "getMessage"):
                    tags = {}
                    for asking in order * 2:
                        with self.subTest(kind=kind, operation=operation, order=len(order)):
                            names = self.world.users[asking]
                            answer = self.world.pair.ask(operation, asking, **PLACES[operation](names))
                            self.assertEqual(answer.status, 200)
                            self.assertEqual(SECRET in answer.body.decode() and asking != NAME, False)
                            tag = answer.headers["ETag"]
                            for other, known in tags.items():
                                again = self.world.pair.ask(operation, asking, **PLACES[operation](names),
                                                            headers={"If-None-Match": known})
                                self.assertEqual(again.status, 304 if other == asking else 200)
                            tags[asking] = tag
            ticket = f"/v1/message-collections/{own.view}/events?since=now&wait=0&ticket="
            self.assertEqual(self.world.pair.send("GET", ticket + self.world.users[NAME].ticket, {}).status, 401)

    def test_B12_a_filter_by_one_shows_nothing_of_the_others(self):
        for kind, user in ALIKE.items():
            with self.subTest(kind=kind):
                for query in ({"sender_user_ids": user}, {"sender_user_ids": user, "reverse": "true"}):
                    page = self.world.pair.ask("listMessages", NAME, {"channel_url": NAME}, query)
                    self.assertEqual(page.json["items"], [])
                for query in ({"channel_urls": user}, {"user_ids_include": user}, {"user_ids_exact": user}):
                    found = self.world.pair.ask("listChannels", NAME, query=query | {"include_empty": "true"})
                    self.assertEqual(found.json["items"], [])

    def test_z_B4_disconnecting_and_clearing_one_leaves_the_first_as_it_was(self):
        before = self.read()
        for kind, user in ALIKE.items():
            for query in ({}, {"clear": "true", "force": "true"}):
                with self.subTest(kind=kind, query=query):
                    self.assertEqual(self.world.pair.ask("disconnect", user, query=query).status, 204)
                    self.assertEqual(self.read(), before)


if __name__ == "__main__":
    unittest.main(verbosity=0)
