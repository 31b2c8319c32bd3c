"""DeleteRecords (21): move the start of partitions up. v2: flexible."""

import asyncio
from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.broker.heavy_work import WorkSlice
from kohort.broker.leadership import led
from kohort.log.log import Cleanup
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import Offset
from kohort.model.topics import INTERNAL_TOPICS
from kohort.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

TO_HIGH_WATERMARK = -1
_PRICE = 20  # of a partition


async def handle(
    broker: "BrokerState", request: DeleteRecordsRequest, _context: Context
) -> DeleteRecordsResponse:
    done: list[DeleteRecordsPartitionResult] = []
    asked: list[tuple[str, DeleteRecordsPartition]] = []
    slice_ = WorkSlice()
    for topic in request.topics:
        for part in topic.partitions:
            asked.append((topic.name, part))
            if slice_.is_full(_PRICE):
                done += await asyncio.gather(*(_delete(broker, *each) for each in asked))
                asked.clear()
    done += await asyncio.gather(*(_delete(broker, *each) for each in asked))
    results = iter(done)
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(name=topic.name, partitions=[next(results) for _ in topic.partitions])
            for topic in request.topics
        ]
    )


def refuse(request: DeleteRecordsRequest, code: ErrorCode) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name, partitions=[_refused(part, code) for part in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _refused(part: DeleteRecordsPartition, code: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=part.partition_index, low_watermark=-1, error_code=code
    )


async def _delete(
    broker: "BrokerState", name: str, part: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    try:
        log = led(broker, broker.topics.get(name), part.partition_index)
    except RefusedError as error:
        return _refused(part, error.code)
    if name in INTERNAL_TOPICS:
        return _refused(part, ErrorCode.INVALID_TOPIC_EXCEPTION)
    if Cleanup.DELETE not in log.config.cleanup:
        return _refused(part, ErrorCode.POLICY_VIOLATION)
    if part.offset < TO_HIGH_WATERMARK:
        return _refused(part, ErrorCode.OFFSET_OUT_OF_RANGE)
    offset = log.high_watermark if part.offset == TO_HIGH_WATERMARK else Offset(part.offset)
    try:
        start = await log.delete_before(offset)
    except RefusedError as error:
        return _refused(part, error.code)
    return DeleteRecordsPartitionResult(partition_index=part.partition_index, low_watermark=start)
