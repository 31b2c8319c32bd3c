"""ListOffsets (2): the offset of a moment: a timestamp, or one of the special values.

v1: one offset per partition; v2: isolation level; v4: leader epochs; v6: flexible; v7: -3 (max timestamp);
v8: -4 (earliest local); v9: -5 (latest tiered); v10: timeout; v11: -6 (earliest pending upload).
"""

from collections import Counter
from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.broker.leadership import led_log
from kohort.log.log import Log
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
    from kohort.broker.broker import Broker

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

_FIRST_VERSION = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}


def handle(broker: "Broker", request: ListOffsetsRequest, context: Context) -> ListOffsetsResponse:
    asked = Counter(
        (topic.name, part.partition_index) for topic in request.topics for part in topic.partitions
    )
    topics = [
        ListOffsetsTopicResponse(
            name=topic.name,
            partitions=[
                _refused(part, ErrorCode.INVALID_REQUEST)
                if asked[topic.name, part.partition_index] > 1
                else _find(broker, topic.name, part, request.isolation_level, context.version)
                for part in {part.partition_index: part for part in topic.partitions}.values()
            ],
        )
        for topic in request.topics
        if topic.partitions
    ]
    return ListOffsetsResponse(topics=topics)


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
    broker: "Broker", topic: str, part: ListOffsetsPartition, isolation: int, version: int
) -> ListOffsetsPartitionResponse:
    if part.timestamp < 0 and version < _FIRST_VERSION.get(part.timestamp, 2**15):
        return _refused(part, ErrorCode.UNSUPPORTED_VERSION)
    try:
        log = led_log(broker, topic, part.partition_index, part.current_leader_epoch)
        offset, timestamp, epoch = _at(log, part.timestamp, isolation)
    except RefusedError as error:
        return _refused(part, error.code)
    return ListOffsetsPartitionResponse(
        partition_index=part.partition_index, timestamp=timestamp, offset=offset, leader_epoch=epoch
    )


def _at(log: Log, timestamp: int, isolation: int) -> tuple[int, int, int]:
    """Offset, timestamp and epoch; -1 in each for "there is none"."""
    limit: Offset = log.last_stable_offset if isolation else log.high_watermark
    if timestamp == LATEST:
        return limit, -1, log.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return log.start_offset, -1, log.epoch_at(log.start_offset)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return -1, -1, -1  # there is no tiered storage
    found = log.max_timestamp(limit) if timestamp == MAX_TIMESTAMP else log.find_by_time(timestamp, limit)
    return (found.offset, found.timestamp, found.leader_epoch) if found else (-1, -1, -1)
