"""All at once that makes a broker keep memory for strangers: it keeps its bounds, and bystanders work."""

import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest
from tests.broker.asking import append, batch, create, fetch_request, part
from tests.broker.grouping import alone, commit_request, find, heartbeat_request
from tests.broker.raw import Raw
from tests.clients.node import Node

from kohort.model.errors import ErrorCode
from kohort.wire.messages.describe_groups import DescribeGroupsRequest
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.wire.messages.list_groups import ListGroupsRequest
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

MB: Final = 1_000_000
REQUESTS, SESSIONS, MEMBERS = 110 * MB, 20 * MB, 32 * MB
OTHERWISE = 120 * MB  # one large request in work; what may be too much for a moment; freed and not returned
CONFIGS = {
    "queued.max.request.bytes": REQUESTS,
    "kohort.fetch.sessions.max.bytes": SESSIONS,
    "kohort.group.members.max.bytes": MEMBERS,
    "kohort.stalled.ms": 1_000,
    "group.initial.rebalance.delay.ms": 0,
}


def memory_of(pid: int, what: str) -> int:
    """A line of ``/proc/PID/status``: VmRSS is what a process has now, VmHWM the most it ever had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{what}:"))


def stuff(stream: Raw, content: memoryview) -> None:
    """Send until the broker takes no more for a while, or closes."""
    stream.socket.settimeout(0.3)
    sent = 0
    with suppress(TimeoutError, ConnectionError):
        while sent < len(content):
            sent += stream.socket.send(content[sent : sent + MB])


# What strangers do


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


# What bystanders do


class Bystander:
    """Does its work again and again until it is told to stop; remembers what went wrong."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.rounds = 0
        self.wrong: BaseException | None = None
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stop.wait(0.02):
                self._work()
                self.rounds += 1
        except BaseException as error:
            self.wrong = error

    def end(self) -> int:
        self._stop.set()
        self._thread.join()
        if self.wrong is not None:
            raise self.wrong
        return self.rounds


@contextmanager
def bystanders(bootstrap: str) -> Iterator[None]:
    """A member that beats, a producer and a consumer; all of them must be served all the time."""
    with ExitStack() as stack:
        member, producer, consumer = (stack.enter_context(Raw(bootstrap)) for _ in range(3))
        create(producer, "calm")
        identity = alone(member)
        read = 0

        def beat() -> None:
            assert member.send(heartbeat_request(*identity), 4).error_code == 0

        def produce() -> None:
            append(producer, "calm", batch("x" * 100_000))

        def consume() -> None:
            nonlocal read
            request = fetch_request({"calm": [part(offset=read)]}, wait=500)
            answer = consumer.send(request, 12).responses[0].partitions[0]
            assert answer.error_code == 0
            read += len(answer.records) // 100_000

        working = [Bystander(work) for work in (beat, produce, consume)]
        try:
            yield
        finally:
            beats, produced, _ = [each.end() for each in working]
        assert beats > 10
        assert produced > 10
        while read < produced:
            consume()


@pytest.mark.slow
def test_memory_stays_within_its_bounds_and_bystanders_are_served(tmp_path: Path) -> None:
    with Node(tmp_path, CONFIGS) as node, ExitStack() as stack:
        with Raw(node.bootstrap) as raw:
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
        before = memory_of(node.pid, "VmRSS")
        with bystanders(node.bootstrap):
            threads = [threading.Thread(target=do, args=(node.bootstrap, stack)) for do in STRANGERS]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        grown = memory_of(node.pid, "VmHWM") - before
        assert grown < REQUESTS + SESSIONS + MEMBERS + OTHERWISE, f"{grown / MB:.0f} MB"
        stack.close()
        with Raw(node.bootstrap) as late:
            assert append(late, "calm", batch("x" * MB)) > 0
        assert "queued.max.request.bytes" in node.said()
