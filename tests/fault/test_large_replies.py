"""Small requests with large replies: a few are worked on at a time, within the budget of all requests."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from tests.broker.asking import batch, produce_request
from tests.broker.grouping import commit_request
from tests.fault.arena import GUARDED, Arena, Peer

from kohort.broker.context import Context, Result
from kohort.broker.heavy_work import LARGE_AT_A_TIME, HeavyTurn
from kohort.broker.reply_prices import LARGE_REPLY, list_groups
from kohort.codec.compiled import encode
from kohort.codec.schema import Message
from kohort.records.batch import BatchFields
from kohort.wire.apis import ApiKey
from kohort.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.create_acls import AclCreation, CreateAclsRequest
from kohort.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.wire.messages.describe_acls import DescribeAclsRequest
from kohort.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kohort.wire.messages.describe_groups import DescribeGroupsRequest
from kohort.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from kohort.wire.messages.describe_producers import DescribeProducersRequest
from kohort.wire.messages.describe_producers import TopicRequest as ProducersOfTopic
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.wire.messages.list_groups import ListGroupsRequest
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)

pytestmark = pytest.mark.slow

TOPICS, PARTITIONS, GROUPS, ACLS, PRODUCERS = 15, 200, 3_000, 2_000, 1_000
EVERYTHING = {
    "metadata": (MetadataRequest(topics=None), 13),
    "metadata v0": (MetadataRequest(topics=[]), 0),
    "list_groups": (ListGroupsRequest(), 5),
    "describe_groups": (DescribeGroupsRequest(groups=["loud"]), 6),
    "consumer_group_describe": (ConsumerGroupDescribeRequest(group_ids=["wide"]), 1),
    "offset_fetch": (OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="far", topics=None)]), 9),
    "offset_fetch v5": (OffsetFetchRequest(group_id="far", topics=None), 5),
    "describe_configs": (
        DescribeConfigsRequest(
            resources=[DescribeConfigsResource(resource_type=2, resource_name=f"t{n}") for n in range(TOPICS)]
            + [DescribeConfigsResource(resource_type=32, resource_name=f"g{n}") for n in range(GROUPS // 4)],
            include_synonyms=True,
            include_documentation=True,
        ),
        4,
    ),
    "describe_log_dirs": (DescribeLogDirsRequest(topics=None), 4),
    "describe_producers": (
        DescribeProducersRequest(
            topics=[ProducersOfTopic(name="written", partition_indexes=list(range(PARTITIONS)))]
        ),
        0,
    ),
    "describe_acls": (
        DescribeAclsRequest(
            resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1,
            principal_filter=None, host_filter=None, operation=1, permission_type=1,
        ),
        3,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def arena() -> Iterator[Arena]:
    with Arena(**GUARDED) as arena:
        arena.run(partial(fill, arena))
        yield arena


async def fill(arena: Arena) -> None:
    """Many topics, groups, offsets, producers, members and rights."""
    topics = [
        CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=1)
        for name in ("written", *(f"t{number}" for number in range(TOPICS)))
    ]
    made = await arena.ask(CreateTopicsRequest(topics=topics), 7)
    assert {each.error_code for each in made.topics} == {0}
    for number in range(GROUPS):
        await arena.ask(commit_request((0, 1), group=f"{'g' * 100}{number}"), 8)
    for number in range(TOPICS):
        rows = ((partition, 1) for partition in range(PARTITIONS))
        await arena.ask(commit_request(*rows, topic=f"t{number}", group="far"), 8)
    for first in range(0, PRODUCERS, PARTITIONS):
        written = [
            batch("v", fields=BatchFields(producer_id=number, producer_epoch=0, base_sequence=0))
            for number in range(first, first + PARTITIONS)
        ]
        await arena.ask(produce_request("written", *written), 12)
    loud = JoinGroupRequestProtocol(name="range", metadata=bytes(2_000_000))
    joined = JoinGroupRequest(
        group_id="loud", session_timeout_ms=10_000, rebalance_timeout_ms=10_000,
        protocol_type="consumer", protocols=[loud],
    )  # fmt: skip
    assert (await arena.ask(joined, 3)).error_code == 0
    names = [f"t{number}" for number in range(TOPICS)]
    for number in range(8):
        beat = ConsumerGroupHeartbeatRequest(
            group_id="wide", member_id=f"m{number}", rebalance_timeout_ms=30_000,
            subscribed_topic_names=[*names, *("x" * 200 + str(n) for n in range(1_000))], topic_partitions=[],
        )  # fmt: skip
        assert (await arena.ask(beat, 1)).error_code == 0
    rights = [
        AclCreation(resource_type=2, resource_name=f"{'t' * 200}{number}", principal="User:u", host="*",
                    operation=3, permission_type=3)
        for number in range(ACLS)
    ]  # fmt: skip
    for first in range(0, ACLS, 1_000):
        made = await arena.ask(CreateAclsRequest(creations=rights[first : first + 1_000]), 3)
        assert {each.error_code for each in made.results} == {0}


async def ask(arena: Arena, request: Message, version: int) -> int:
    """How many turns of large requests a request takes."""
    work, taken = arena.server.broker.heavy_work, 0
    plain = work.turn

    async def counted() -> HeavyTurn:
        nonlocal taken
        taken += 1
        turn: HeavyTurn = await plain()
        return turn

    work.turn = counted
    try:
        reply = await arena.throw(arena.frames(request, version))
    finally:
        work.turn = plain
    assert reply is not None
    return taken


@pytest.mark.parametrize("name", EVERYTHING)
def test_a_large_reply_waits_for_its_turn(arena: Arena, name: str) -> None:
    request, version = EVERYTHING[name]
    assert len(encode(request, version)) < 64 * 1024
    assert arena.run(partial(ask, arena, request, version)) == 1
    assert arena.server.broker.budget.used == 0


def fetch_all(wait_ms: int) -> FetchRequest:
    topics = [
        FetchTopic(topic=f"t{n}", partitions=[FetchPartition(partition=m) for m in range(PARTITIONS)])
        for n in range(TOPICS)
    ]
    return FetchRequest(session_id=0, session_epoch=-1, max_wait_ms=wait_ms, min_bytes=1, topics=topics)


def test_a_fetch_session_with_many_partitions_waits_for_its_turn(arena: Arena) -> None:
    async def ask_again() -> int:
        topic = FetchTopic(topic="t1", partitions=[FetchPartition(partition=0)])
        request = fetch_all(0)
        request.session_epoch = 0
        opened = await arena.ask(request, 12)
        assert opened.session_id
        return await ask(
            arena, FetchRequest(session_id=opened.session_id, session_epoch=1, topics=[topic]), 12
        )

    assert arena.run(ask_again) == 1


def test_only_so_many_partitions_are_waited_on_by_fetches_with_very_many(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kohort.broker.fetch.MOST_WAITING", 2 * TOPICS * PARTITIONS)
    waiters = arena.server.broker.fetch_waiters

    async def ask_four() -> None:
        frame = arena.frames(fetch_all(600_000), 12)
        waiting = [asyncio.ensure_future(arena.throw(frame)) for _ in range(4)]
        done, others = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        while len(done) < 2:
            more, others = await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
            done |= more
        assert len(waiters) == 2
        await arena.ask(produce_request("t0", batch("a")), 12)  # wakes both
        for each in waiting:
            reply = await each
            assert reply is not None
            sizes = [len(topic.partitions) for topic in arena.read(ApiKey.FETCH, 12, reply).responses]  # type: ignore[attr-defined]
            assert sizes == [PARTITIONS] * TOPICS
        assert len(waiters) == 0
        assert waiters.has_room_for(2 * TOPICS * PARTITIONS)

    arena.run(ask_four)


def test_small_replies_need_no_turn(arena: Arena) -> None:
    for request, version in ((DescribeGroupsRequest(groups=["g1"]), 6), (MetadataRequest(topics=[]), 13)):
        assert arena.run(partial(ask, arena, request, version)) == 0


def test_many_large_replies_at_once_are_made_a_few_at_a_time(arena: Arena) -> None:
    most = 0

    async def ask_all() -> list[bytes | None]:
        nonlocal most
        request, version = EVERYTHING["list_groups"]
        frame = arena.frames(request, version)
        asking = [asyncio.ensure_future(arena.throw(frame)) for _ in range(20)]
        while not all(each.done() for each in asking):
            await asyncio.sleep(0)
            most = max(most, arena.server.broker.budget.used)
        return [each.result() for each in asking]

    replies: list[Any] = arena.run(ask_all)
    assert {len(reply) for reply in replies} == {len(replies[0])}
    price = list_groups(arena.server.broker, *EVERYTHING["list_groups"])
    assert LARGE_REPLY < price < most <= LARGE_AT_A_TIME * price
    assert arena.server.broker.budget.used == 0


def test_a_large_reply_is_not_made_for_a_client_that_is_gone(arena: Arena) -> None:
    broker, dispatch = arena.server.broker, arena.server.dispatch
    request, version = EVERYTHING["list_groups"]
    frame = arena.frames(request, version)
    made: list[Context] = []

    def watch(context: Context, _request: Message, proceed: Callable[[], Result]) -> Result:
        made.append(context)
        return proceed()

    async def hang_up() -> None:
        limit = broker.budget.limit
        taken = [await broker.budget.take_room(limit // part) for part in (2, 4)]  # all there is for replies
        peers = [Peer(arena.server) for _ in range(3 * LARGE_AT_A_TIME)]  # some have no turn yet
        for peer in peers:
            peer.send(frame)
        for _ in range(10):
            await asyncio.sleep(0)
        for peer in peers:
            peer.hang_up()
        stays = asyncio.ensure_future(arena.throw(frame))
        await asyncio.sleep(0)
        for room in taken:
            broker.budget.give_room_back(room)
        assert await stays is not None

    dispatch.interceptor = watch
    try:
        arena.run(hang_up)
    finally:
        dispatch.interceptor = None
    assert len(made) == 1
    assert broker.budget.used == 0
