"""Where each operation of the contract takes a name that somebody may not know, or that may not exist.

A new operation has no place here, and every walk that meets it fails until it has one.
"""

from dataclasses import dataclass, field, replace

from service import CONTRACT


@dataclass
class Names:
    """What a request can name."""

    channel: str = "no-such-channel"
    message: str = "999999999999"
    # A message that the asker wrote, and the name of an unsent one.
    own: str = "999999999999"
    request: str = "no-such-request"
    gap: str = "999999"
    list: str = "0123456789abcdef0123456789abcdef"
    view: str = "fedcba9876543210fedcba9876543210"
    # A page of channels, of members, of users goes on there.
    edge: str = None
    member: str = ""
    # A place in a channel's line.
    position: str = "0000018000000000-0000000000000001"
    # The edge token of a list's last page.
    more: str = None
    # The edge tokens of a view's pages.
    previous: str = "0000018000000000-0000000000000001"
    next: str = "0000018000000000-0000000000000001"
    cursor: str = "now"
    ticket: str = None
    parent: str = "999999999999"
    code: str = "channel_not_found"
    # A file of the stand-in.
    file: str = "1"
    extra: dict = field(default_factory=dict)

    def but(self, **changes):
        return replace(self, **changes)


def in_channel(names, **query):
    return {"params": {"channel_url": names.channel}, "query": query}


def in_list(names, body=None, **query):
    return {"params": {"collection_id": names.list}, "body": body, "query": query}


def in_view(names, body=None, **query):
    return {"params": {"collection_id": names.view}, "body": body, "query": query}


def gap(names):
    return {"params": {"channel_url": names.channel, "gap_id": names.gap}}


def of_message(names, ref, body=None, **more):
    return {"params": {"channel_url": names.channel, "message_ref": ref} | more, "body": body}


def unsent(names):
    return {"params": {"request_id": names.request}}


def after(names, **query):
    return {"query": query | ({"after": names.edge} if names.edge else {})}


PLACES = {
    "getHealth": lambda names: {},
    "getReadiness": lambda names: {},
    "getMetrics": lambda names: {},
    "getOpenapiYaml": lambda names: {},
    "getClientJs": lambda names: {},
    "getClientPy": lambda names: {},
    "getOpenapiJson": lambda names: {},
    "getReference": lambda names: {},
    "getReferenceScript": lambda names: {},
    "getChatPage": lambda names: {},
    "getChatPageStyle": lambda names: {},
    "getChatPageScript": lambda names: {},
    "getChatPageIcon": lambda names: {},
    "getProblem": lambda names: {"params": {"code": names.code}},
    "receiveSendbirdWebhook": lambda names: {"body": {"category": "group_channel:message_send"}},
    "getDemo": lambda names: {},
    "getDemoFile": lambda names: {"params": {"name": names.file}},
    "setDemoUpstream": lambda names: {"body": {"up": True}},
    "connect": lambda names: {},
    "getConnection": lambda names: {},
    "disconnect": lambda names: {},
    "getUnread": lambda names: {},
    "listChannels": lambda names: after(names),
    "getChannel": lambda names: in_channel(names, include_member_list="true", include_metadata="true"),
    "listMembers": lambda names: in_channel(names, after=names.member),
    "listMessages": lambda names: in_channel(
        names, before=names.position, inclusive="true", reply_type="all", include_parent_message="true"),
    "getMessage": lambda names: {
        "params": {"channel_url": names.channel, "message_ref": names.message},
        "query": {"include_parent_message": "true", "include_thread_info": "true"}},
    "sendMessage": lambda names: in_channel(names) | {
        "body": {"message": "hello", "parent_message_id": names.message}},
    "resendFailedMessages": lambda names: in_channel(names),
    "removeFailedMessages": lambda names: in_channel(names, status="failed"),
    "editMessage": lambda names: of_message(names, names.own, {"message": "changed"}),
    "deleteMessage": lambda names: of_message(names, names.own),
    "resendMessage": lambda names: of_message(names, "request_id:" + names.request),
    "getMessageFile": lambda names: of_message(names, names.message),
    "addReaction": lambda names: of_message(names, names.message, key="smile"),
    "removeReaction": lambda names: of_message(names, names.message, key="smile"),
    "markChannelAsRead": lambda names: in_channel(names),
    "listUnsent": lambda names: {"query": {"channel_url": names.channel}},
    "getUnsent": unsent,
    "removeUnsent": unsent,
    "resendUnsent": unsent,
    "listAllUnsent": lambda names: {"query": {"after": names.member}},
    "listGaps": lambda names: in_channel(names),
    "fillGap": gap,
    "stopGapFill": gap,
    "clearChannelCache": lambda names: in_channel(names),
    "openChannelCollection": lambda names: {"body": {"query": {"channel_urls": [names.channel]}}},
    "getChannelCollection": in_list,
    "disposeChannelCollection": in_list,
    "loadMoreChannels": lambda names: in_list(names, {"after": names.more or "x"}),
    "pollChannelCollection": lambda names: in_list(names, since=names.cursor, wait=0),
    "openMessageCollection": lambda names: {
        "body": {"channel_url": names.channel, "starting_point": names.position, "include_parent_message": True}},
    "getMessageCollection": in_view,
    "disposeMessageCollection": in_view,
    "loadPreviousMessages": lambda names: in_view(names, {"before": names.previous}),
    "loadNextMessages": lambda names: in_view(names, {"after": names.next}),
    "pollMessageCollection": lambda names: in_view(names, since=names.cursor, wait=0),
    "resetMessageCollection": lambda names: in_view(names, {"starting_point": names.position}),
    "removeFailedFromCollection": lambda names: in_view(names, request_id=names.request),
    "pollEvents": lambda names: {
        "query": {"since": names.cursor, "wait": 0, "collections": f"{names.list},{names.view}", "user_feed": "true"}},
    "createEventTicket": lambda names: {"body": {"path": f"/v1/message-collections/{names.view}/events"}},
    "getCache": lambda names: {},
    "clearCache": lambda names: {},
    "listCachedChannels": lambda names: {},
    "checkCache": lambda names: {},
    "listUsers": lambda names: {"query": {"after": names.member}},
}

# Those after which others have nothing left to find; walks do them last.
LAST = ["deleteMessage", "disposeChannelCollection", "disposeMessageCollection", "resetMessageCollection", "clearChannelCache",
        "disconnect", "clearCache"]


def operations():
    """Every operation of the contract, what destroys last."""
    missing = set(CONTRACT.operations) - set(PLACES)
    assert not missing, f"operations without a place in the walk: {sorted(missing)}"
    gone = set(PLACES) - set(CONTRACT.operations)
    assert not gone, f"places of operations that the contract does not have: {sorted(gone)}"
    found = list(CONTRACT.operations.values())
    return sorted(found, key=lambda operation: LAST.index(operation.id) if operation.id in LAST else -1)
