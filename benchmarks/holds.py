"""How long the largest legal request of each API holds the event loop: processor time of its thread.

``python -m benchmarks.holds`` prints the table alone. The broker has the state of a busy one: a request as
small as ListGroups is as large as what it asks for.
"""

import asyncio
import gc
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from tests.broker.grouping import commit_request
from tests.fault.arena import Arena, ClosedError
from tests.fault.largest import largest, newest_and_oldest

from benchmarks.rounds import Table
from kohort.codec.compiled import encode
from kohort.codec.schema import Message
from kohort.wire.apis import ApiKey
from kohort.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kohort.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from kohort.wire.messages.list_groups import ListGroupsRequest
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

GROUPS = 5_000
TOPICS = 2_000
_AS_SERVED = (10_000, 20, 20)  # how often `kohort serve` collects garbage
_TOPIC = 2
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


def table(rounds: int) -> Table:
    """The longest hold of each API, the worst first."""
    found = Table(
        "Longest hold of the loop by the largest legal requests of an API",
        "ms of processor time",
        f"With {GROUPS:,} groups and {TOPICS:,} topics. 50 ms is the aim. APIs below 5 ms are left out.",
        higher_is_better=False,
        compared=False,
    )
    with Arena() as arena:
        arena.run(partial(_fill, arena))
        gc.freeze()
        gc.set_threshold(*_AS_SERVED)
        worst = sorted((_measured(arena, rounds)).items(), key=lambda entry: -max(entry[1]))
    for key, samples in worst:
        if max(samples) >= 5:
            found.samples[key.name.title().replace("_", "")] = samples
    return found


def _measured(arena: Arena, rounds: int) -> dict[ApiKey, list[float]]:
    holds: dict[ApiKey, list[float]] = {}
    for _ in range(rounds):
        longest: dict[ApiKey, float] = {}
        for key, version, request in requests(arena):
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


if __name__ == "__main__":
    print(table(3).as_markdown())
