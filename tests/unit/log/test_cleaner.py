"""What compaction keeps of a batch, and of a log."""

from dataclasses import dataclass
from typing import Any

import pytest

from kohort.log.cleaner import Cleaning, clean_batch, count_cleanable, groups, note_keys
from kohort.log.log import LogConfig
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


def test_closed_segments_below_the_high_watermark_can_be_cleaned() -> None:
    assert cleanable(pieces(4), LogConfig()) == 3
    assert cleanable(pieces(4), LogConfig(), high_watermark=20) == 2
    assert cleanable(pieces(4), LogConfig(), high_watermark=19) == 1
    assert cleanable(pieces(1), LogConfig()) == 0
    assert cleanable([], LogConfig()) == 0


def test_neighbours_are_not_put_together_when_offsets_would_not_fit() -> None:
    far = [Piece(Offset(0)), Piece(Offset(2_000_000_000)), Piece(Offset(2_500_000_000))]
    grouped = groups(far, Offset(2_500_000_010), 10_000)
    assert [[piece.base_offset for piece in group] for group in grouped] == [
        [0],
        [2_000_000_000, 2_500_000_000],
    ]
