"""Drives `perch origin` with the published sendbird-platform-sdk 2.1.5, which checks the answers' types itself.

usage: python platform_client.py PATH-OF-PERCH     (needs: pip install sendbird-platform-sdk==2.1.5)
Every method of the client whose path the stand-in covers must be driven; prints how many, and exits with 1 if one
failed, was left out, or answered something else than it should.
"""
import inspect
import json
import subprocess
import sys
import urllib.request

import sendbird_platform_sdk as sdk
from sendbird_platform_sdk.api import group_channel_api, message_api, metadata_api, moderation_api, user_api
from sendbird_platform_sdk.model.sendbird_file import SendbirdFile
from sendbird_platform_sdk.model.sendbird_sorted_metaarray import SendbirdSortedMetaarray
from sendbird_platform_sdk.model.sendbird_sorted_metaarray_inner import SendbirdSortedMetaarrayInner

# The paths of the wire that the stand-in speaks; the client writes the second segment of some as {channel_type}.
USER = "/v3/users/{user_id}"
CHANNEL = "/v3/group_channels/{channel_url}"
MESSAGE = CHANNEL + "/messages/{message_id}"
COVERED = {
    "/v3/users", USER, USER + "/metadata", USER + "/metadata/{key}", USER + "/my_group_channels",
    USER + "/unread_message_count", "/v3/group_channels", CHANNEL, CHANNEL + "/members",
    CHANNEL + "/members/{user_id}", CHANNEL + "/invite", CHANNEL + "/accept", CHANNEL + "/join",
    CHANNEL + "/leave", CHANNEL + "/hide", CHANNEL + "/freeze", CHANNEL + "/reset_user_history",
    CHANNEL + "/typing", CHANNEL + "/operators", CHANNEL + "/mute", CHANNEL + "/mute/{user_id}",
    CHANNEL + "/ban", CHANNEL + "/ban/{user_id}", CHANNEL + "/metadata", CHANNEL + "/metacounter",
    CHANNEL + "/messages", MESSAGE, CHANNEL + "/messages/total_count", CHANNEL + "/messages/mark_as_read",
    CHANNEL + "/messages/unread_count", MESSAGE + "/reactions", MESSAGE + "/sorted_metaarray", "/v3/storage/file",
}

failures = []
driven = set()


def drive(api, method, body=None, check=None, **arguments):
    """Calls a method; `body` becomes the model that the client's own table names for it."""
    endpoint = getattr(api, method + "_endpoint")
    try:
        if body is not None:
            for name, types in endpoint.openapi_types.items():
                if hasattr(types[0], "_from_openapi_data"):
                    arguments[name] = types[0](**body)
        if "api_token" in endpoint.openapi_types:
            arguments.setdefault("api_token", "origin")
        answer = getattr(api, method)(**arguments)
        if check is not None and not check(answer):
            raise AssertionError(f"unexpected answer {str(answer)[:300]}")
        driven.add(method)
        return answer
    except Exception as error:  # every failure is reported, none ends the run
        failures.append(f"{method}: {type(error).__name__}: {str(error)[:400]}")
        return None


def covered(client):
    """The client's methods whose path is among the covered ones, by its own tables."""
    found = set()
    for module in [group_channel_api, message_api, metadata_api, moderation_api, user_api]:
        for name, kind in inspect.getmembers(module, inspect.isclass):
            if not name.endswith("Api"):
                continue
            for field, endpoint in vars(kind(client)).items():
                if not field.endswith("_endpoint"):
                    continue
                path = endpoint.settings["endpoint_path"].replace("{channel_type}", "group_channels")
                if path in COVERED:
                    found.add(endpoint.settings["operation_id"])
    return found


def plain(answer):
    """An answer of the client as plain values."""
    return answer.to_dict() if hasattr(answer, "to_dict") else answer


def users(api):
    for user in ["erin", "frank"]:
        drive(api, "create_a_user", {"user_id": user, "nickname": user, "profile_url": ""})
    drive(api, "create_a_user", {
        "user_id": "gil", "nickname": "Gil", "profile_url": "", "issue_access_token": True,
        "metadata": {"is_new": True}},
        check=lambda a: len(a.access_token) == 40 and plain(a.metadata) == {"is_new": "True"})
    drive(api, "view_a_user", user_id="erin", check=lambda a: a.user_id == "erin" and a.is_active is True)
    drive(api, "update_a_user", {"nickname": "Erin"}, user_id="erin", check=lambda a: a.nickname == "Erin")
    drive(api, "list_users", check=lambda a: len(a.users) == 7 and a.next == "")
    first = drive(api, "list_users", limit=3, check=lambda a: len(a.users) == 3 and a.next != "")
    if first:
        drive(api, "list_users", limit=3, token=first.next,
              check=lambda a: not {u.user_id for u in a.users} & {u.user_id for u in first.users})
    # Metadata comes back as strings, and changes answer the keys they were sent.
    drive(api, "create_user_metadata", {"metadata": {"color": "red", "is_tall": True, "size": 9}}, user_id="erin",
          check=lambda a: plain(a) == {"color": "red", "is_tall": "True", "size": "9"})
    drive(api, "update_user_metadata", {"metadata": {"color": "blue"}}, user_id="erin",
          check=lambda a: plain(a) == {"color": "blue"})
    drive(api, "update_specific_user_metadata", {"value": "green"}, user_id="erin", key="color",
          check=lambda a: plain(a) == {"color": "green"})
    drive(api, "view_specific_user_metadata", user_id="erin", key="color",
          check=lambda a: plain(a) == {"color": "green"})
    drive(api, "delete_specific_user_metadata", user_id="erin", key="color", check=lambda a: plain(a) == {})
    drive(api, "delete_user_all_metadata", user_id="erin", check=lambda a: plain(a) == {})
    drive(api, "view_a_user", user_id="erin", check=lambda a: plain(a.metadata) == {})
    drive(api, "view_number_of_unread_messages", user_id="alice", check=lambda a: a.unread_count > 0)


def lists(api):
    # The client writes booleans as Python does: True.
    drive(api, "list_my_group_channels", user_id="alice", limit=100, show_empty=True, show_member=True,
          check=lambda a: {c.channel_url for c in a.channels} >= {"general", "big", "quiet"}
          and all(len(c.members) > 1 for c in a.channels))
    drive(api, "list_my_group_channels", user_id="alice", limit=100,
          check=lambda a: "quiet" not in {c.channel_url for c in a.channels})
    drive(api, "list_my_group_channels", user_id="alice", limit=100, show_frozen=False,
          check=lambda a: "announcements" not in {c.channel_url for c in a.channels})
    page = drive(api, "list_my_group_channels", user_id="alice", limit=2, order="latest_last_message",
                 check=lambda a: len(a.channels) == 2)
    if page:
        drive(api, "list_my_group_channels", user_id="alice", limit=2, order="latest_last_message",
              token=page.next,
              check=lambda a: not {c.channel_url for c in a.channels} & {c.channel_url for c in page.channels})


def channels(api):
    create = {"user_ids": ["alice", "erin"], "channel_url": "tea", "name": "tea", "operator_ids": ["alice"], "users": []}
    drive(api, "create_a_group_channel", create,
          check=lambda a: a.channel.channel_url == "tea" and [o.user_id for o in a.operators] == ["alice"])
    drive(api, "get_a_group_channel", channel_url="tea", check=lambda a: a.channel_url == "tea")
    drive(api, "get_a_group_channel", channel_url="tea", show_member=True, user_id="erin",
          check=lambda a: len(a.members) == 2 and a.member_state == "joined" and a.unread_message_count == 0)
    drive(api, "update_a_group_channel", {"name": "green tea"}, channel_url="tea",
          check=lambda a: a.name == "green tea")
    drive(api, "list_channels", limit=100, show_empty=True,
          check=lambda a: {c.channel_url for c in a.channels} >= {"tea", "secret"})
    drive(api, "list_members", channel_url="tea",
          check=lambda a: {m.user_id: m.role for m in a.members} == {"alice": "operator", "erin": ""})
    drive(api, "check_if_member", channel_url="tea", user_id="erin", check=lambda a: a.is_member)
    drive(api, "check_if_member", channel_url="tea", user_id="bob", check=lambda a: not a.is_member)
    drive(api, "invite_as_members", {"user_ids": ["frank"]}, channel_url="tea")
    drive(api, "accept_an_invitation", {"user_id": "frank"}, channel_url="tea")
    drive(api, "join_a_channel", {"user_id": "bob"}, channel_url="tea")
    drive(api, "leave_a_channel", {"user_ids": ["bob"]}, channel_url="tea")
    drive(api, "check_if_member", channel_url="tea", user_id="bob", check=lambda a: not a.is_member)
    drive(api, "hide_a_channel", {"user_id": "erin"}, channel_url="tea")
    drive(api, "get_a_group_channel", channel_url="tea", user_id="erin",
          check=lambda a: a.is_hidden and a.hidden_state == "hidden_allow_auto_unhide")
    drive(api, "unhide_a_channel", channel_url="tea", user_id="erin")
    drive(api, "start_typing_indicators", {"user_ids": ["erin"]}, channel_url="tea")
    # A DELETE with a body.
    drive(api, "stop_typing_indicators", {"user_ids": ["erin"]}, channel_url="tea", check=lambda a: plain(a) == {})
    drive(api, "register_operators_to_a_group_channel", {"operator_ids": ["erin"]}, channel_url="tea")
    drive(api, "list_operators", channel_url="tea",
          check=lambda a: {o.user_id for o in a.operators} == {"alice", "erin"})
    drive(api, "cancel_the_registration_of_operators", channel_url="tea", operator_ids="erin")
    drive(api, "list_operators", channel_url="tea", check=lambda a: [o.user_id for o in a.operators] == ["alice"])
    drive(api, "reset_chat_history", {"user_id": "erin"}, channel_url="tea",
          check=lambda a: a.ts_message_offset > 1_500_000_000_000)


def frozen(moderation, message):
    drive(moderation, "freeze_a_group_channel", {"freeze": True}, channel_url="tea", check=lambda a: a.freeze)
    refused(message, "send_a_message", {"message_type": "MESG", "user_id": "erin", "message": "brr"}, 900050,
            channel_type="group_channels", channel_url="tea")
    drive(moderation, "freeze_a_group_channel", {"freeze": False}, channel_url="tea", check=lambda a: not a.freeze)


def channel_metadata(api):
    place = {"channel_type": "group_channels", "channel_url": "tea"}
    every = "view_a_channel_metadata_when_retrieving_all_items_of_a_channel_metadata"
    drive(api, "create_a_channel_metadata", {"metadata": {"pot": "big", "is_hot": True}}, **place,
          check=lambda a: plain(a.metadata) == {"pot": "big", "is_hot": "True"})
    drive(api, "update_a_channel_metadata", {"metadata": {"pot": "small"}}, **place,
          check=lambda a: plain(a) == {"pot": "small"})
    drive(api, every, **place, check=lambda a: plain(a) == {"pot": "small", "is_hot": "True"})
    drive(api, every, key="pot", **place, check=lambda a: plain(a) == {"pot": "small"})
    drive(api, "delete_a_channel_metadata_when_deleting_all_items_of_a_channel_metadata", **place)
    drive(api, every, **place, check=lambda a: plain(a) == {})


def pairs(value):
    return {"sorted_metaarray": SendbirdSortedMetaarray([SendbirdSortedMetaarrayInner(key="k", value=[value])])}


def messages(api):
    place = {"channel_type": "group_channels", "channel_url": "tea"}
    send = {"message_type": "MESG", "user_id": "alice", "message": "a cup?", "dedup_id": "cup"}
    sent = drive(api, "send_a_message", send, **place, check=lambda a: a.user.user_id == "alice")
    drive(api, "send_a_message", send, **place, check=lambda a: sent and a.message_id == sent.message_id)
    one = dict(place, message_id=int(sent.message_id)) if sent else dict(place, message_id=1)
    drive(api, "send_a_message", {"message_type": "ADMM", "user_id": "alice", "message": "tea time"}, **place)
    file = SendbirdFile(url="https://example.com/tea.png", name="tea.png", type="image/png", size=9)
    drive(api, "send_a_message", {"message_type": "FILE", "user_id": "erin", "files": file}, **place,
          check=lambda a: a.type == "FILE" and plain(a.file)["url"] == "https://example.com/tea.png")
    drive(api, "get_a_message", **one, check=lambda a: a.message == "a cup?" and a.updated_at == 0)
    # No such message is 0: the anchor is the time.
    drive(api, "list_messages", message_ts=0, message_id=0, next_limit=100, **place,
          check=lambda a: [m.type for m in a.messages] == ["MESG", "ADMM", "FILE"])
    drive(api, "list_messages", message_ts=0, message_id=one["message_id"], prev_limit=0, next_limit=1, reverse=True,
          **place, check=lambda a: [m.type for m in a.messages] == ["ADMM", "MESG"])
    drive(api, "list_messages", message_ts=0, message_id=0, message_type="FILE", include_reactions=True, include_thread_info=True,
          with_sorted_meta_array=True, include_parent_message_info=True, include_reply_type="ALL", **place,
          check=lambda a: len(a.messages) == 1)
    drive(api, "list_messages", message_ts=1_900_000_000_000, message_id=0, prev_limit=100, next_limit=0, include_reactions=True,
          include_thread_info=True, with_sorted_meta_array=True, include_parent_message_info=True,
          include_reply_type="ALL", channel_type="group_channels", channel_url="general",
          check=lambda a: len(a.messages) == 100 and any(m.get("parent_message_id") for m in a.messages))
    drive(api, "get_total_number_of_messages_in_a_channel", **place, check=lambda a: a.total == 3)
    drive(api, "update_a_message", {"message_type": "MESG", "message": "a pot?"}, **one,
          check=lambda a: a.message == "a pot?" and a.updated_at > 0)
    drive(api, "add_extra_data_to_a_message", pairs("v"), **one)
    drive(api, "update_extra_data_in_a_message", pairs("w"), **one)
    drive(api, "get_a_message", **one, check=lambda a: plain(a.sorted_metaarray.value[0]) == {"key": "k", "value": ["w"]})
    drive(api, "remove_extra_data_from_a_message", keys="k", **one)
    drive(api, "get_a_message", **one, check=lambda a: len(a.sorted_metaarray.value) == 0)
    drive(api, "mark_channel_messages_as_read", {"user_id": "erin"}, channel_url="tea")
    drive(api, "delete_a_message", **one, check=lambda a: plain(a) == {})
    refused(api, "get_a_message", None, 400201, **one)


def refused(api, method, body, code, **arguments):
    """A call that must fail with an upstream's code."""
    try:
        endpoint = getattr(api, method + "_endpoint")
        if body is not None:
            for name, types in endpoint.openapi_types.items():
                if hasattr(types[0], "_from_openapi_data"):
                    arguments[name] = types[0](**body)
        getattr(api, method)(api_token="origin", **arguments)
        failures.append(f"{method}: was not refused with {code}")
    except sdk.ApiException as error:
        if json.loads(error.body)["code"] != code:
            failures.append(f"{method}: refused with {error.body} instead of {code}")


def booleans(host):
    """Booleans of a query in any case of their letters, which the client does not send."""
    for flag, count in [("true", 3), ("TRUE", 3), ("True", 3), ("false", 0), ("FALSE", 0)]:
        request = urllib.request.Request(f"{host}/v3/group_channels/tea?show_member={flag}")
        request.add_header("api-token", "origin")
        with urllib.request.urlopen(request, timeout=10) as answer:
            if len(json.load(answer).get("members", [])) != count:
                failures.append(f"show_member={flag} was not understood")


def drive_all(host):
    with sdk.ApiClient(sdk.Configuration(host=host)) as client:
        user = user_api.UserApi(client)
        channel = group_channel_api.GroupChannelApi(client)
        message = message_api.MessageApi(client)
        users(user)
        lists(user)
        channels(channel)
        messages(message)
        frozen(moderation_api.ModerationApi(client), message)
        channel_metadata(metadata_api.MetadataApi(client))
        booleans(host)
        drive(channel, "delete_a_group_channel", channel_url="tea")
        drive(user, "delete_a_user", user_id="frank", check=lambda a: plain(a) == {})
        refused(user, "view_a_user", None, 400201, user_id="frank")
        return covered(client)


def main():
    origin = subprocess.Popen(
        [sys.argv[1], "origin", "--listen", "127.0.0.1:0", "--seed", "small"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        wanted = drive_all(origin.stdout.readline().split()[-1])
    finally:
        origin.terminate()
        origin.wait(10)
    for method in sorted(wanted - driven):
        failures.append(f"{method}: never answered well")
    print(f"client: {len(driven & wanted)} of {len(wanted)} methods driven, {len(failures)} failures")
    for failure in failures:
        print("failed:", failure)
    if not failures:
        print("client: all checks passed")
    return 1 if failures else 0


sys.exit(main())
