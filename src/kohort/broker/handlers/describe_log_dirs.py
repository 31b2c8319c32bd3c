"""DescribeLogDirs (35): how much each partition takes on the disk.

v2: flexible; v3: error; v4: volume sizes.
"""

from typing import TYPE_CHECKING

from kohort.broker.context import Context
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
    from kohort.broker.broker import Broker


def handle(broker: "Broker", request: DescribeLogDirsRequest, _context: Context) -> DescribeLogDirsResponse:
    if request.topics is None:
        topics = [_describe(topic, range(len(topic.logs))) for topic in broker.topics]
    else:
        topics = [
            _describe(topic, wanted.partitions)
            for wanted in request.topics
            if (topic := broker.topics.get(wanted.topic)) is not None
        ]
    total, usable = broker.volume_sizes()
    result = DescribeLogDirsResult(
        log_dir=broker.log_dir,
        topics=[topic for topic in topics if topic.partitions],
        total_bytes=total,
        usable_bytes=usable,
    )
    return DescribeLogDirsResponse(results=[result])


def refuse(_request: DescribeLogDirsRequest, code: ErrorCode) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(error_code=code)


def _describe(topic: ServedTopic, partitions: range | list[int]) -> DescribeLogDirsTopic:
    logs = ((index, topic.log(index)) for index in partitions)
    return DescribeLogDirsTopic(
        name=topic.name,
        partitions=[
            DescribeLogDirsPartition(partition_index=index, partition_size=log.size_bytes)
            for index, log in logs
            if log is not None
        ],
    )
