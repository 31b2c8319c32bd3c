"""ListOffsets: timestamps, special values and the versions that have them, refusals.

What Kafka answers in every version is recorded: ``tests/interop/scripts/list_offsets.py``.
"""

import pytest
from tests.broker.asking import T0, append, create, offset_at
from tests.broker.conftest import Restart
from tests.broker.raw import Raw, Reply

from kohort.model.errors import ErrorCode
from kohort.records.batch import NewRecord, build_batch
from kohort.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

LATEST, EARLIEST, MAX_TIMESTAMP, LATEST_TIERED = -1, -2, -3, -5
NONE = (-1, -1, 0)


def found(result: Reply) -> tuple[int, int, int]:
    return result.offset, result.timestamp, result.error_code


def timed(*stamps: int) -> bytes:
    return build_batch([NewRecord(T0 + stamp, b"k", b"v") for stamp in stamps])


@pytest.mark.parametrize(("special", "version"), [(LATEST_TIERED, 9), (LATEST_TIERED, 11), (-6, 11)])
def test_there_is_nothing_in_a_tier_that_does_not_exist(raw: Raw, special: int, version: int) -> None:
    create(raw, "t")
    append(raw, "t", timed(0))
    result = offset_at(raw, "t", special, version=version)
    assert (found(result), result.leader_epoch) == (NONE, -1)


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
