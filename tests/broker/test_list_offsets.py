"""ListOffsets: timestamps, special values and the versions that have them, refusals.

What Kafka answers in every version is recorded: ``tests/interop/scripts/list_offsets.py``.
"""

from tests.broker.asking import T0, append, create, offset_at
from tests.broker.conftest import Restart
from tests.broker.raw import Raw

from kohort.model.errors import ErrorCode
from kohort.records.batch import NewRecord, build_batch
from kohort.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

LATEST, EARLIEST, MAX_TIMESTAMP, LATEST_TIERED = -1, -2, -3, -5


def timed(*stamps: int) -> bytes:
    return build_batch([NewRecord(T0 + stamp, b"k", b"v") for stamp in stamps])


def ask(raw: Raw, *parts: ListOffsetsPartition, topic: str = "t", version: int = 11) -> list[int]:
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=list(parts))])
    results = raw.send(request, version).topics[0].partitions
    assert [each.partition_index for each in results] == list(
        dict.fromkeys(part.partition_index for part in parts)
    )
    return [each.error_code for each in results]


def at(index: int = 0, epoch: int = -1) -> ListOffsetsPartition:
    return ListOffsetsPartition(partition_index=index, current_leader_epoch=epoch, timestamp=LATEST)


def test_the_leader_epoch_must_fit(restart: Restart) -> None:
    raw = restart()
    create(raw, "t")
    raw = restart()  # its epoch is 1 now
    assert ask(raw, at(epoch=0)) == [ErrorCode.FENCED_LEADER_EPOCH]
    assert ask(raw, at(epoch=1)) == [0]
    assert ask(raw, at(epoch=2)) == [ErrorCode.UNKNOWN_LEADER_EPOCH]


def test_epochs_are_those_of_the_records(restart: Restart) -> None:
    raw = restart()
    create(raw, "t")
    append(raw, "t", timed(0))
    raw = restart()
    append(raw, "t", timed(5))
    epochs = [
        offset_at(raw, "t", when).leader_epoch for when in (EARLIEST, LATEST, MAX_TIMESTAMP, T0, T0 + 1)
    ]
    assert epochs == [0, 1, 1, 0, 1]
