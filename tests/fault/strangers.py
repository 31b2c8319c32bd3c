"""Peers that make a broker keep memory for them: they do not read, do not finish, say much, ask for much."""

import struct
from contextlib import ExitStack, suppress
from typing import Final

from tests.broker.asking import append, batch, create, fetch_request, part
from tests.broker.grouping import commit_request, find
from tests.broker.raw import Raw

from kohort.model.errors import ErrorCode
from kohort.wire.messages.describe_groups import DescribeGroupsRequest
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.wire.messages.list_groups import ListGroupsRequest
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

MB: Final = 1_000_000
BUDGETS = {
    "queued.max.request.bytes": 110 * MB,
    "kohort.fetch.sessions.max.bytes": 20 * MB,
    "kohort.group.members.max.bytes": 32 * MB,
}


def prepare(bootstrap: str) -> None:
    """Make what they ask for: a topic with 60 MB, and a group with a thousand large commits."""
    with Raw(bootstrap) as raw:
        find(raw)
        create(raw, "big")
        for _ in range(60):
            append(raw, "big", batch("x" * MB))
        create(raw, "wide", partitions=1_000)
        for first in range(0, 1_000, 250):
            rows = ((number, 1) for number in range(first, first + 250))
            request = commit_request(*rows, topic="wide", group="far", metadata="m" * 4_000)
            codes = {each.error_code for each in raw.send(request, 8).topics[0].partitions}
            assert codes == {0}


def stuff(stream: Raw, content: memoryview) -> None:
    """Send until the broker takes no more for a while, or closes."""
    stream.socket.settimeout(0.3)
    sent = 0
    with suppress(TimeoutError, ConnectionError):
        while sent < len(content):
            sent += stream.socket.send(content[sent : sent + MB])


def read_no_replies(bootstrap: str, stack: ExitStack) -> None:
    request = fetch_request({"big": [part(limit=55 * MB)]}, max_bytes=55 * MB)
    for _ in range(20):
        reader = stack.enter_context(Raw(bootstrap, receive_buffer=4_096))
        reader.send_bytes(b"".join(reader.frame(request, 12) for _ in range(3)))


def finish_no_request(bootstrap: str, stack: ExitStack) -> None:
    start = struct.pack(">ihhi", 100 * MB, 0, 12, 1) + b"\x00\x03raw"
    content = memoryview(bytes(97 * MB))
    for _ in range(10):
        stream = stack.enter_context(Raw(bootstrap))
        stream.send_bytes(start)
        stuff(stream, content)


def open_large_sessions(bootstrap: str, stack: ExitStack) -> None:
    parts = [FetchPartition(partition=index, partition_max_bytes=1) for index in range(18_000)]
    request = FetchRequest(session_id=0, session_epoch=0, topics=[FetchTopic(topic="none", partitions=parts)])
    stream = stack.enter_context(Raw(bootstrap))
    given = [stream.send(request, 7).session_id for _ in range(6)]
    assert 0 < sum(map(bool, given)) < 6  # the others go on without a session


def say_much_as_a_member(bootstrap: str, stack: ExitStack) -> None:
    protocols = [JoinGroupRequestProtocol(name=f"p{n}", metadata=bytes(80_000)) for n in range(90)]
    for number in range(20):
        request = JoinGroupRequest(
            group_id=f"loud-{number % 5}",
            session_timeout_ms=1_800_000,
            rebalance_timeout_ms=1_800_000,
            protocol_type="consumer",
            protocols=protocols,
        )
        with suppress(ConnectionError):  # closed for what it held while memory was short
            stack.enter_context(Raw(bootstrap)).post(request, 3)


def ask_for_ids(bootstrap: str, stack: ExitStack) -> None:
    stream = stack.enter_context(Raw(bootstrap, "c" * 30_000))
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    codes = set()
    for number in range(1_000):
        request = JoinGroupRequest(
            group_id=f"ids-{number % 7}",
            session_timeout_ms=1_800_000,
            rebalance_timeout_ms=1,
            protocol_type="consumer",
            protocols=protocols,
        )
        codes.add(stream.send(request, 5).error_code)
    assert codes <= {ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.GROUP_MAX_SIZE_REACHED}


def ask_for_everything(bootstrap: str, stack: ExitStack) -> None:
    """Small requests, large replies: all offsets of a group, all topics, all groups; none is read."""
    everything = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="far", topics=None)])
    described = DescribeGroupsRequest(groups=[f"loud-{number}" for number in range(5)])
    for _ in range(60):
        reader = stack.enter_context(Raw(bootstrap, receive_buffer=4_096))
        asked = (
            reader.frame(everything, 9),
            reader.frame(described, 5),
            reader.frame(MetadataRequest(topics=None), 12),
            reader.frame(ListGroupsRequest(), 4),
        )
        stuff(reader, memoryview(b"".join(asked) * 5))


STRANGERS = (
    read_no_replies,
    finish_no_request,
    open_large_sessions,
    say_much_as_a_member,
    ask_for_ids,
    ask_for_everything,
)
