"""Requests and replies share one budget: who does not fit is not read, who does not come on is closed."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack

import pytest
from tests.broker.asking import (
    append,
    batch,
    create,
    eventually,
    fetch_request,
    metadata,
    metadata_request,
    part,
    produce_request,
    waiting_fetches,
)
from tests.broker.grouping import GROUP, alone, find, heartbeat_request, join_request, sync_request
from tests.broker.raw import Raw

from kohort.broker.context import Response, Result
from kohort.broker.heavy_work import LARGE_AT_A_TIME
from kohort.groups.classic.state import Group
from kohort.model.ids import GroupId
from kohort.testing.broker import Broker
from kohort.testing.intercept import Proceed, Seen
from kohort.wire.messages.metadata import MetadataRequest

MB = 1_000_000
BUDGET = 12 * MB
LARGE = "x" * 5 * MB


@pytest.fixture
def start(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[..., Broker]]:
    """Starts a broker with a small budget and a topic that takes large batches."""
    caplog.set_level(logging.WARNING)
    with ExitStack() as stack:

        def run(**configs: int) -> Broker:
            settings = {
                "queued.max.request.bytes": BUDGET,
                "kohort.stalled.ms": 600_000,
                "group.initial.rebalance.delay.ms": 0,
                "message.max.bytes": 100 * MB,
                **{name.replace("_", "."): value for name, value in configs.items()},
            }
            broker = stack.enter_context(Broker(configs=settings))
            with Raw(broker.bootstrap) as raw:
                create(raw, "t")
            return broker

        yield run


def waiting(broker: Broker) -> int:
    async def count() -> int:
        return broker.server.broker.budget.waiting

    return broker.run(count())


def used(broker: Broker) -> int:
    async def count() -> int:
        return broker.server.broker.budget.used

    return broker.run(count())


def half_a_request(stream: Raw) -> bytes:
    """Send the first half of a large Produce; the rest is returned."""
    frame = stream.frame(produce_request("t", batch(LARGE)), 12)
    middle = len(frame) // 2
    stream.send_bytes(frame[:middle])
    return frame[middle:]


def base_offset(stream: Raw) -> int:
    result = stream.take().responses[0].partition_responses[0]
    assert result.error_code == 0, result
    return int(result.base_offset)


def test_a_request_that_does_not_fit_is_read_when_others_are_done(start: Callable[..., Broker]) -> None:
    broker = start()
    with ExitStack() as stack:
        first, second, third, member = (stack.enter_context(Raw(broker.bootstrap)) for _ in range(4))
        identity = alone(member)
        rests = [half_a_request(stream) for stream in (first, second)]
        eventually(lambda: waiting(broker) == 1)
        third_rest = half_a_request(third)
        eventually(lambda: waiting(broker) == 2)
        assert used(broker) < BUDGET
        assert member.send(heartbeat_request(*identity), 4).error_code == 0
        first.send_bytes(rests[0])
        assert base_offset(first) == 0
        second.send_bytes(rests[1])
        assert base_offset(second) == 1
        third.send_bytes(third_rest)
        assert base_offset(third) == 2
        assert used(broker) == 0


def test_half_a_request_is_given_up_when_others_wait_for_its_room(
    start: Callable[..., Broker], caplog: pytest.LogCaptureFixture
) -> None:
    broker = start(kohort_stalled_ms=200)
    with Raw(broker.bootstrap) as stalled, Raw(broker.bootstrap) as other:
        half_a_request(stalled)
        eventually(lambda: used(broker) > 5 * MB)
        other.post(produce_request("t", batch(LARGE)), 12)
        assert base_offset(other) == 0
        assert stalled.is_closed()
        lines = [record.getMessage() for record in caplog.records if "queued.max" in record.getMessage()]
        assert lines[0].startswith("requests and replies hold 5,000,")
        assert lines[1].startswith(f"closed {stalled.address}: it held 5,000,")
        assert len(lines) == 2


def test_while_nobody_needs_the_room_half_a_request_may_stay(start: Callable[..., Broker]) -> None:
    broker = start(kohort_stalled_ms=100)
    with Raw(broker.bootstrap) as slow, Raw(broker.bootstrap) as other:
        rest = half_a_request(slow)
        eventually(lambda: used(broker) > 5 * MB)
        for _ in range(20):
            assert metadata(other, "t").topics[0].error_code == 0
        slow.send_bytes(rest)
        assert base_offset(slow) == 0


def test_who_hangs_up_gives_back_what_it_held(start: Callable[..., Broker]) -> None:
    broker = start()
    with Raw(broker.bootstrap) as holder, Raw(broker.bootstrap) as other:
        half_a_request(holder)
        half_a_request(other)
        eventually(lambda: waiting(broker) == 1)
        holder.close()
        eventually(lambda: waiting(broker) == 0)
        other.close()
        eventually(lambda: used(broker) == 0)


def test_replies_that_are_not_read_make_other_replies_smaller_then_empty(
    start: Callable[..., Broker],
) -> None:
    broker = start()
    request = fetch_request({"t": [part(limit=50 * MB)]}, max_bytes=50 * MB)

    def records(stream: Raw) -> int:
        return len(stream.take().responses[0].partitions[0].records)

    with ExitStack() as stack:
        other = stack.enter_context(Raw(broker.bootstrap))
        for _ in range(30):
            append(other, "t", batch("x" * MB))
        other.post(request, 12)
        alone_gets = records(other)
        assert 2 * MB < alone_gets < BUDGET // 4
        readers = [stack.enter_context(Raw(broker.bootstrap, receive_buffer=4_096)) for _ in range(20)]
        for reader in readers:
            for _ in range(9):
                reader.post(request, 12)
        eventually(lambda: used(broker) > BUDGET * 3 // 4)
        assert used(broker) < BUDGET * 5 // 4
        other.post(request, 12)
        assert records(other) == 0
        for reader in readers:
            reader.close()
        eventually(lambda: used(broker) == 0)
        other.post(request, 12)
        assert records(other) == alone_gets


def test_replies_that_are_not_read_are_given_up_when_there_is_no_room_left(
    start: Callable[..., Broker], caplog: pytest.LogCaptureFixture
) -> None:
    broker = start(kohort_stalled_ms=200)
    request = fetch_request({"t": [part(limit=50 * MB)]}, max_bytes=50 * MB)
    with ExitStack() as stack:
        other = stack.enter_context(Raw(broker.bootstrap))
        for _ in range(30):
            append(other, "t", batch("x" * MB))
        for _ in range(20):
            reader = stack.enter_context(Raw(broker.bootstrap, receive_buffer=4_096))
            for _ in range(9):
                reader.post(request, 12)
        eventually(lambda: "moved less than" in caplog.text)
        eventually(lambda: used(broker) <= BUDGET // 2)
        assert metadata(other, "t").topics[0].error_code == 0


# Requests with many entries take many times their bytes while they are worked on


def many_names(count: int = 3_000) -> MetadataRequest:
    return metadata_request(*(f"topic-{number}" for number in range(count)))


def test_a_few_large_requests_are_worked_on_at_a_time_and_all_in_the_end(
    start: Callable[..., Broker],
) -> None:
    broker = start()
    begun = 0
    release = asyncio.Event()

    def hold(_seen: Seen, proceed: Proceed) -> Result:
        nonlocal begun
        begun += 1

        async def later() -> Response:
            await release.wait()
            result = proceed()
            return await result if isinstance(result, Awaitable) else result

        return later()

    async def let_go() -> None:
        release.set()

    broker.intercept(hold, api="Metadata", client="many")
    with ExitStack() as stack:
        crowd = [stack.enter_context(Raw(broker.bootstrap, "many")) for _ in range(LARGE_AT_A_TIME + 3)]
        for stream in crowd:
            stream.post(many_names(), 9)
        eventually(lambda: begun == LARGE_AT_A_TIME)
        other = stack.enter_context(Raw(broker.bootstrap))
        assert metadata(other, "t").topics[0].error_code == 0  # a small one is answered meanwhile
        assert begun == LARGE_AT_A_TIME
        broker.run(let_go())
        for stream in crowd:
            assert len(stream.take().topics) == 3_000
        assert begun == len(crowd)


def waiting_joins(broker: Broker) -> int:
    """How many members of the group wait in a join phase."""

    async def count() -> int:
        shards = [each.shard for each in broker.server.broker.coordinator._groups.partitions.values()]
        groups = (shard.group(GroupId(GROUP)) for shard in shards)
        return sum(each.awaiting_join for each in groups if isinstance(each, Group))

    return broker.run(count())


def test_large_requests_that_only_wait_hold_up_no_others(start: Callable[..., Broker]) -> None:
    broker = start()
    with ExitStack() as stack:
        waiting_for_records = fetch_request({"t": [part()] * 3_000}, wait=600_000)
        for _ in range(LARGE_AT_A_TIME + 1):
            stack.enter_context(Raw(broker.bootstrap)).post(waiting_for_records, 12)
        eventually(lambda: waiting_fetches(broker) == LARGE_AT_A_TIME + 1)
        member = stack.enter_context(Raw(broker.bootstrap))
        find(member)
        first = member.send(join_request(protocols=("range",)), 3)
        assert first.error_code == 0
        others = [stack.enter_context(Raw(broker.bootstrap)) for _ in range(LARGE_AT_A_TIME + 1)]
        for other in others:
            other.post(join_request(), 3)
        eventually(lambda: waiting_joins(broker) == len(others))  # or they would begin a second rebalance
        again = member.send(join_request(first.member_id), 3)
        joined = [other.take() for other in others]
        for other, reply in zip(others, joined, strict=True):  # followers wait for the leader
            nonsense = {str(number): b"" for number in range(3_000)}
            other.post(sync_request(reply.member_id, again.generation_id, nonsense), 3)
        last = stack.enter_context(Raw(broker.bootstrap))
        assert len(last.send(many_names(), 9).topics) == 3_000
        leader = sync_request(first.member_id, again.generation_id, {first.member_id: b"all"})
        assert member.send(leader, 3).error_code == 0
        assert [other.take().error_code for other in others] == [0] * len(others)
