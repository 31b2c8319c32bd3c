"""How long the largest legal request of each API holds the event loop: processor time of its thread.

``python -m benchmarks.holds`` prints the table alone. The broker has the state of a busy one: a request as
small as ListGroups is as large as what it asks for.
"""

import asyncio
import gc
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tests.broker.asking import produce_request
from tests.broker.grouping import commit_request
from tests.fault.arena import ABOUT_RIGHTS, GUARDED, Arena, ClosedError
from tests.fault.heavy import empty_members
from tests.fault.largest import largest, newest_and_oldest

from benchmarks.rounds import Table
from kohort.cli.serve.run import COLLECT_AFTER
from kohort.codec.compiled import encode
from kohort.codec.schema import Message
from kohort.security.acls import AclResourceType, Operation, PatternType, Permission
from kohort.wire.apis import ApiKey
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.create_acls import AclCreation, CreateAclsRequest
from kohort.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kohort.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from kohort.wire.messages.list_groups import ListGroupsRequest
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

GROUPS = 5_000
TOPICS = 2_000
RULES = 200
_TOPIC = 2
MEMBERS = 1_000
WIDE = [f"crowd-{number}" for number in range(5)]  # of 10,000 partitions each
_MAY_WAIT = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)


class Stopwatch:
    """The longest that one callback of the loop has taken."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._run: Any = asyncio.Handle._run

    def __enter__(self) -> "Stopwatch":
        run = self._run

        def timed(handle: asyncio.Handle) -> None:
            before = time.thread_time()
            run(handle)
            self.longest = max(self.longest, time.thread_time() - before)

        asyncio.Handle._run = timed  # type: ignore[assignment,method-assign] # measures every callback
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.Handle._run = self._run  # type: ignore[method-assign] # as it was


def requests(arena: Arena) -> Iterator[tuple[ApiKey, int, Message]]:
    """What is sent: the largest requests, and small ones that ask for everything there is."""
    for key, version in newest_and_oldest():
        for _, request in largest(key, version, arena.topic_id):
            yield key, version, request
    members = empty_members()  # a megabyte of gzip, with nothing in it but one record
    yield ApiKey.PRODUCE, 12, produce_request("t", members, members)
    everything = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="large", topics=None)])
    topics = [
        DescribeConfigsResource(resource_type=_TOPIC, resource_name=f"topic-{number}")
        for number in range(TOPICS)
    ]
    yield ApiKey.LIST_GROUPS, 5, ListGroupsRequest()
    yield ApiKey.METADATA, 13, MetadataRequest(topics=None)
    yield ApiKey.DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(topics=None)
    yield ApiKey.OFFSET_FETCH, 9, everything
    yield ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources=topics, include_synonyms=True)
    yield ApiKey.OFFSET_COMMIT, 8, _commit("large", 15_000)


def _commit(group: str, rows: int) -> Message:
    request = commit_request(*[(0, offset) for offset in range(rows)])
    request.group_id, request.generation_id_or_member_epoch, request.member_id = group, -1, ""
    return request


async def _fill(arena: Arena) -> None:
    """As many groups and topics as a busy broker has, and a group that has read a wide topic."""
    wanted = [
        CreatableTopic(name=f"topic-{number}", num_partitions=1, replication_factor=1)
        for number in range(TOPICS)
    ]
    await arena.ask(CreateTopicsRequest(topics=wanted), 7)
    await arena.ask(
        CreateTopicsRequest(
            topics=[CreatableTopic(name="wide", num_partitions=10_000, replication_factor=1)]
        ),
        7,
    )
    for number in range(GROUPS):
        await arena.ask(_commit(f"group-{number}", 1), 8)
    wide: Any = commit_request(*[(partition, 1) for partition in range(10_000)])
    wide.group_id, wide.generation_id_or_member_epoch, wide.member_id = "large", -1, ""
    wide.topics[0].name = "wide"
    await arena.ask(wide, 8)


async def _make_rules(arena: Arena) -> None:
    rules = [
        AclCreation(
            resource_type=AclResourceType.TOPIC,
            resource_name=f"topic-{number}",
            resource_pattern_type=PatternType.LITERAL,
            principal="User:alice",
            host="*",
            operation=Operation.READ,
            permission_type=Permission.ALLOW,
        )
        for number in range(RULES)
    ]
    await arena.ask(CreateAclsRequest(creations=rules), 3)


def table(rounds: int) -> Table:
    """The longest hold of each API, the worst first."""
    found = Table(
        "Longest hold of the loop by the largest legal requests of an API",
        "ms of processor time",
        f"With {GROUPS:,} groups and {TOPICS:,} topics; ACLs with {RULES} rules. 50 ms is the aim. "
        "APIs below 5 ms are left out.",
        higher_is_better=False,
        compared=False,
    )
    with Arena() as arena:
        arena.run(partial(_fill, arena))
        gc.freeze()
        gc.set_threshold(*COLLECT_AFTER)
        holds = _measured(arena, rounds, lambda key: key not in ABOUT_RIGHTS)
        gc.unfreeze()
    with Arena(**GUARDED) as arena:
        arena.run(partial(_make_rules, arena))
        gc.freeze()
        holds |= _measured(arena, rounds, lambda key: key in ABOUT_RIGHTS)
    for key, samples in sorted(holds.items(), key=lambda entry: -max(entry[1])):
        if max(samples) >= 5:
            found.samples[key.name.title().replace("_", "")] = samples
    return found


def _measured(arena: Arena, rounds: int, is_wanted: Callable[[ApiKey], bool]) -> dict[ApiKey, list[float]]:
    holds: dict[ApiKey, list[float]] = {}
    for _ in range(rounds):
        longest: dict[ApiKey, float] = {}
        for key, version, request in requests(arena):
            if not is_wanted(key):
                continue
            frame = arena.frame_of(key, version, encode(request, version))
            with Stopwatch() as watch:
                arena.run(partial(_throw, arena, frame, key))
            longest[key] = max(longest.get(key, 0.0), 1_000 * watch.longest)
        for key, value in longest.items():
            holds.setdefault(key, []).append(value)
    return holds


async def _throw(arena: Arena, frame: bytes, key: ApiKey) -> None:
    try:
        await arena.throw(frame, may_wait=key in _MAY_WAIT)
    except ClosedError:
        raise AssertionError(f"{key.name}: the largest legal request is not legal") from None


def crowd() -> Table:
    """The longest hold while a group of 1,000 members gets 50,000 partitions, all at once."""
    found = Table(
        f"Longest hold of the loop by a consumer group of {MEMBERS:,} members and 50,000 partitions",
        "ms of processor time",
        "All members join; then their topics are made; then each sends heartbeats until all is assigned.",
        higher_is_better=False,
        compared=False,
    )
    members = [_CrowdMember(f"m-{number}") for number in range(MEMBERS)]
    with Arena() as arena:
        gc.freeze()
        gc.set_threshold(*COLLECT_AFTER)
        for what, step in {
            "a member joins": partial(_beat_all, arena, members),
            "a topic of 10,000 partitions is made": partial(_make_wide, arena),
            "a member gets its share": partial(_share, arena, members),
        }.items():
            with Stopwatch() as watch:
                arena.run(step)
            found.add(what, 1_000 * watch.longest)
    return found


class _CrowdMember:
    """Owns what it was assigned as soon as it hears of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.epoch = 0
        self.partitions = 0

    async def beat(self, arena: Arena) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id="crowd", member_id=self.name, member_epoch=self.epoch, topic_partitions=None
        )
        if self.epoch == 0:
            request.rebalance_timeout_ms = 60_000
            request.subscribed_topic_names, request.topic_partitions = WIDE, []
        reply: Any = await arena.ask(request, 1)
        assert reply.error_code == 0, reply
        self.epoch = reply.member_epoch
        if reply.assignment is not None:
            self.partitions = sum(len(topic.partitions) for topic in reply.assignment.topic_partitions)


async def _beat_all(arena: Arena, members: list[_CrowdMember]) -> None:
    for member in members:
        await member.beat(arena)


async def _make_wide(arena: Arena) -> None:
    for name in WIDE:
        topic = CreatableTopic(name=name, num_partitions=10_000, replication_factor=1)
        await arena.ask(CreateTopicsRequest(topics=[topic]), 7)


async def _share(arena: Arena, members: list[_CrowdMember]) -> None:
    for _ in range(20):
        await _beat_all(arena, members)
        if sum(member.partitions for member in members) == 10_000 * len(WIDE):
            return
    raise AssertionError("the partitions are not shared after 20 heartbeats of each member")


if __name__ == "__main__":
    print(table(3).as_markdown())
    print(crowd().as_markdown())
