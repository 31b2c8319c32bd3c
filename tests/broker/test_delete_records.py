"""DeleteRecords: the start of a partition moves up.

What Kafka answers in every version is recorded: ``tests/interop/scripts/cluster.py``.
"""

from tests.broker.asking import append, batch, create, fetch, offset_at, part, values
from tests.broker.conftest import Restart
from tests.broker.raw import Raw, Reply

from kohort.model.errors import ErrorCode
from kohort.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)


def cut(raw: Raw, offset: int, *, topic: str = "t", index: int = 0, version: int = 2) -> Reply:
    wanted = DeleteRecordsPartition(partition_index=index, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=[wanted])], timeout_ms=1_000
    )
    (result,) = raw.send(request, version).topics[0].partitions
    return result


def test_what_is_deleted_can_be_neither_fetched_nor_found(raw: Raw) -> None:
    create(raw, "t")
    append(raw, "t", batch("a"), batch("b"), batch("c"))
    cut(raw, 2)
    assert fetch(raw, "t", part(offset=1)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (values(raw, "t", 2), offset_at(raw, "t", -2).offset) == (["c"], 2)
    assert fetch(raw, "t", part(offset=2)).log_start_offset == 2


def test_every_partition_is_answered(raw: Raw) -> None:
    create(raw, "t", 2)
    append(raw, "t", batch("a"))
    parts = [DeleteRecordsPartition(partition_index=index, offset=1) for index in (1, 0, 7)]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=parts)])
    results = raw.send(request, 2).topics[0].partitions
    assert [(each.partition_index, each.error_code, each.low_watermark) for each in results] == [
        (1, 1, -1), (0, 0, 1), (7, 3, -1),
    ]  # fmt: skip


def test_the_new_start_survives_a_restart(restart: Restart) -> None:
    raw = restart()
    create(raw, "t")
    append(raw, "t", batch("a"), batch("b"))
    cut(raw, 1)
    raw = restart()
    assert offset_at(raw, "t", -2).offset == 1
    assert values(raw, "t", 1) == ["b"]
