"""DeleteRecords: the start of a partition moves up."""

import pytest
from tests.broker.asking import append, batch, create, fetch, offset_at, part, values
from tests.broker.conftest import Restart
from tests.broker.raw import Raw, Reply

from kohort.model.errors import ErrorCode
from kohort.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

VERSIONS = range(3)


def cut(raw: Raw, offset: int, *, topic: str = "t", index: int = 0, version: int = 2) -> Reply:
    wanted = DeleteRecordsPartition(partition_index=index, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=[wanted])], timeout_ms=1_000
    )
    (result,) = raw.send(request, version).topics[0].partitions
    return result


def refused(result: Reply) -> int:
    assert result.low_watermark == -1
    code: int = result.error_code
    return code


@pytest.mark.parametrize("version", VERSIONS)
def test_the_reply_says_where_the_log_begins_now(raw: Raw, version: int) -> None:
    create(raw, "t")
    append(raw, "t", batch("a", "b", "c"))
    result = cut(raw, 2, version=version)
    assert (result.error_code, result.low_watermark, result.partition_index) == (0, 2, 0)


def test_what_is_deleted_can_be_neither_fetched_nor_found(raw: Raw) -> None:
    create(raw, "t")
    append(raw, "t", batch("a"), batch("b"), batch("c"))
    cut(raw, 2)
    assert fetch(raw, "t", part(offset=1)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (values(raw, "t", 2), offset_at(raw, "t", -2).offset) == (["c"], 2)
    assert fetch(raw, "t", part(offset=2)).log_start_offset == 2


def test_minus_one_deletes_everything(raw: Raw) -> None:
    create(raw, "t")
    append(raw, "t", batch("a", "b"))
    assert cut(raw, -1).low_watermark == 2
    assert append(raw, "t", batch("c")) == 2
    assert values(raw, "t", 2) == ["c"]


def test_the_end_itself_is_not_beyond_the_end(raw: Raw) -> None:
    create(raw, "t")
    append(raw, "t", batch("a"))
    assert cut(raw, 1).low_watermark == 1


@pytest.mark.parametrize("offset", [2, 2**62, -2, -(2**63)])
def test_offsets_outside_the_log_are_out_of_range(raw: Raw, offset: int) -> None:
    create(raw, "t")
    append(raw, "t", batch("a"))
    assert refused(cut(raw, offset)) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert values(raw, "t") == ["a"]


def test_the_start_never_moves_back(raw: Raw) -> None:
    create(raw, "t")
    append(raw, "t", batch("a", "b", "c"))
    cut(raw, 2)
    result = cut(raw, 1)
    assert (result.error_code, result.low_watermark) == (0, 2)


@pytest.mark.parametrize(("topic", "index"), [("none", 0), ("t", 1), ("t", -1), ("", 0)])
def test_what_does_not_exist_is_unknown(raw: Raw, topic: str, index: int) -> None:
    create(raw, "t")
    assert refused(cut(raw, 0, topic=topic, index=index)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_compacted_topic_refuses_by_policy_unless_it_deletes_too(raw: Raw) -> None:
    create(raw, "compacted", cleanup_policy="compact")
    create(raw, "both", cleanup_policy="compact,delete")
    append(raw, "both", batch("a"))
    assert refused(cut(raw, 0, topic="compacted")) == ErrorCode.POLICY_VIOLATION
    assert cut(raw, 1, topic="both").low_watermark == 1


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
