"""ListOffsets (2): the offset of a moment: a timestamp, or one of the special values.

v1: one offset per partition; v2: isolation level; v4: leader epochs; v6: flexible; v7: -3 (max timestamp);
v8: -4 (earliest local); v9: -5 (latest tiered); v10: timeout; v11: -6 (earliest pending upload).
"""

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from kohort.broker.context import Context, Result
from kohort.broker.heavy_work import Steps, WorkSlice
from kohort.broker.leadership import led
from kohort.log.log import Log, TimedOffset
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import Offset
from kohort.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

T = TypeVar("T")
Answer: TypeAlias = Steps[TimedOffset | None, T]

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

_PRICE = 5  # of a partition whose offset is not searched

_FIRST_VERSION = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}


def handle(broker: "BrokerState", request: ListOffsetsRequest, context: Context) -> Result:
    return broker.heavy_work.run(_answer(broker, request, context.version))


def _answer(broker: "BrokerState", request: ListOffsetsRequest, version: int) -> Answer[ListOffsetsResponse]:
    asked = Counter(
        (topic.name, part.partition_index) for topic in request.topics for part in topic.partitions
    )
    response = ListOffsetsResponse()
    slice_ = WorkSlice()
    for topic in request.topics:
        if not topic.partitions:
            continue
        found = []
        for part in {part.partition_index: part for part in topic.partitions}.values():
            if slice_.is_full(_PRICE):
                yield None
            if asked[topic.name, part.partition_index] > 1:
                found.append(_refused(part, ErrorCode.INVALID_REQUEST))
            else:
                if (found or response.topics) and _is_searched(part.timestamp):
                    yield None  # each search may take ten milliseconds, and there may be thousands of them
                found.append((yield from _find(broker, topic.name, part, request.isolation_level, version)))
        response.topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=found))
    return response


def refuse(request: ListOffsetsRequest, code: ErrorCode) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name, partitions=[_refused(part, code) for part in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _refused(part: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=part.partition_index, error_code=code)


def _find(
    broker: "BrokerState", topic: str, part: ListOffsetsPartition, isolation: int, version: int
) -> Answer[ListOffsetsPartitionResponse]:
    if part.timestamp < 0 and version < _FIRST_VERSION.get(part.timestamp, 2**15):
        return _refused(part, ErrorCode.UNSUPPORTED_VERSION)
    try:
        log = led(broker, broker.topics.get(topic), part.partition_index, part.current_leader_epoch)
        offset, timestamp, epoch = yield from _at(log, part.timestamp, isolation)
    except RefusedError as error:
        is_gone = broker.topics.get(topic) is None  # perhaps during a search
        return _refused(part, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_gone else error.code)
    return ListOffsetsPartitionResponse(
        partition_index=part.partition_index, timestamp=timestamp, offset=offset, leader_epoch=epoch
    )


def _at(log: Log, timestamp: int, isolation: int) -> Answer[tuple[int, int, int]]:
    """Offset, timestamp and epoch; -1 in each for "there is none"."""
    limit: Offset = log.last_stable_offset if isolation else log.high_watermark
    if timestamp == LATEST:
        return limit, -1, log.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return log.start_offset, -1, log.epoch_at(log.start_offset)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return -1, -1, -1  # there is no tiered storage
    assert _is_searched(timestamp)
    search = log.max_timestamp(limit) if timestamp == MAX_TIMESTAMP else log.find_by_time(timestamp, limit)
    found = yield search
    return (found.offset, found.timestamp, found.leader_epoch) if found else (-1, -1, -1)


def _is_searched(timestamp: int) -> bool:
    """Whether records have to be looked at to find the offset."""
    return timestamp >= 0 or timestamp == MAX_TIMESTAMP
