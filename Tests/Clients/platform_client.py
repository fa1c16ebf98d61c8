"""Drives `perch origin` with the published sendbird-platform-sdk 2.1.5, which checks the answers' types itself.

usage: python platform_client.py PATH-OF-PERCH     (needs: pip install sendbird-platform-sdk==2.1.5)
Prints how many methods were driven; exit code 1 if one failed.
"""
import subprocess
import sys

import sendbird_platform_sdk as sdk
from sendbird_platform_sdk.api import group_channel_api, message_api, user_api
from sendbird_platform_sdk.model.sendbird_sorted_metaarray import SendbirdSortedMetaarray
from sendbird_platform_sdk.model.sendbird_sorted_metaarray_inner import SendbirdSortedMetaarrayInner

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


def users(api):
    for user in ["erin", "frank"]:
        drive(api, "create_a_user", {"user_id": user, "nickname": user, "profile_url": ""})
    drive(api, "view_a_user", user_id="erin", check=lambda a: a.user_id == "erin")
    drive(api, "update_a_user", {"nickname": "Erin"}, user_id="erin", check=lambda a: a.nickname == "Erin")
    drive(api, "list_users", check=lambda a: len(a.users) == 6)
    drive(api, "create_user_metadata", {"metadata": {"color": "red", "size": "9"}}, user_id="erin")
    drive(api, "update_user_metadata", {"metadata": {"color": "blue"}}, user_id="erin")
    drive(api, "update_specific_user_metadata", {"value": "green"}, user_id="erin", key="color")
    drive(api, "view_specific_user_metadata", user_id="erin", key="color")
    drive(api, "delete_specific_user_metadata", user_id="erin", key="color")
    drive(api, "delete_user_all_metadata", user_id="erin")
    drive(api, "view_number_of_unread_messages", user_id="erin")
    drive(api, "list_my_group_channels", user_id="alice", check=lambda a: len(a.channels) > 0)


def channels(api):
    create = {"user_ids": ["alice", "erin"], "channel_url": "tea", "name": "tea", "operator_ids": ["alice"], "users": []}
    drive(api, "create_a_group_channel", create)
    drive(api, "get_a_group_channel", channel_url="tea", check=lambda a: a.channel_url == "tea")
    drive(api, "update_a_group_channel", {"name": "green tea"}, channel_url="tea")
    drive(api, "list_channels")
    drive(api, "list_members", channel_url="tea", check=lambda a: len(a.members) == 2)
    drive(api, "check_if_member", channel_url="tea", user_id="erin", check=lambda a: a.is_member)
    drive(api, "invite_as_members", {"user_ids": ["frank"]}, channel_url="tea")
    drive(api, "accept_an_invitation", {"user_id": "frank"}, channel_url="tea")
    drive(api, "join_a_channel", {"user_id": "bob"}, channel_url="tea")
    drive(api, "leave_a_channel", {"user_ids": ["bob"]}, channel_url="tea")
    drive(api, "hide_a_channel", {"user_id": "erin"}, channel_url="tea")
    drive(api, "unhide_a_channel", channel_url="tea", user_id="erin")
    drive(api, "start_typing_indicators", {"user_ids": ["erin"]}, channel_url="tea")
    drive(api, "stop_typing_indicators", {"user_ids": ["erin"]}, channel_url="tea")
    drive(api, "list_operators", channel_url="tea")
    drive(api, "register_operators_to_a_group_channel", {"operator_ids": ["erin"]}, channel_url="tea")
    drive(api, "cancel_the_registration_of_operators", channel_url="tea", operator_ids="erin")
    drive(api, "reset_chat_history", {"user_id": "erin"}, channel_url="tea")


def pairs(value):
    return {"sorted_metaarray": SendbirdSortedMetaarray([SendbirdSortedMetaarrayInner(key="k", value=[value])])}


def messages(api):
    place = {"channel_type": "group_channels", "channel_url": "tea"}
    send = {"message_type": "MESG", "user_id": "alice", "message": "a cup?"}
    sent = drive(api, "send_a_message", send, **place)
    one = dict(place, message_id=int(sent.message_id)) if sent else dict(place, message_id=1)
    drive(api, "get_a_message", **one)
    drive(api, "list_messages", message_ts=0, message_id=0, **place)
    drive(api, "get_total_number_of_messages_in_a_channel", **place, check=lambda a: a.total == 1)
    drive(api, "update_a_message", {"message_type": "MESG", "message": "a pot?"}, **one)
    drive(api, "add_extra_data_to_a_message", pairs("v"), **one)
    drive(api, "update_extra_data_in_a_message", pairs("w"), **one)
    drive(api, "remove_extra_data_from_a_message", keys="k", **one)
    drive(api, "mark_channel_messages_as_read", {"user_id": "erin"}, channel_url="tea")
    drive(api, "delete_a_message", **one)


def main():
    origin = subprocess.Popen(
        [sys.argv[1], "origin", "--listen", "127.0.0.1:0", "--seed", "small"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        host = origin.stdout.readline().split()[-1]
        with sdk.ApiClient(sdk.Configuration(host=host)) as client:
            users(user_api.UserApi(client))
            channels(group_channel_api.GroupChannelApi(client))
            messages(message_api.MessageApi(client))
            drive(group_channel_api.GroupChannelApi(client), "delete_a_group_channel", channel_url="tea")
            drive(user_api.UserApi(client), "delete_a_user", user_id="frank")
    finally:
        origin.terminate()
        origin.wait(10)
    print(f"{len(driven)} methods driven, {len(failures)} calls failed")
    for failure in failures:
        print("failed:", failure)
    return 1 if failures else 0


sys.exit(main())
