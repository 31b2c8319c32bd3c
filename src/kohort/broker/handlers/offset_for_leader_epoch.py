"""OffsetForLeaderEpoch (23): where an epoch ended, so that a consumer can see if its position was truncated.

v2: current leader epoch in the request; v3: replica id; v4: flexible.
"""

from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.broker.leadership import led_log
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import LeaderEpoch
from kohort.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from kohort.broker.broker import Broker


def handle(
    broker: "Broker", request: OffsetForLeaderEpochRequest, _context: Context
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[_end(broker, topic.topic, part) for part in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def refuse(request: OffsetForLeaderEpochRequest, code: ErrorCode) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    EpochEndOffset(partition=part.partition, error_code=code) for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _end(broker: "Broker", topic: str, part: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        log = led_log(broker, topic, part.partition, part.current_leader_epoch)
    except RefusedError as error:
        return EpochEndOffset(partition=part.partition, error_code=error.code)
    end = log.end_offset_for_epoch(LeaderEpoch(part.leader_epoch))
    return EpochEndOffset(partition=part.partition, leader_epoch=end.leader_epoch, end_offset=end.end_offset)
