"""DescribeLogDirs (35): how much each partition takes on the disk.

v2: flexible; v3: error; v4: volume sizes.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kohort.broker.context import Context, Result
from kohort.broker.heavy_work import Steps, WorkSlice
from kohort.broker.topics import ServedTopic
from kohort.model.errors import ErrorCode
from kohort.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

_PRICE = 3


def handle(broker: "BrokerState", request: DescribeLogDirsRequest, _context: Context) -> Result:
    return broker.heavy_work.run(_answer(broker, request))


def _answer(broker: "BrokerState", request: DescribeLogDirsRequest) -> Steps[None, DescribeLogDirsResponse]:
    topics: list[DescribeLogDirsTopic] = []
    slice_ = WorkSlice()
    for topic, partitions in list(_wanted(broker, request)):
        topics.append(_describe(topic, partitions))
        if slice_.is_full(_PRICE * (1 + len(partitions))):
            yield None
    total, usable = broker.volume_sizes()
    result = DescribeLogDirsResult(
        log_dir=broker.log_dir,
        topics=[topic for topic in topics if topic.partitions],
        total_bytes=total,
        usable_bytes=usable,
    )
    return DescribeLogDirsResponse(results=[result])


def _wanted(
    broker: "BrokerState", request: DescribeLogDirsRequest
) -> Iterator[tuple[ServedTopic, list[int]]]:
    if request.topics is None:
        for topic in broker.topics:
            yield topic, sorted(topic.logs)
    for wanted in request.topics or ():
        found = broker.topics.get(wanted.topic)
        if found is not None:
            yield found, wanted.partitions


def refuse(_request: DescribeLogDirsRequest, code: ErrorCode) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(error_code=code)


def _describe(topic: ServedTopic, partitions: list[int]) -> DescribeLogDirsTopic:
    logs = ((index, topic.logs.get(index)) for index in partitions)
    return DescribeLogDirsTopic(
        name=topic.name,
        partitions=[
            DescribeLogDirsPartition(partition_index=index, partition_size=log.size_bytes)
            for index, log in logs
            if log is not None
        ],
    )
