"""Every parameter of the two lists does what it says (B6, B12): each is asked with, and what comes is compared.

A parameter that the contract has and no case here fails the run.
"""

import time
import unittest

from service import CONTRACT, Pair, resolved, until

# What is asked, beside include_empty, and the channels that come, in any order.
CHANNELS = [
    ({}, "plain typed open huge frozen cyds"),
    ({"include_empty": "false"}, "plain frozen"),
    ({"include_frozen": "false"}, "plain typed open huge cyds"),
    ({"channel_urls": "plain,typed,none"}, "plain typed"),
    ({"custom_types": "tea,coffee"}, "typed"),
    ({"custom_types": ""}, "plain open huge frozen cyds"),
    ({"custom_type_starts_with": "te"}, "typed"),
    ({"name_contains": "PLA"}, "plain"),
    ({"member_state": "joined"}, "plain typed open huge frozen"),
    ({"member_state": "invited"}, "cyds"),
    ({"unread": "unread_message"}, "frozen"),
    ({"hidden": "hidden"}, "away"),
    ({"hidden": "hidden_prevent_auto_unhide"}, "away"),
    ({"hidden": "hidden_allow_auto_unhide"}, ""),
    ({"hidden": "all"}, "plain typed open huge frozen cyds away"),
    ({"public": "public"}, "open"),
    ({"public": "private"}, "plain typed huge frozen cyds"),
    ({"super": "super"}, "huge"),
    ({"super": "nonsuper"}, "plain typed open frozen cyds"),
    ({"user_ids_include": "ben,cyd"}, "typed"),
    ({"user_ids_include": "ben,cyd", "query_type": "or"}, "plain typed open frozen cyds"),
    ({"user_ids_exact": "ana,ben,cyd"}, "typed"),
    ({"nickname_contains": "cy"}, "typed cyds"),
    ({"metadata_key": "color", "metadata_values": "red,green"}, "typed"),
    ({"metadata_key": "color", "metadata_value_starts_with": "bl"}, "open"),
    ({"created_after": 0, "created_before": 1}, ""),
    ({"search": "plain"}, "plain"),
    ({"search": "cy", "search_fields": "member_nickname"}, "typed cyds"),
]
# The first of them that come, in their order.
ORDERS = [
    ({"order": "channel_name_alphabetical"}, ["cyds", "frozen", "huge"]),
    ({"order": "metadata_value_alphabetical", "metadata_order_key": "color"}, ["open", "typed"]),
    ({"order": "latest_last_message"}, ["frozen", "plain"]),
    ({"order": "channel_name_alphabetical", "limit": "1"}, ["cyds"]),
]
# The messages that come, by their texts.
MESSAGES = [
    ({}, "one two three file admin"),
    ({"limit": "2"}, "file admin"),
    ({"limit": "2", "reverse": "true"}, "admin file"),
    ({"before": "two"}, "one"),
    ({"before": "two", "inclusive": "true"}, "one two"),
    ({"after": "three"}, "file admin"),
    ({"around": "two", "limit": "2"}, "one two"),
    ({"around": "two", "limit": "2", "inclusive": "false"}, "one three"),
    ({"message_type": "user"}, "one two three"),
    ({"message_type": "file"}, "file"),
    ({"message_type": "admin"}, "admin"),
    ({"custom_types": "green"}, "two"),
    ({"sender_user_ids": "ana"}, "three"),
    ({"reply_type": "all"}, "one reply two three file admin"),
    ({"parent_message_id": "one"}, "reply"),
]
# What a switch shows, of the message that has it.
SWITCHES = {"include_reactions": ("one", "reactions"), "include_metaarray": ("one", "metaarray"),
            "include_thread_info": ("one", "thread_info"), "include_parent_message": ("reply", "parent_message")}
# Not about which rows come: tried with the answers' headers, in provocations.py.
ELSEWHERE = {"Prefer", "Cache-Control", "If-None-Match"}


def parameters(operation):
    found = [resolved(parameter) for parameter in CONTRACT.operations[operation].document["parameters"]]
    return {parameter["name"] for parameter in found if parameter["in"] != "path"} - ELSEWHERE


class Filters(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pair = pair = Pair()
        for user in ("ana", "ben", "cyd"):
            pair.origin("POST", "/v3/users", {"user_id": user, "nickname": user, "profile_url": ""})
        cls.sent = {}
        for url, fields in {
            "plain": {"user_ids": ["ana", "ben"]},
            "typed": {"user_ids": ["ana", "ben", "cyd"], "custom_type": "tea"},
            "open": {"user_ids": ["ana", "ben"], "is_public": True},
            "huge": {"user_ids": ["ana"], "is_super": True},
            "cyds": {"user_ids": ["cyd"]},
            "away": {"user_ids": ["ana", "ben"]},
            "frozen": {"user_ids": ["ana", "ben"]},
        }.items():
            pair.origin("POST", "/v3/group_channels", {"channel_url": url, "name": url} | fields)
        pair.origin("POST", "/v3/group_channels/cyds/invite", {
            "user_ids": ["ana"], "inviter_id": "cyd", "invitation_status": {"ana": "invited_by_friend"}})
        for url, color in [("typed", "red"), ("open", "blue")]:
            pair.origin("POST", f"/v3/group_channels/{url}/metadata", {"metadata": {"color": color}})
        cls.send("one", "ben")
        cls.send("reply", "ben", parent_message_id=cls.sent["one"]["message_id"])
        cls.send("two", "ben", custom_type="green")
        cls.send("three", "ana")
        cls.send("file", "ben", message_type="FILE", url="https://example.com/f.png", file_name="file")
        cls.send("admin", "ben", message_type="ADMM")
        one = f"/v3/group_channels/plain/messages/{cls.sent['one']['message_id']}"
        pair.origin("POST", one + "/reactions", {"user_id": "ana", "reaction": "smile"})
        pair.origin("POST", one + "/sorted_metaarray", {"sorted_metaarray": [{"key": "k", "value": ["v"]}]})
        pair.origin("PUT", "/v3/group_channels/plain/messages/mark_as_read", {"user_id": "ana"})
        pair.origin("POST", "/v3/group_channels/frozen/messages", {
            "message_type": "MESG", "user_id": "ben", "message": "before it froze"})
        pair.origin("PUT", "/v3/group_channels/frozen/freeze", {"freeze": True})
        pair.origin("PUT", "/v3/group_channels/away/hide", {"user_id": "ana", "allow_auto_unhide": False})
        pair.connect("ana")

    @classmethod
    def tearDownClass(cls):
        cls.pair.stop()

    @classmethod
    def send(cls, text, user, **fields):
        """A message of its own millisecond, so that each of them is a place."""
        body = {"message_type": "MESG", "user_id": user, "message": text} | fields
        last = max((message["created_at"] for message in cls.sent.values()), default=0)
        until("a millisecond passes", lambda: time.time() * 1000 >= last + 1)
        cls.sent[text] = cls.pair.origin("POST", "/v3/group_channels/plain/messages", body)

    def channels(self, query):
        answer = self.pair.ask("listChannels", "ana", query={"include_empty": "true", "limit": "100"} | query)
        self.assertEqual(answer.status, 200, answer)
        return [item["channel_url"] for item in answer.json["items"]]

    def messages(self, query):
        for name in ("before", "after", "around"):
            if name in query:
                query = query | {name: self.sent[query[name]]["created_at"]}
        if "parent_message_id" in query:
            query = query | {"parent_message_id": self.sent[query["parent_message_id"]]["message_id"]}
        answer = self.pair.ask("listMessages", "ana", {"channel_url": "plain"}, query)
        self.assertEqual(answer.status, 200, answer)
        return answer.json["items"]

    def name(self, item):
        names = {str(message["message_id"]): text for text, message in self.sent.items()}
        return names[item["message_id"]]

    def test_B6_each_filter_of_channels(self):
        for query, expected in CHANNELS:
            with self.subTest(query=query):
                self.assertEqual(sorted(self.channels(query)), sorted(expected.split()))

    def test_B7_each_order_of_channels(self):
        for query, expected in ORDERS:
            with self.subTest(query=query):
                self.assertEqual(self.channels(query)[:len(expected)], expected)
        query = {"order": "channel_name_alphabetical", "limit": 1, "include_empty": "true"}
        first = self.pair.ask("listChannels", "ana", query=query)
        second = self.channels({"order": "channel_name_alphabetical", "limit": "2", "after": first.json["next"]})
        self.assertEqual(second, ["frozen", "huge"])

    def test_B6_what_a_channel_shows_beside_itself(self):
        query = {"channel_urls": "typed", "include_empty": "true", "include_member_list": "true",
                 "include_metadata": "true"}
        item = self.pair.ask("listChannels", "ana", query=query).json["items"][0]
        self.assertEqual({member["user_id"] for member in item["members"]}, {"ana", "ben", "cyd"})
        self.assertEqual(item["metadata"], {"color": "red"})
        bare = self.pair.ask("listChannels", "ana", query={"channel_urls": "typed", "include_empty": "true"})
        self.assertFalse({"members", "metadata"} & set(bare.json["items"][0]))

    def test_B12_each_filter_of_messages(self):
        for query, expected in MESSAGES:
            with self.subTest(query=query):
                self.assertEqual([self.name(item) for item in self.messages(query)], expected.split())

    def test_B13_switches_only_leave_fields_out(self):
        for switch, (text, shown) in SWITCHES.items():
            with self.subTest(switch=switch):
                for value in ("true", "false"):
                    items = self.messages({"reply_type": "all", switch: value})
                    item = next(item for item in items if self.name(item) == text)
                    self.assertEqual(shown in item, value == "true")

    def test_every_parameter_has_a_case(self):
        asked = {name for query, _ in CHANNELS + ORDERS for name in query}
        asked |= {"after", "include_member_list", "include_metadata"}
        self.assertEqual(parameters("listChannels"), asked)
        self.assertEqual(parameters("listMessages"), {name for query, _ in MESSAGES for name in query} | set(SWITCHES))


if __name__ == "__main__":
    unittest.main(verbosity=0)
