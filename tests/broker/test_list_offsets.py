"""ListOffsets: timestamps, special values and the versions that have them, refusals."""

import pytest
from tests.broker.asking import T0, append, batch, create, fetch, offset_at
from tests.broker.conftest import Restart
from tests.broker.raw import Raw, Reply

from kohort.model.errors import ErrorCode
from kohort.records.batch import NewRecord, build_batch
from kohort.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kohort.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

VERSIONS = range(1, 12)
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -1, -2, -3, -4, -5, -6
FIRST_VERSION = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING: 11,
}
NONE = (-1, -1, 0)


def found(result: Reply) -> tuple[int, int, int]:
    return result.offset, result.timestamp, result.error_code


def timed(*stamps: int) -> bytes:
    return build_batch([NewRecord(T0 + stamp, b"k", b"v") for stamp in stamps])


def cut_before(raw: Raw, offset: int) -> None:
    part = DeleteRecordsPartition(partition_index=0, offset=offset)
    topic = DeleteRecordsTopic(name="t", partitions=[part])
    assert raw.send(DeleteRecordsRequest(topics=[topic]), 2).topics[0].partitions[0].error_code == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_latest_and_earliest_in_every_version(raw: Raw, version: int) -> None:
    create(raw, "t")
    append(raw, "t", timed(0, 1, 2))
    cut_before(raw, 1)
    epoch = 0 if version >= 4 else -1
    latest = offset_at(raw, "t", LATEST, version=version)
    assert (found(latest), latest.leader_epoch) == ((3, -1, 0), epoch)
    earliest = offset_at(raw, "t", EARLIEST, version=version)
    assert (found(earliest), earliest.leader_epoch) == ((1, -1, 0), epoch)


@pytest.mark.parametrize("isolation", [0, 1])
def test_without_transactions_both_isolation_levels_see_the_same_end(raw: Raw, isolation: int) -> None:
    create(raw, "t")
    append(raw, "t", timed(0))
    assert offset_at(raw, "t", LATEST, isolation=isolation).offset == 1


def test_an_empty_log_begins_and_ends_at_zero_and_has_no_timestamps(raw: Raw) -> None:
    create(raw, "t")
    assert offset_at(raw, "t", LATEST).offset == 0
    assert offset_at(raw, "t", EARLIEST).offset == 0
    assert found(offset_at(raw, "t", MAX_TIMESTAMP)) == NONE
    assert found(offset_at(raw, "t", 0)) == NONE


# Times


@pytest.mark.parametrize("version", VERSIONS)
def test_a_time_finds_the_first_record_that_is_not_older(raw: Raw, version: int) -> None:
    create(raw, "t")
    append(raw, "t", timed(10, 20), timed(30, 40))
    for target, expected in ((0, (0, 10)), (10, (0, 10)), (11, (1, 20)), (25, (2, 30)), (40, (3, 40))):
        result = offset_at(raw, "t", T0 + target, version=version)
        assert found(result) == (expected[0], T0 + expected[1], 0), target


def test_the_first_one_counts_even_if_times_go_back(raw: Raw) -> None:
    create(raw, "t")
    append(raw, "t", timed(10, 50, 20), timed(5, 60))
    assert found(offset_at(raw, "t", T0 + 15)) == (1, T0 + 50, 0)
    assert found(offset_at(raw, "t", T0 + 55)) == (4, T0 + 60, 0)


def test_a_time_after_the_last_record_finds_nothing_and_is_no_error(raw: Raw) -> None:
    create(raw, "t")
    append(raw, "t", timed(10))
    result = offset_at(raw, "t", T0 + 11)
    assert (found(result), result.leader_epoch) == (NONE, -1)


def test_deleted_records_are_not_found(raw: Raw) -> None:
    create(raw, "t")
    append(raw, "t", timed(10, 20, 30))
    cut_before(raw, 2)
    assert found(offset_at(raw, "t", T0)) == (2, T0 + 30, 0)


@pytest.mark.parametrize("version", range(7, 12))
def test_the_maximum_is_the_first_of_the_youngest_records(raw: Raw, version: int) -> None:
    create(raw, "t")
    append(raw, "t", timed(10, 90, 20), timed(90), timed(40))
    assert found(offset_at(raw, "t", MAX_TIMESTAMP, version=version)) == (1, T0 + 90, 0)


@pytest.mark.parametrize("version", range(8, 12))
def test_earliest_local_is_earliest_without_tiered_storage(raw: Raw, version: int) -> None:
    create(raw, "t")
    append(raw, "t", timed(0, 1))
    cut_before(raw, 1)
    assert found(offset_at(raw, "t", EARLIEST_LOCAL, version=version)) == (1, -1, 0)


@pytest.mark.parametrize(("special", "version"), [(LATEST_TIERED, 9), (LATEST_TIERED, 11), (-6, 11)])
def test_there_is_nothing_in_a_tier_that_does_not_exist(raw: Raw, special: int, version: int) -> None:
    create(raw, "t")
    append(raw, "t", timed(0))
    result = offset_at(raw, "t", special, version=version)
    assert (found(result), result.leader_epoch) == (NONE, -1)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_special_value_the_version_does_not_have_is_unsupported(raw: Raw, version: int) -> None:
    create(raw, "t")
    for special, first in FIRST_VERSION.items():
        code = offset_at(raw, "t", special, version=version).error_code
        assert code == (0 if version >= first else ErrorCode.UNSUPPORTED_VERSION), special


@pytest.mark.parametrize("value", [-7, -100, -(2**63)])
def test_other_negative_values_are_unsupported(raw: Raw, value: int) -> None:
    create(raw, "t")
    result = offset_at(raw, "t", value)
    assert (result.error_code, result.offset) == (ErrorCode.UNSUPPORTED_VERSION, -1)


# Refusals


def ask(raw: Raw, *parts: ListOffsetsPartition, topic: str = "t", version: int = 11) -> list[int]:
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=list(parts))])
    results = raw.send(request, version).topics[0].partitions
    assert [each.partition_index for each in results] == list(
        dict.fromkeys(part.partition_index for part in parts)
    )
    return [each.error_code for each in results]


def at(index: int = 0, epoch: int = -1) -> ListOffsetsPartition:
    return ListOffsetsPartition(partition_index=index, current_leader_epoch=epoch, timestamp=LATEST)


def test_what_does_not_exist_is_unknown_and_what_does_is_answered(raw: Raw) -> None:
    create(raw, "t")
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(raw, at(0), at(1), at(-1), at(2**31 - 1)) == [0, unknown, unknown, unknown]
    assert ask(raw, at(0), topic="none") == [unknown]
    assert ask(raw, at(0), topic="") == [unknown]


def test_the_same_partition_twice_is_an_invalid_request_told_once(raw: Raw) -> None:
    create(raw, "t", 2)
    assert ask(raw, at(0), at(1), at(0)) == [ErrorCode.INVALID_REQUEST, 0]


def test_the_leader_epoch_must_fit(restart: Restart) -> None:
    raw = restart()
    create(raw, "t")
    raw = restart()  # its epoch is 1 now
    assert ask(raw, at(epoch=0)) == [ErrorCode.FENCED_LEADER_EPOCH]
    assert ask(raw, at(epoch=1)) == [0]
    assert ask(raw, at(epoch=2)) == [ErrorCode.UNKNOWN_LEADER_EPOCH]


@pytest.mark.parametrize("replica", [-1, -2, 0, 5])
def test_the_replica_id_does_not_matter(raw: Raw, replica: int) -> None:
    create(raw, "t")
    request = ListOffsetsRequest(
        replica_id=replica, topics=[ListOffsetsTopic(name="t", partitions=[at()])], timeout_ms=5
    )
    assert raw.send(request, 11).topics[0].partitions[0].error_code == 0


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


def test_what_latest_says_can_be_fetched_up_to(raw: Raw) -> None:
    create(raw, "t")
    for _ in range(3):
        append(raw, "t", batch("x"))
        latest = offset_at(raw, "t", LATEST).offset
        assert fetch(raw, "t").high_watermark == latest
