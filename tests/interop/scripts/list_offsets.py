"""ListOffsets: special timestamps by version, times between records, epochs, unknown partitions."""

from collections.abc import Iterator

from tests.interop.scripts.exchange import Answer, Exchange
from tests.interop.scripts.setting import T0, append, batch, make_topic

from kohort.records.batch import BatchFields, NewRecord, build_batch
from kohort.records.compression import Codec
from kohort.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kohort.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

Steps = Iterator[tuple[str, Answer]]
TOPIC = "script.list-offsets"
VERSIONS = range(1, 12)


def asking(topic: str, *parts: ListOffsetsPartition, isolation: int = 0) -> ListOffsetsRequest:
    """A consumer's request."""
    where = ListOffsetsTopic(name=topic, partitions=list(parts))
    return ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[where], timeout_ms=5000)


def at(timestamp: int, index: int = 0, epoch: int = -1) -> ListOffsetsPartition:
    return ListOffsetsPartition(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch)


def list_offsets(x: Exchange) -> Steps:
    """A log of three batches, one compressed, with times that do not only grow; and an empty one."""
    make_topic(x, TOPIC, 3)
    append(x, TOPIC, batch("a", "b", "c", at=T0))
    append(x, TOPIC, batch("d", "e", at=T0 + 1000, fields=BatchFields(codec=Codec.GZIP)))
    append(x, TOPIC, batch("f", at=T0 + 500))
    for version in VERSIONS:
        for timestamp in (-1, -2, T0 + 1):
            yield f"at {timestamp} v{version}", x.get(asking(TOPIC, at(timestamp)), version)
    for timestamp in range(-3, -9, -1):
        for version in VERSIONS:
            yield f"special {timestamp} v{version}", x.get(asking(TOPIC, at(timestamp)), version)
    yield from _times(x)
    for number in range(2):
        append(x, TOPIC, build_batch([NewRecord(-1, b"k", b"%d" % number)] * 2), 2)
    for timestamp in (-1, -2, -3, 0):
        yield f"no timestamps at {timestamp}", x.get(asking(TOPIC, at(timestamp, 2)), 11)
    yield from _refusals(x)
    deleted = DeleteRecordsPartition(partition_index=0, offset=2)
    topics = [DeleteRecordsTopic(name=TOPIC, partitions=[deleted])]
    yield "the first two are deleted", x.get(DeleteRecordsRequest(topics=topics, timeout_ms=5000), 2)
    for timestamp in (-2, -4, 0, T0, T0 + 1, T0 + 2):
        yield f"after deletion at {timestamp - T0:+}", x.get(asking(TOPIC, at(timestamp)), 11)


def _times(x: Exchange) -> Steps:
    for delta in (-5, 0, 1, 2, 3, 500, 999, 1000, 1001, 1002):
        yield f"time {delta:+}", x.get(asking(TOPIC, at(T0 + delta)), 11)
    yield "time 0", x.get(asking(TOPIC, at(0)), 11)
    for timestamp in (-1, -2, -3, -4, -5, -6, 0):
        yield f"empty partition at {timestamp}", x.get(asking(TOPIC, at(timestamp, 1)), 11)
    for isolation in (0, 1):
        for timestamp in (-1, -2, -3):
            request = asking(TOPIC, at(timestamp), isolation=isolation)
            yield f"isolation {isolation} at {timestamp}", x.get(request, 11)


def _refusals(x: Exchange) -> Steps:
    for epoch in (0, 1, 9):
        yield f"leader epoch {epoch}", x.get(asking(TOPIC, at(-1, epoch=epoch)), 11)
    for version in (1, 3, 5, 11):
        yield f"unknown topic v{version}", x.get(asking("script.none", at(-1)), version)
    yield "unknown partition", x.get(asking(TOPIC, at(-1, 3)), 11)
    yield "negative partition", x.get(asking(TOPIC, at(-1, -1)), 11)
    yield "invalid name", x.get(asking("no good", at(-1)), 11)
    yield "the same partition twice", x.get(asking(TOPIC, at(-1), at(-2)), 11)
    yield "the same partition twice, another once", x.get(asking(TOPIC, at(-1), at(-2), at(-1, 1)), 11)
    for replica in (-2, 1, 5):
        request = asking(TOPIC, at(-1))
        request.replica_id = replica
        yield f"replica {replica}", x.get(request, 11)
    yield "no topics", x.get(ListOffsetsRequest(replica_id=-1), 11)
    yield "no partitions", x.get(asking(TOPIC), 11)
