"""OffsetForLeaderEpoch (23): where an epoch ended, so that a consumer can see if its position was truncated.

v2: current leader epoch in the request; v3: replica id; v4: flexible.
"""

from typing import TYPE_CHECKING

from kohort.broker.context import Context, Result
from kohort.broker.heavy_work import Steps, WorkSlice
from kohort.broker.leadership import led
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
    from kohort.broker.broker import BrokerState

_PRICE = 5


def handle(broker: "BrokerState", request: OffsetForLeaderEpochRequest, _context: Context) -> Result:
    return broker.heavy_work.run(_answer(broker, request))


def _answer(
    broker: "BrokerState", request: OffsetForLeaderEpochRequest
) -> Steps[None, OffsetForLeaderEpochResponse]:
    response = OffsetForLeaderEpochResponse()
    slice_ = WorkSlice()
    for topic in request.topics:
        result = OffsetForLeaderTopicResult(topic=topic.topic)
        response.topics.append(result)
        for part in topic.partitions:
            if slice_.is_full(_PRICE):
                yield None
            result.partitions.append(_end(broker, topic.topic, part))
    return response


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


def _end(broker: "BrokerState", topic: str, part: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        log = led(broker, broker.topics.get(topic), part.partition, part.current_leader_epoch)
    except RefusedError as error:
        return EpochEndOffset(partition=part.partition, error_code=error.code)
    end = log.end_offset_for_epoch(LeaderEpoch(part.leader_epoch))
    return EpochEndOffset(partition=part.partition, leader_epoch=end.leader_epoch, end_offset=end.end_offset)
