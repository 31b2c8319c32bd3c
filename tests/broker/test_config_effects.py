"""Configs of topics take effect, at creation and when they are altered; they are not only echoed."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.broker.asking import (
    BROKER,
    T0,
    TOPIC,
    alter,
    append,
    batch,
    create,
    eventually,
    fetch,
    offset_at,
    produce,
    stored,
    values,
)
from tests.broker.grouping import GROUP, commit_request, find
from tests.broker.raw import Raw

from kohort.model.errors import ErrorCode
from kohort.model.steady_time import PATIENCE_MS
from kohort.records.batch import BatchFields, NewRecord, build_batch
from kohort.records.compression import Codec
from kohort.records.header import batches
from kohort.testing.broker import Broker
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic

CHECK_MS = 300_000  # log.retention.check.interval.ms
CLEAN_MS = 15_000  # log.cleaner.backoff.ms
MIB = 1_048_576
HOUR = 3_600_000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[tuple[Broker, Raw, Path]]:
    """A broker whose files can be looked at."""
    with Broker(data=tmp_path, virtual_time=True) as broker, Raw(broker.bootstrap) as raw:
        yield broker, raw, tmp_path


def starts_at(raw: Raw, topic: str = "t") -> int:
    offset: int = offset_at(raw, topic, -2).offset
    return offset


def left(raw: Raw) -> list[tuple[str, str | None]]:
    """Keys and values in topic ``t`` from its start on."""
    return [
        ((record.key or b"").decode(), None if record.value is None else record.value.decode())
        for record in stored(raw, "t", starts_at(raw))
    ]


def committed(raw: Raw) -> int:
    """The offset that the group has committed for the first partition of topic ``t``."""
    asked = OffsetFetchRequest(
        group_id=GROUP, topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
    )
    offset: int = raw.send(asked, 5).topics[0].partitions[0].committed_offset
    return offset


def in_time(broker: Broker, step: int, is_true: Callable[[], bool]) -> None:
    """Let time pass until something is true: the background works after the clock has moved."""

    def step_and_look() -> bool:
        broker.advance(step)
        return is_true()

    eventually(step_and_look)


# Retention


@pytest.mark.parametrize("where", ["topic", "altered", "broker"])
def test_records_older_than_retention_ms_go(raw: Raw, broker: Broker, where: str) -> None:
    create(raw, "t", 1, **({"retention_ms": HOUR} if where == "topic" else {}))
    append(raw, "t", batch("old"))
    if where == "altered":
        alter(raw, TOPIC, "t", retention_ms=HOUR)
    if where == "broker":
        alter(raw, BROKER, "", log_retention_ms=HOUR)
    broker.advance(HOUR)
    assert starts_at(raw) == 0
    in_time(broker, CHECK_MS, lambda: starts_at(raw) == 1)
    assert fetch(raw, "t").error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert append(raw, "t", batch("new")) == 1


def test_a_wall_clock_set_forward_deletes_nothing_before_it_has_lasted(
    raw: Raw, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    week = 7 * 24 * HOUR
    create(raw, "t")
    append(raw, "t", batch("a"))
    find(raw)
    raw.send(commit_request((0, 1)), 9)
    clock = broker._broker.clock
    assert clock is not None
    clock.set_wall(week + HOUR)
    broker.run(load_groups_again(broker))
    for hours in (1, 5):
        broker.advance(hours * HOUR)  # in this time both retentions look several times
        create(raw, f"old-{hours}", retention_ms=1)
        append(raw, f"old-{hours}", batch("old", at=T0 - week))
        in_time(broker, CHECK_MS, lambda: starts_at(raw, f"old-{hours}") == 1)  # noqa: B023 - called at once
    assert values(raw, "t") == ["a"]
    assert committed(raw) == 1
    warnings = [record.getMessage() for record in caplog.records if "wall clock" in record.getMessage()]
    assert len(warnings) == 1
    assert "went forward by 7 days, 1:00:00" in warnings[0]
    broker.advance(PATIENCE_MS)
    in_time(broker, CHECK_MS, lambda: starts_at(raw) == 1)
    in_time(broker, CHECK_MS, lambda: committed(raw) == -1)


async def load_groups_again(broker: Broker) -> None:
    """As after an append that failed: whatever the coordinators knew besides their log is forgotten."""
    coordinator = broker.server.broker.coordinator
    for runtime in coordinator._groups.partitions.values():
        runtime._reload(ErrorCode.NOT_COORDINATOR)
    await coordinator.ready()


def test_minus_one_keeps_records_for_ever(raw: Raw, broker: Broker) -> None:
    create(raw, "kept", retention_ms=-1)
    create(raw, "t", retention_ms=1)
    append(raw, "kept", batch("a"))
    append(raw, "t", batch("a"))
    in_time(broker, 100 * 24 * HOUR, lambda: starts_at(raw) == 1)
    assert values(raw, "kept") == ["a"]


def test_the_oldest_segments_go_when_retention_bytes_are_exceeded(raw: Raw, broker: Broker) -> None:
    create(raw, "t", retention_bytes=2 * MIB, segment_bytes=MIB)
    for _ in range(5):
        append(raw, "t", batch("x" * 700_000))
    in_time(broker, CHECK_MS, lambda: starts_at(raw) > 0)
    assert starts_at(raw) == 2  # three segments of 0.7 MB are left: one less would be below the limit


def test_a_compacted_topic_is_not_subject_to_retention_unless_it_says_so(raw: Raw, broker: Broker) -> None:
    create(raw, "compacted", cleanup_policy="compact", retention_ms=1)
    create(raw, "t", cleanup_policy="compact,delete", retention_ms=1)
    append(raw, "compacted", batch("a"))
    append(raw, "t", batch("a"))
    in_time(broker, CHECK_MS, lambda: starts_at(raw) == 1)
    assert values(raw, "compacted") == ["a"]


# Segments


def segments(data: Path) -> int:
    return len(list((data / "t-0").glob("*.log")))


def test_segment_bytes_bound_the_files(disk: tuple[Broker, Raw, Path]) -> None:
    _, raw, data = disk
    create(raw, "t", segment_bytes=MIB)
    for _ in range(4):
        append(raw, "t", batch("x" * 600_000))
    assert segments(data) == 4
    alter(raw, TOPIC, "t", segment_bytes=10 * MIB)
    for _ in range(3):
        append(raw, "t", batch("x" * 600_000))
    assert segments(data) == 4


def test_segment_ms_begins_a_new_file_after_that_time(disk: tuple[Broker, Raw, Path]) -> None:
    _, raw, data = disk
    create(raw, "t", segment_ms=1_000)
    append(raw, "t", batch("a"), batch("b", at=T0 + 1_000))
    assert segments(data) == 1
    append(raw, "t", batch("c", at=T0 + 1_001))
    assert segments(data) == 2


def test_index_interval_bytes_decide_how_dense_an_index_is(disk: tuple[Broker, Raw, Path]) -> None:
    _, raw, data = disk
    sizes = {}
    for name, interval in (("dense", 0), ("sparse", 1_000_000)):
        create(raw, name, index_interval_bytes=interval, segment_bytes=MIB)
        for _ in range(3):
            append(raw, name, batch("x" * 1_000), batch("x" * 1_000), batch("x" * 600_000))
        sizes[name] = (data / f"{name}-0" / "00000000000000000000.index").stat().st_size
    assert sizes["dense"] > sizes["sparse"]


# Compaction


def compacted(raw: Raw, **configs: object) -> None:
    """Topic ``t``, in which every batch that is a millisecond younger begins a segment."""
    given = {"segment_ms": 1, "min_cleanable_dirty_ratio": 0, "cleanup_policy": "compact", **configs}
    create(raw, "t", 1, **given)


def write(raw: Raw, *pairs: tuple[str, str | None]) -> None:
    """One record to a segment, and an empty-handed one to close the last."""
    start = T0 - 10_000 + 10 * offset_at(raw, "t", -1).offset
    for number, (key, value) in enumerate(pairs):
        content = None if value is None else value.encode()
        append(raw, "t", build_batch([NewRecord(start + 10 * number, key.encode(), content)]))


def test_only_the_last_value_of_each_key_stays(raw: Raw, broker: Broker) -> None:
    compacted(raw)
    write(raw, ("a", "1"), ("b", "1"), ("a", "2"), ("a", "3"), ("end", "x"))
    in_time(broker, CLEAN_MS, lambda: left(raw) == [("b", "1"), ("a", "3"), ("end", "x")])
    assert [record.offset for record in stored(raw, "t", starts_at(raw))] == [1, 3, 4]


def test_without_that_policy_everything_stays(raw: Raw, broker: Broker) -> None:
    create(raw, "plain", segment_ms=1)
    compacted(raw)
    append(raw, "plain", batch("1", key="a"), batch("2", key="a", at=T0 + 10), batch("x", at=T0 + 20))
    write(raw, ("a", "1"), ("a", "2"), ("end", "x"))
    in_time(broker, CLEAN_MS, lambda: left(raw) == [("a", "2"), ("end", "x")])
    assert values(raw, "plain") == ["1", "2", "x"]


def test_a_topic_that_becomes_compacted_is_compacted(raw: Raw, broker: Broker) -> None:
    create(raw, "t", segment_ms=1, min_cleanable_dirty_ratio=0)
    write(raw, ("a", "1"), ("a", "2"), ("end", "x"))
    alter(raw, TOPIC, "t", cleanup_policy="compact")
    in_time(broker, CLEAN_MS, lambda: left(raw) == [("a", "2"), ("end", "x")])
    assert produce(raw, "t", batch("v", key=None)).error_code == ErrorCode.INVALID_RECORD


def test_tombstones_stay_for_delete_retention_ms_and_then_go(raw: Raw, broker: Broker) -> None:
    compacted(raw, delete_retention_ms=HOUR)
    write(raw, ("a", "1"), ("a", None), ("end", "x"))
    in_time(broker, CLEAN_MS, lambda: left(raw) == [("a", None), ("end", "x")])
    broker.advance(HOUR)
    write(raw, ("b", "1"), ("b", "2"))  # something to clean
    in_time(broker, CLEAN_MS, lambda: ("a", None) not in left(raw))


def test_young_records_are_left_alone_for_min_compaction_lag_ms(raw: Raw, broker: Broker) -> None:
    compacted(raw, min_compaction_lag_ms=HOUR)
    write(raw, ("a", "1"), ("a", "2"), ("end", "x"))
    for _ in range(3):
        broker.advance(CLEAN_MS)
        assert left(raw) == [("a", "1"), ("a", "2"), ("end", "x")]
    in_time(broker, HOUR, lambda: left(raw) == [("a", "2"), ("end", "x")])


def test_max_compaction_lag_ms_forces_what_the_dirty_ratio_would_put_off(raw: Raw, broker: Broker) -> None:
    compacted(raw, min_cleanable_dirty_ratio=1)
    write(raw, ("a", "1"), ("a", "2"), ("end", "x"))
    broker.advance(CLEAN_MS)
    assert len(left(raw)) == 3
    alter(raw, TOPIC, "t", max_compaction_lag_ms=1_000)
    in_time(broker, CLEAN_MS, lambda: left(raw) == [("a", "2"), ("end", "x")])


# What may be produced, and how it is stored


def test_the_limit_of_a_batch_can_be_altered_for_a_topic_and_for_all(raw: Raw) -> None:
    create(raw, "t")
    create(raw, "u")
    blob = batch("x" * 500)
    alter(raw, TOPIC, "t", max_message_bytes=200)
    assert produce(raw, "t", blob).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert produce(raw, "u", blob).error_code == 0
    alter(raw, BROKER, "", message_max_bytes=300)
    assert produce(raw, "u", blob).error_code == ErrorCode.MESSAGE_TOO_LARGE
    alter(raw, TOPIC, "t", max_message_bytes=1_000)
    assert produce(raw, "t", blob).error_code == 0


def test_a_codec_that_is_altered_holds_for_what_comes_next(raw: Raw) -> None:
    create(raw, "t")
    append(raw, "t", batch("a"))
    alter(raw, TOPIC, "t", compression_type="gzip")
    append(raw, "t", batch("b"))
    alter(raw, TOPIC, "t", compression_type="producer")
    append(raw, "t", batch("c", fields=BatchFields(codec=Codec.SNAPPY)))
    blob = bytes(fetch(raw, "t").records)
    assert [header.codec for _, header in batches(blob)] == [Codec.NONE, Codec.GZIP, Codec.SNAPPY]
    assert values(raw, "t") == ["a", "b", "c"]


def test_a_batch_that_grows_when_stored_in_another_codec_must_still_fit(raw: Raw) -> None:
    packed = batch("x" * 5_000, fields=BatchFields(codec=Codec.GZIP))
    create(raw, "t", compression_type="uncompressed", max_message_bytes=1_000)
    assert len(packed) < 1_000
    assert produce(raw, "t", packed).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_the_kind_of_timestamp_can_be_altered(raw: Raw, broker: Broker) -> None:
    create(raw, "t")
    append(raw, "t", batch("a", at=T0 - 50))
    alter(raw, TOPIC, "t", message_timestamp_type="LogAppendTime")
    broker.advance(1_000)
    assert produce(raw, "t", batch("b", at=T0 - 50)).log_append_time_ms == T0 + 1_000
    assert [record.timestamp for record in stored(raw, "t", starts_at(raw))] == [T0 - 50, T0 + 1_000]
    assert offset_at(raw, "t", T0).offset == 1


def test_min_insync_replicas_are_accepted_and_stop_nobody(raw: Raw) -> None:
    create(raw, "t", min_insync_replicas=3)
    assert produce(raw, "t", batch("a")).error_code == 0
