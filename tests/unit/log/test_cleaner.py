"""What compaction keeps of a batch, and of a log."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from kohort.log.cleaner import Cleaning, clean_batch, count_cleanable, groups, is_worth_it, note_keys
from kohort.log.log import Cleanup, LogConfig
from kohort.model.ids import Offset, WallTime
from kohort.records.batch import BatchFields, NewRecord, build_batch, read_header, read_records
from kohort.records.compression import Codec

NOW = WallTime(1_000_000)
RETENTION = 500


def made(*pairs: tuple[bytes | None, bytes | None], **fields: Any) -> bytes:  # noqa: ANN401 - of BatchFields
    """A batch at offset 100 of keys and values."""
    records = [NewRecord(1_000 + number, key, value) for number, (key, value) in enumerate(pairs)]
    return build_batch(records, BatchFields(base_offset=100)._replace(**fields))


def cleaning(
    *, active: dict[int, Offset] | None = None, end: int = 1_000, now: int = NOW, **newest: int
) -> Cleaning:
    offsets = {key.encode(): offset for key, offset in newest.items()}
    return Cleaning(offsets, active or {}, Offset(end), WallTime(now), RETENTION)


def clean(content: bytes, rules: Cleaning) -> bytes | None:
    return clean_batch(content, read_header(content), rules)


def left(content: bytes, rules: Cleaning) -> list[tuple[int, bytes | None]]:
    kept = clean(content, rules)
    return [] if kept is None else [(record.offset, record.key) for record in read_records(kept)]


def test_a_batch_of_newest_records_stays_as_it_is() -> None:
    content = made((b"a", b"1"), (b"b", b"2"))
    assert clean(content, cleaning(a=100, b=101)) is content
    assert clean(content, cleaning()) is content


def test_a_record_goes_when_a_later_one_has_its_key() -> None:
    content = made((b"a", b"1"), (b"b", b"2"), (b"c", b"3"))
    kept = clean(content, cleaning(a=100, b=700, c=102))
    assert kept is not None
    header = read_header(kept)
    assert (header.base_offset, header.last_offset, header.records_count) == (100, 102, 2)
    assert [(record.offset, record.timestamp) for record in read_records(kept)] == [
        (100, 1_000),
        (102, 1_002),
    ]


def test_a_record_without_a_key_goes() -> None:
    assert left(made((None, b"1"), (b"a", b"2")), cleaning()) == [(101, b"a")]


def test_the_codec_stays() -> None:
    content = made((b"a", b"1"), (b"b", b"2"), codec=Codec.ZSTD)
    kept = clean(content, cleaning(a=900))
    assert kept is not None
    assert read_header(kept).codec == Codec.ZSTD
    assert [record.key for record in read_records(kept)] == [b"b"]


def test_the_last_batch_of_a_remembered_producer_stays_as_an_empty_one() -> None:
    content = made((b"a", b"1"), producer_id=7, producer_epoch=3, base_sequence=5)
    assert clean(content, cleaning(a=900, active={7: Offset(101)})) is None
    kept = clean(content, cleaning(a=900, active={7: Offset(100)}))
    assert kept is not None
    header = read_header(kept)
    assert (header.records_count, header.last_offset, header.last_sequence) == (0, 100, 5)
    again = clean(kept, cleaning(active={7: Offset(100)}))
    assert again is not None
    assert clean(kept, cleaning()) is None


def test_the_last_batch_of_the_round_stays_as_an_empty_one() -> None:
    kept = clean(made((b"a", b"1")), cleaning(a=900, end=101))
    assert kept is not None
    assert read_header(kept).next_offset == 101


def test_a_tombstone_stays_until_its_horizon_and_then_goes() -> None:
    marked = clean(made((b"a", None), (b"b", b"2")), cleaning())
    assert marked is not None
    assert clean(marked, cleaning(now=NOW + RETENTION - 1)) is marked
    assert left(marked, cleaning(now=NOW + RETENTION)) == [(101, b"b")]


@pytest.mark.parametrize("fields", [{"transactional": True}, {"control": True}])
def test_transactions_are_left_alone_and_outdate_nothing(fields: dict[str, bool]) -> None:
    content = made((b"a", b"1"), producer_id=1, producer_epoch=0, base_sequence=0, **fields)
    assert clean(content, cleaning(a=900)) is content
    newest: dict[bytes, int] = {}
    note_keys(newest, content, read_header(content))
    assert newest == {}


def test_the_newest_offset_of_each_key_is_noted() -> None:
    content = made((b"a", b"1"), (None, b"x"), (b"b", None), (b"a", b"2"))
    newest = {b"a": 5, b"z": 6}
    note_keys(newest, content, read_header(content))
    assert newest == {b"a": 103, b"b": 102, b"z": 6}


@dataclass
class Piece:
    """A segment of ten offsets."""

    base_offset: Offset
    size: int = 100
    timestamp: int = 1_000
    modified: int = 0

    @property
    def youngest(self) -> tuple[int, int]:
        return self.timestamp, self.base_offset

    @property
    def first_timestamp(self) -> int:
        return self.timestamp


def pieces(count: int, **fields: int) -> list[Piece]:
    return [Piece(Offset(10 * number), **fields) for number in range(count)]


def cleanable(segments: list[Piece], config: LogConfig, *, high_watermark: int = 99, dirty: int = 0) -> int:
    return count_cleanable(segments, Offset(dirty), Offset(high_watermark), config, NOW)


def is_due(closed: list[Piece], first_dirty: int, config: LogConfig) -> bool:
    """Whether to clean closed segments that all may be cleaned; another is open after them."""
    active = Piece(Offset(10 * len(closed)))
    compacted = replace(config, cleanup=Cleanup.COMPACT)
    assert not is_worth_it([*closed, active], Offset(first_dirty), Offset(99), config, NOW)
    return is_worth_it([*closed, active], Offset(first_dirty), Offset(99), compacted, NOW)


def test_closed_segments_below_the_high_watermark_can_be_cleaned() -> None:
    assert cleanable(pieces(4), LogConfig()) == 3
    assert cleanable(pieces(4), LogConfig(), high_watermark=20) == 2
    assert cleanable(pieces(4), LogConfig(), high_watermark=19) == 1
    assert cleanable(pieces(1), LogConfig()) == 0
    assert cleanable([], LogConfig()) == 0


def test_what_is_younger_than_the_lag_waits() -> None:
    segments = pieces(4)
    segments[1].timestamp = NOW - 10
    assert cleanable(segments, LogConfig(min_compaction_lag_ms=11)) == 1
    assert cleanable(segments, LogConfig(min_compaction_lag_ms=10)) == 3
    assert cleanable(segments, LogConfig(min_compaction_lag_ms=11), dirty=20) == 3
    segments[1].timestamp, segments[1].modified = -1, NOW - 5
    assert cleanable(segments, LogConfig(min_compaction_lag_ms=11)) == 1


@pytest.mark.parametrize(("cleaned_up_to", "expected"), [(0, True), (10, True), (20, False), (40, False)])
def test_cleaning_is_worth_it_when_enough_is_dirty(cleaned_up_to: int, expected: bool) -> None:
    config = LogConfig(min_cleanable_dirty_ratio=0.5)
    assert is_due(pieces(4), cleaned_up_to, config) is expected


def test_cleaning_is_worth_it_when_something_waited_too_long() -> None:
    config = LogConfig(max_compaction_lag_ms=NOW - 1_001)
    assert is_due(pieces(4), 30, config)
    assert not is_due(pieces(4), 40, config)
    without_time = pieces(4, timestamp=-1)
    assert not is_due(without_time, 30, config)
    without_time[3].timestamp = 1_000
    assert is_due(without_time, 30, config)


def test_neighbours_are_not_put_together_when_offsets_would_not_fit() -> None:
    far = [Piece(Offset(0)), Piece(Offset(2_000_000_000)), Piece(Offset(2_500_000_000))]
    grouped = groups(far, Offset(2_500_000_010), 10_000)
    assert [[piece.base_offset for piece in group] for group in grouped] == [
        [0],
        [2_000_000_000, 2_500_000_000],
    ]
