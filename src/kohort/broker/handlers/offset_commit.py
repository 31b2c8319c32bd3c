"""OffsetCommit (8): remember how far a group has read. Decided in ``kohort.groups.offsets.commit``.

v2 to v4: retention time; v3: throttle time; v6: leader epochs; v7: static members; v8: flexible;
v9: GROUP_ID_NOT_FOUND; v10: topic ids.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from kohort.broker.commit_recognition import MOST_ROWS, FoundTopic, SeenCommit, find_places
from kohort.broker.context import Context, Response, Result
from kohort.broker.heavy_work import Steps, WorkSlice
from kohort.broker.partition_runtime import then
from kohort.broker.recognition import Grounds
from kohort.broker.topics import ServedTopic
from kohort.groups.commands import CommitOffsets, CommitRow
from kohort.groups.replies import CommitReply
from kohort.groups.translation.offsets import (
    FIRST_VERSION_WITH_IDS,
    commit_command,
    commit_response,
    commit_row,
)
from kohort.model.errors import ErrorCode
from kohort.model.ids import ReplyTo
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

_ROW_PRICE = 2
_MOST_ROWS = 15_000  # what fits a batch of 1 MB, with names of ten letters


class SortedOut(NamedTuple):
    """A request's partitions: those that were refused, and those the coordinator is asked about."""

    refused: OffsetCommitResponse
    rows: list[CommitRow]


def handle(broker: "BrokerState", request: OffsetCommitRequest, context: Context) -> Result:
    """What does not exist is refused first; if nothing is left, the group is not even looked at.

    What is left is one command, however much it is: a commit is stored as a whole or not at all.
    """
    sorted_out = broker.heavy_work.run(_sort_out(broker, request, context.version))
    if isinstance(sorted_out, Awaitable):
        return _commit_later(broker, request, context, sorted_out)
    return _commit(broker, request, context, sorted_out)


async def _commit_later(
    broker: "BrokerState", request: OffsetCommitRequest, context: Context, sorting: Awaitable[SortedOut]
) -> Response:
    result = _commit(broker, request, context, await sorting)
    return await result if isinstance(result, Awaitable) else result


def _commit(
    broker: "BrokerState", request: OffsetCommitRequest, context: Context, found: SortedOut
) -> Result:
    refused, rows = found
    if not rows:
        return refused
    if len(rows) > _MOST_ROWS:
        # Kafka's code for a commit that does not fit one batch.
        results = [(row, ErrorCode.UNKNOWN_SERVER_ERROR) for row in rows]
        return commit_response(refused, results, context.version)

    def respond(reply: CommitReply) -> OffsetCommitResponse:
        results = [(row, result.error) for row, result in zip(rows, reply.rows, strict=True)]
        return commit_response(refused, results, context.version)

    def commit(reply_to: ReplyTo) -> CommitOffsets:
        return commit_command(request, context.version, rows, reply_to)

    return then(broker.coordinator.ask(request.group_id, commit), respond)


def remember(
    broker: "BrokerState",
    read: tuple[bytes, int, OffsetCommitRequest],
    context: Context,
    grounds: Grounds,
    write: Callable[[OffsetCommitResponse], bytes],
) -> SeenCommit | None:
    """What is kept of a frame (whose body begins at a position) with the request in it, if anything is."""
    frame, position, request = read
    version = context.version
    found = broker.heavy_work.run(_sort_out(broker, request, version))
    if isinstance(found, Awaitable) or found.refused.topics or not 0 < len(found.rows) <= MOST_ROWS:
        return None
    places = find_places(frame, position, request, version)
    if places is None:
        return None
    topics: list[FoundTopic] = []
    for asked in request.topics:
        topic, _ = _find(broker, asked, version)
        assert topic is not None, "its partitions were found"
        by_id = version >= FIRST_VERSION_WITH_IDS
        topics.append(
            (broker.topics.by_id, asked.topic_id, topic) if by_id else (broker.topics.get, asked.name, topic)
        )
    rows = found.rows

    def respond(reply: CommitReply) -> bytes:
        results = [(row, result.error) for row, result in zip(rows, reply.rows, strict=True)]
        return write(commit_response(OffsetCommitResponse(), results, version))

    commit = commit_command(request, version, rows, ReplyTo(0))
    return SeenCommit(places, commit, topics, (broker.coordinator, grounds), respond)


def refuse(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code)
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _sort_out(broker: "BrokerState", request: OffsetCommitRequest, version: int) -> Steps[None, SortedOut]:
    """Rows for the coordinator, and an entry for what it will not see."""
    rows: list[CommitRow] = []
    refused = OffsetCommitResponse()
    slice_ = WorkSlice()
    for asked in request.topics:
        topic, code = _find(broker, asked, version)
        count = 0 if topic is None else topic.partitions
        entry = OffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id)
        for part in asked.partitions:
            if slice_.is_full(_ROW_PRICE):
                yield None
            if topic is None or not 0 <= part.partition_index < count:
                entry.partitions.append(
                    OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code)
                )
                continue
            rows.append(commit_row(topic.name, asked, part))
        if entry.partitions:
            refused.topics.append(entry)
    return SortedOut(refused, rows)


def _find(
    broker: "BrokerState", asked: OffsetCommitRequestTopic, version: int
) -> tuple[ServedTopic | None, ErrorCode]:
    if version >= FIRST_VERSION_WITH_IDS:
        topic = broker.topics.by_id(asked.topic_id)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if topic is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return topic, unknown
    return broker.topics.get(asked.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
