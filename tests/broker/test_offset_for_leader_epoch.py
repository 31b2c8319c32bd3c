"""OffsetForLeaderEpoch: where an epoch ended. The epoch grows with each start of the broker.

What Kafka answers in every version is recorded: ``tests/interop/scripts/cluster.py``.
"""

import pytest
from tests.broker.asking import append, batch, create, metadata
from tests.broker.conftest import Restart
from tests.broker.raw import Raw

from kohort.model.errors import ErrorCode
from kohort.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kohort.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

VERSIONS = range(2, 5)
UNKNOWN = (0, -1, -1)


def end_of(
    raw: Raw, epoch: int, *, current: int = -1, topic: str = "t", index: int = 0, version: int = 4
) -> tuple[int, int, int]:
    """Error, epoch, end offset."""
    part = OffsetForLeaderPartition(partition=index, current_leader_epoch=current, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[OffsetForLeaderTopic(topic=topic, partitions=[part])]
    )
    (result,) = raw.send(request, version).topics[0].partitions
    assert result.partition == index
    return result.error_code, result.leader_epoch, result.end_offset


def test_an_older_epoch_ends_where_the_next_known_one_begins(restart: Restart) -> None:
    raw = restart()
    create(raw, "t")
    append(raw, "t", batch("a", "b"))  # epoch 0: 0 to 1
    raw = restart()  # epoch 1 writes nothing
    raw = restart()
    append(raw, "t", batch("c"))  # epoch 2: 2
    raw = restart()
    append(raw, "t", batch("d"), batch("e"))  # epoch 3: 3 to 4
    assert [end_of(raw, epoch) for epoch in (0, 1, 2, 3, 4)] == [
        (0, 0, 2),
        (0, 0, 2),  # epoch 1 left no trace: the largest known one that is not newer
        (0, 2, 3),
        (0, 3, 5),
        UNKNOWN,
    ]


def test_an_epoch_older_than_all_known_ends_where_the_first_known_begins(restart: Restart) -> None:
    raw = restart()
    create(raw, "t")
    append(raw, "t", batch("a"))
    raw = restart()
    append(raw, "t", batch("b"), batch("c"))
    cut = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=2)])
    raw.send(DeleteRecordsRequest(topics=[cut]), 2)
    assert end_of(raw, 0) == (0, 0, 2)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_epoch_the_client_believes_in_must_be_ours(restart: Restart, version: int) -> None:
    raw = restart()
    create(raw, "t")
    raw = restart()
    assert metadata(raw, "t").topics[0].partitions[0].leader_epoch == 1
    assert end_of(raw, 0, current=0, version=version)[0] == ErrorCode.FENCED_LEADER_EPOCH
    assert end_of(raw, 0, current=2, version=version)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert end_of(raw, 1, current=1, version=version) == (0, 1, 0)
