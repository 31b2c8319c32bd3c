"""OffsetFetch (9): how far groups have read. Decided in ``kohort.groups.offsets.fetch``.

v2: null for all topics, an error for the group; v3: throttle time; v5: leader epochs; v6: flexible;
v7: require stable; v8: several groups; v9: member id and epoch; v10: topic ids.
"""

from collections.abc import Awaitable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kohort.broker.context import Context
from kohort.broker.heavy_work import WorkSlice
from kohort.groups.commands import FetchTopic
from kohort.groups.replies import FetchedOffset, FetchReply
from kohort.groups.translation.offsets import (
    FIRST_VERSION_WITH_IDS,
    fetch_command,
    fetched_partition,
    nothing_fetched,
    nothing_fetched_of_only_group,
    of_only_group,
    only_group,
)
from kohort.model.errors import ErrorCode
from kohort.model.ids import Partition, TopicId, TopicName
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

_FIRST_VERSION_WITH_GROUP_ERROR = 2
_FIRST_VERSION_WITH_GROUPS = 8
_GROUP_PRICE, _ROW_PRICE = 20, 3
# From v2 on Kafka puts them into the error of the group alone. aiokafka 0.14 (v3) reads those of partitions
# only: it would take "being loaded" for "nothing is committed", and begin at the start of the log.
_REPEATED_FOR_PARTITIONS = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}

SingleRows: TypeAlias = tuple[str, Iterable[OffsetFetchResponsePartition]]
"""A topic with its partitions, before v8."""


class AskedTopics(NamedTuple):
    """The topics of one group that can be asked for, and those whose id is not known."""

    topics: tuple[FetchTopic, ...] | None
    unknown: list[OffsetFetchResponseTopics]


async def handle(broker: "BrokerState", request: OffsetFetchRequest, context: Context) -> OffsetFetchResponse:
    slice_ = WorkSlice()
    if context.version < _FIRST_VERSION_WITH_GROUPS:
        one = await _fetch(
            broker, only_group(request), context.version, slice_, stable=request.require_stable
        )
        return await _as_single(request, one, context.version, slice_)
    response = OffsetFetchResponse()
    everything: set[str] = set()  # groups that were asked for all they have: once is enough, it may be much
    for group in request.groups:
        if group.topics is None and group.group_id in everything:
            continue
        if group.topics is None:
            everything.add(group.group_id)
        response.groups.append(
            await _fetch(broker, group, context.version, slice_, stable=request.require_stable)
        )
        await slice_.spend(_GROUP_PRICE)
    return response


def refuse(request: OffsetFetchRequest, code: ErrorCode) -> OffsetFetchResponse:
    topics = _refused(request, code) if code in _REPEATED_FOR_PARTITIONS else ()
    return OffsetFetchResponse(
        error_code=code,
        topics=[OffsetFetchResponseTopic(name=name, partitions=list(rows)) for name, rows in topics],
        groups=[
            OffsetFetchResponseGroup(group_id=group.group_id, error_code=code) for group in request.groups
        ],
    )


async def _fetch(
    broker: "BrokerState", group: OffsetFetchRequestGroup, version: int, slice_: WorkSlice, *, stable: bool
) -> OffsetFetchResponseGroup:
    """The core answers in one step, so that a commit is seen as a whole or not at all."""
    asked = _resolve(broker, group, version)
    answer = broker.coordinator.ask(
        group.group_id, partial(fetch_command, group, asked.topics, require_stable=stable)
    )
    reply = await answer if isinstance(answer, Awaitable) else answer
    assert isinstance(reply, FetchReply)
    if reply.error:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=reply.error)
    topics = await _by_topic(broker, reply.rows, version, slice_)
    if asked.topics is not None:
        named = {topic.name for topic in topics}
        topics += [
            OffsetFetchResponseTopics(name=topic.topic, topic_id=topic.topic_id)
            for topic in asked.topics
            if not topic.partitions and topic.topic not in named
        ]
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics + asked.unknown)


def _resolve(broker: "BrokerState", group: OffsetFetchRequestGroup, version: int) -> AskedTopics:
    """Topics by name; from v10 on by id, and an unknown id is answered without asking the group."""
    if group.topics is None:
        return AskedTopics(None, [])
    known: list[FetchTopic] = []
    unknown: list[OffsetFetchResponseTopics] = []
    for wanted in group.topics:
        partitions = tuple(Partition(index) for index in wanted.partition_indexes)
        if version < FIRST_VERSION_WITH_IDS:
            known.append(FetchTopic(TopicName(wanted.name), partitions))
            continue
        topic = broker.topics.by_id(wanted.topic_id)
        if topic is not None:
            known.append(FetchTopic(topic.name, partitions, TopicId(wanted.topic_id)))
        else:
            entries = [nothing_fetched(index, ErrorCode.UNKNOWN_TOPIC_ID) for index in partitions]
            unknown.append(OffsetFetchResponseTopics(topic_id=wanted.topic_id, partitions=entries))
    return AskedTopics(tuple(known), unknown)


async def _by_topic(
    broker: "BrokerState", rows: Sequence[FetchedOffset], version: int, slice_: WorkSlice
) -> list[OffsetFetchResponseTopics]:
    topics: dict[TopicName, OffsetFetchResponseTopics] = {}
    for row in rows:
        await slice_.spend(_ROW_PRICE)
        entry = topics.get(row.topic)
        if entry is None:
            served = broker.topics.get(row.topic)
            if served is None and version >= FIRST_VERSION_WITH_IDS:
                continue  # a topic without an id cannot be named here
            entry = topics[row.topic] = OffsetFetchResponseTopics(name=row.topic)
            if served is not None:
                entry.topic_id = served.topic_id
        entry.partitions.append(fetched_partition(row))
    return list(topics.values())


async def _as_single(
    request: OffsetFetchRequest, group: OffsetFetchResponseGroup, version: int, slice_: WorkSlice
) -> OffsetFetchResponse:
    """The same for one group; v1 has no place for its error but every partition asked for."""
    code = ErrorCode(group.error_code)
    topics: Iterable[SingleRows]
    if code and (version < _FIRST_VERSION_WITH_GROUP_ERROR or code in _REPEATED_FOR_PARTITIONS):
        topics = _refused(request, code)
    else:
        topics = ((topic.name, map(of_only_group, topic.partitions)) for topic in group.topics)
    response = OffsetFetchResponse(error_code=code)
    for name, rows in topics:
        entry = OffsetFetchResponseTopic(name=name)
        response.topics.append(entry)
        for row in rows:
            await slice_.spend(_ROW_PRICE)
            entry.partitions.append(row)
    return response


def _refused(request: OffsetFetchRequest, code: ErrorCode) -> Iterator[SingleRows]:
    """The error for each partition asked for; a row is made when it is asked for."""
    for topic in request.topics or ():
        yield topic.name, (nothing_fetched_of_only_group(index, code) for index in topic.partition_indexes)
