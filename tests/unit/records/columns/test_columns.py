"""What is special about columns; that they hold what records do is a property."""

import pytest

from kohort.primitives.crc import crc32c
from kohort.records.batch import BatchFields, CorruptBatchError, NewRecord, build_batch
from kohort.records.columns import read, sections
from kohort.records.columns.arrow import ColumnSelection, PieceOrigin, record_batches
from kohort.records.columns.read import read_columns
from kohort.records.columns.spans import Columns
from kohort.records.columns.table import Sifting, find_batches
from kohort.records.compression import Codec
from kohort.records.errors import CompressionError, LegacyFormatError

NAMES = ("key", "value", "offset", "timestamp", "headers")


def batch(base: int, count: int = 3, codec: Codec = Codec.NONE) -> bytes:
    records = [NewRecord(base + at, b"k", b"%d" % (base + at)) for at in range(count)]
    return build_batch(records, BatchFields(base_offset=base, codec=codec))


def patched(good: bytes, place: int, content: bytes) -> bytes:
    """Other bytes in a batch, with the checksum they need."""
    changed = bytearray(good)
    changed[place : place + len(content)] = content
    changed[17:21] = crc32c(memoryview(changed)[21:]).to_bytes(4, "big")
    return bytes(changed)


def rows(columns: Columns) -> list[dict[str, object]]:
    wanted = ColumnSelection(NAMES, 2, 0, 1 << 60)
    return [row for one in record_batches(columns, PieceOrigin("t", 0), wanted) for row in one.to_pylist()]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_long_log_comes_in_sections(monkeypatch: pytest.MonkeyPatch, codec: Codec) -> None:
    monkeypatch.setattr(sections, "SECTION_BYTES", 40)
    log = b"".join(batch(base, codec=codec) for base in range(0, 30, 3))
    found = [one.offsets.tolist() for one in read_columns(log)]
    assert [offset for one in found for offset in one] == list(range(30))
    assert len(found) > 3


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_payloads_larger_than_a_section_make_room_for_themselves(
    monkeypatch: pytest.MonkeyPatch, codec: Codec
) -> None:
    monkeypatch.setattr(sections, "SECTION_BYTES", 2_000)
    monkeypatch.setattr(sections, "_SPARE_BYTES", 0)
    batches = [
        build_batch([NewRecord(0, None, b"%d" % base * size)], BatchFields(base_offset=base, codec=codec))
        for base, size in enumerate((900, 900, 300_000, 5))
    ]
    found = [row["value"] for one in read_columns(b"".join(batches)) for row in rows(one)]
    assert found == [b"0" * 900, b"1" * 900, b"2" * 300_000, b"3" * 5]


def test_what_stands_behind_the_end_is_not_looked_at() -> None:
    log = batch(0) + batch(3) + patched(batch(6), 61, b"\x7f") + b"\xff" * 100
    (columns,) = read_columns(log, Sifting(end=5))
    assert columns.offsets.tolist() == list(range(6)), "the last batch as a whole"
    with pytest.raises(CorruptBatchError, match="batch at offset 6"):
        list(read_columns(log, Sifting(end=7)))


@pytest.mark.parametrize("bad", range(4))
@pytest.mark.parametrize("fewest", [1, 1_000])
def test_the_batches_before_a_bad_one_are_read(
    monkeypatch: pytest.MonkeyPatch, fewest: int, bad: int
) -> None:
    monkeypatch.setattr(read, "FEWEST_RECORDS", fewest)
    batches = [batch(base) for base in (0, 3, 6, 9)]
    batches[bad] = patched(batches[bad], 61, b"\x7f")  # the length of the first record
    found: list[int] = []
    reading = read_columns(b"".join(batches))
    if bad:
        found += next(reading).offsets.tolist()
    with pytest.raises(CorruptBatchError, match=f"batch at offset {3 * bad}: "):
        next(reading)
    assert found == list(range(3 * bad))


def test_counts_codecs_and_offsets_that_lie_are_refused() -> None:
    lies = {
        57: (2**31 - 1).to_bytes(4, "big"),  # records
        22: b"\x05",  # a codec that does not exist
        27: b"\x7f" + b"\xff" * 7,  # base timestamp
    }
    for place, content in lies.items():
        reading = read_columns(batch(0) + patched(batch(3), place, content))
        assert next(reading).offsets.tolist() == [0, 1, 2]
        with pytest.raises(CorruptBatchError):
            next(reading)
    with pytest.raises(CompressionError):
        list(read_columns(patched(batch(0), 22, b"\x05")))
    with pytest.raises(CorruptBatchError, match="no room"):
        list(read_columns(b"\x7f" + b"\xff" * 7 + batch(0)[8:]))
    with pytest.raises(LegacyFormatError):
        list(read_columns(bytes(16) + b"\x01" + bytes(60)))


def test_records_of_one_length_are_found_in_leaps_and_others_in_steps() -> None:
    lengths = [*[100] * 90, *range(70), *[5] * 40, 9_000, 9_000, 1_100_000, *[0] * 50]
    records = [NewRecord(at, b"k" * (at % 2), b"v" * length) for at, length in enumerate(lengths)]
    good = build_batch(records)
    (columns,) = read_columns(good)
    assert [len(str(row["value"])) - 3 for row in rows(columns)] == lengths
    tenth = good.index(b"\x00\x14", 61)  # attributes, then the tenth's delta of its timestamp
    reading = read_columns(patched(good, tenth - 1, b"\x02"))
    with pytest.raises(CorruptBatchError, match="batch at offset 0: "):
        next(reading)


def test_a_log_without_batches_has_no_next_offset() -> None:
    assert find_batches(b"").next_offset is None
    assert find_batches(batch(0)[:-1]).next_offset is None
    assert find_batches(batch(0) + batch(3)).next_offset == 6


def test_checksums_are_looked_at_unless_told_otherwise() -> None:
    log = bytearray(batch(0))
    log[17] ^= 1
    with pytest.raises(CorruptBatchError, match="checksum"):
        list(read_columns(bytes(log)))
    (columns,) = read_columns(bytes(log), Sifting(check_crcs=False))
    assert columns.offsets.tolist() == [0, 1, 2]


def test_header_keys_that_are_no_text_are_mended_and_far_times_brought_near() -> None:
    records = [
        NewRecord(1 << 62, None, b"", [("\udcff", None), ("é", b"1")]),
        NewRecord(1 << 62, b"", None),
    ]
    (columns,) = read_columns(build_batch(records))
    wanted = ColumnSelection(("key", "value", "headers"), 10, 0, 9)
    (found,) = record_batches(columns, PieceOrigin("t", 0), wanted)
    assert found.to_pylist() == [
        {
            "key": None,
            "value": b"",
            "headers": [{"key": "\ufffd", "value": None}, {"key": "é", "value": b"1"}],
        },
        {"key": b"", "value": None, "headers": None},
    ]
    (times,) = record_batches(columns, PieceOrigin("t", 0), wanted._replace(names=("timestamp",)))
    assert times.column("timestamp").cast("int64").to_pylist() == [((1 << 63) - 1) // 1_000 * 1_000] * 2


def test_rows_come_in_portions_and_only_those_of_the_range() -> None:
    (columns,) = read_columns(batch(0, 9))
    found = list(record_batches(columns, PieceOrigin("t", 0), ColumnSelection(("offset",), 2, 2, 7)))
    assert [one.column("offset").to_pylist() for one in found] == [[2, 3], [4, 5], [6]]
    assert list(record_batches(columns, PieceOrigin("t", 0), ColumnSelection(("offset",), 2, 20, 70))) == []
    assert [row["value"] for row in rows(columns)][:2] == [b"0", b"1"]
