"""A session with the Python client that openapi-generator makes of the contract: `.ci/generated-clients` runs it.

Alice connects, pages through her channels and a channel's messages, reads conditionally, meets problems, opens a view
and hears in it what bob says upstream.
"""

import json
import os
import time
import urllib.request
import uuid

from perch_client import (
    ApiClient, ApiException, CacheApi, ChannelCollectionRequest, ChannelsApi, CollectionsApi, Configuration,
    ConnectionApi, Event, LoadPreviousMessagesRequest, Message, MessageCollectionRequest, MessagesAdded, MessagesApi,
    MessagesReplaced, MessagesUpdated, NewMessage, OperatorApi, OutboxChanged, Problem, SendingApi,
)
from perch_client.exceptions import ForbiddenException, NotFoundException, UnauthorizedException

URL, TOKEN, ORIGIN = os.environ["TARGET_URL"], os.environ["CHAT_TOKEN"], os.environ["ORIGIN_URL"]
done = 0


def check(holds: bool, what: str) -> None:
    global done
    if not holds:
        raise SystemExit(f"generated Python client: {what}")
    done += 1


def code(error: ApiException) -> str:
    """What a problem is called; the client has made a Problem of its body."""
    return error.data.code if isinstance(error.data, Problem) else ""


def say(text: str) -> None:
    """Bob says something, upstream."""
    body = json.dumps({"message_type": "MESG", "user_id": "bob", "message": text}).encode()
    request = urllib.request.Request(f"{ORIGIN}/v3/group_channels/general/messages", body, {
        "Api-Token": "origin", "Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10):
        pass


def read(client: ApiClient) -> None:
    connection = ConnectionApi(client)
    deadline = time.monotonic() + 30
    while (state := connection.connect(prefer="wait=5")).sync.phase not in ("messages", "steady"):
        check(time.monotonic() < deadline, "the channels are all listed within 30 s")
    check(state.user == "alice", "the connection is alice's")
    check(connection.get_unread().channels >= 0, "totals are numbers")

    channels = ChannelsApi(client)
    urls: list[str] = []
    after = None
    while True:
        listed = channels.list_channels(limit=2, after=after, include_empty=True, include_member_list=True)
        urls += [channel.channel_url for channel in listed.items]
        after = listed.next
        if not listed.has_next:
            break
    check({"general", "random", "big", "quiet"} <= set(urls) and len(urls) == len(set(urls)), f"pages of channels: {urls}")
    members = channels.list_members("general")
    check({"alice", "bob", "carol", "dave"} == {member.user_id for member in members.items}, "members")

    messages = MessagesApi(client)
    ids: list[str] = []
    before = None
    for _ in range(5):
        page = messages.list_messages("general", limit=20, before=before, include_reactions=True, prefer="wait=5")
        ids = [message.message_id for message in page.items] + ids
        before = page.previous
        if not page.has_previous:
            break
    check(len(ids) > 80 and len(ids) == len(set(ids)), f"{len(ids)} messages in pages")
    one = messages.get_message("general", ids[-1], include_thread_info=True)
    check(one.channel_url == "general" and one.sending_status == "succeeded", "one message")
    check(CacheApi(client).get_cache().max_size_bytes >= 64 << 20, "the cache's limit")
    check(OperatorApi(client).get_readiness().status == "ready", "readiness needs no token")

    tag = (channels.get_channel_with_http_info("quiet").headers or {})["ETag"]
    try:
        channels.get_channel("quiet", if_none_match=tag)
        check(False, "a known tag is a 304")
    except ApiException as error:
        check(error.status == 304, "a known tag is a 304")


def problems(client: ApiClient) -> None:
    try:
        ChannelsApi(client).get_channel("no-such-channel")
        check(False, "there is no such channel")
    except NotFoundException as error:
        check(code(error) == "channel_not_found", "a problem has its type")
    try:
        OperatorApi(client).list_users()
        check(False, "alice is no operator")
    except ForbiddenException as error:
        check(code(error) == "insufficient_scope", "a problem has its type")
    with ApiClient(Configuration(host=URL, access_token="none")) as nobody:
        try:
            ConnectionApi(nobody).get_connection()
            check(False, "a bad token is refused")
        except UnauthorizedException as error:
            check(code(error) == "unauthorized", "a problem has its type")


def shown(event: Event) -> list[Message]:
    """The messages that a view shows after an event; the client has made an object of the event's own type of it."""
    told = event.actual_instance
    return told.messages if isinstance(told, (MessagesAdded, MessagesUpdated, MessagesReplaced)) else []


def follow(client: ApiClient) -> None:
    collections = CollectionsApi(client)
    listed = collections.open_channel_collection(ChannelCollectionRequest(query={"limit": 3}))
    check(len(listed.channels) == 3 and listed.has_next, "a list of channels")
    collections.dispose_channel_collection(listed.id)
    view = collections.open_message_collection(
        MessageCollectionRequest(channel_url="general", previous_size=5), prefer="wait=5")
    check(len(view.messages) >= 5 and view.previous is not None, "a view")
    first = view.api_result.actual_instance if view.api_result else None
    check(isinstance(first, MessagesReplaced) and first.has_previous, "an event has its own type")
    older = collections.load_previous_messages(view.id, LoadPreviousMessagesRequest(before=view.previous or ""))
    check(len(older.items) > 0, "older messages")
    text = f"hello {uuid.uuid4()}"
    say(text)
    cursor, heard = view.cursor, False
    deadline = time.monotonic() + 30
    while not heard:
        check(time.monotonic() < deadline, "what bob says is heard within 30 s")
        answer = collections.poll_message_collection(view.id, since=cursor, wait=5)
        cursor = answer.cursor
        heard = any(message.message == text for event in answer.events for message in shown(event))
    feed = collections.poll_events()
    SendingApi(client).send_message("general", NewMessage(message="typed"), prefer="wait=5")
    told = [event.actual_instance for event in collections.poll_events(since=feed.cursor, wait=5).events]
    check(any(isinstance(one, OutboxChanged) and one.counts.failed == 0 for one in told), f"the outbox: {told}")
    collections.dispose_message_collection(view.id)
    try:
        collections.get_message_collection(view.id)
        check(False, "a view that was disposed of is gone")
    except NotFoundException as error:
        check(code(error) == "collection_not_found", "a view that was disposed of is gone")


def main() -> None:
    with ApiClient(Configuration(host=URL, access_token=TOKEN)) as client:
        read(client)
        problems(client)
        follow(client)
    print(f"generated Python client: {done} checks passed")


main()
