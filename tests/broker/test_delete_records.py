"""DeleteRecords: the start of a partition moves up.

What Kafka answers in every version is recorded: ``tests/interop/scripts/cluster.py``.
"""

from tests.broker.asking import append, batch, create, offset_at, values
from tests.broker.conftest import Restart
from tests.broker.raw import Raw, Reply

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


def test_the_new_start_survives_a_restart(restart: Restart) -> None:
    raw = restart()
    create(raw, "t")
    append(raw, "t", batch("a"), batch("b"))
    cut(raw, 1)
    raw = restart()
    assert offset_at(raw, "t", -2).offset == 1
    assert values(raw, "t", 1) == ["b"]
