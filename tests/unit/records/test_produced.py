"""What a broker makes of a batch that a producer sent."""

import struct
from collections.abc import Sequence
from random import Random

import pytest

from kohort.model.errors import ErrorCode
from kohort.primitives.crc import crc32c
from kohort.records.batch import (
    BatchFields,
    BatchHeader,
    NewRecord,
    Record,
    build_batch,
    check_crc,
    read_header,
    read_records,
    rebuild_batch,
)
from kohort.records.compression import Codec
from kohort.records.produced import (
    AT_ONCE_BYTES,
    AT_ONCE_COMPRESSED,
    AT_ONCE_RECORDS,
    AT_ONCE_RENUMBERED,
    UNLIMITED,
    NotAtOnceError,
    Produced,
    ProduceRules,
    RefusedBatchError,
    check_produced,
    price_of,
)

NOW = 1_700_000_000_000
RULES = ProduceRules(now=NOW, api_version=13)
SHALLOW = RULES._replace(deep=False)
AT_ONCE = RULES._replace(at_once=True, max_message_bytes=UNLIMITED)
RECORDS = [NewRecord(NOW - 5, b"a", b"1"), NewRecord(NOW, b"b", None), NewRecord(NOW - 9, b"c", b"3")]
BATCH = build_batch(RECORDS)

FIELDS = {"base_offset": (0, ">q"), "length": (8, ">i"), "magic": (16, ">b"), "attributes": (21, ">h")}
FIELDS |= {"last_offset_delta": (23, ">i"), "base_timestamp": (27, ">q"), "max_timestamp": (35, ">q")}
FIELDS |= {"producer_id": (43, ">q"), "base_sequence": (53, ">i"), "records_count": (57, ">i")}


def altered(batch: bytes = BATCH, **fields: int) -> bytes:
    """The batch with other numbers in its header, and a checksum that is right for them."""
    out = bytearray(batch)
    for name, value in fields.items():
        place, kind = FIELDS[name]
        struct.pack_into(kind, out, place, value)
    struct.pack_into(">I", out, 17, crc32c(out[21:]))
    return bytes(out)


def refusal(batch: bytes, rules: ProduceRules = RULES) -> RefusedBatchError:
    with pytest.raises(RefusedBatchError) as caught:
        check_produced(batch, rules)
    return caught.value


def stored(produced: Produced) -> list[Record]:
    """The records of a rewritten batch, whose checksum must be right."""
    assert produced.replacement is not None
    check_crc(produced.replacement, 0, produced.header)
    assert produced.header == read_header(produced.replacement)
    return read_records(produced.replacement)


def plain(records: Sequence[Record]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.timestamp, record.key, record.value) for record in records]


@pytest.mark.parametrize("rules", [RULES, SHALLOW])
@pytest.mark.parametrize("codec", Codec)
def test_a_good_batch_is_stored_as_it_came(codec: Codec, rules: ProduceRules) -> None:
    batch = build_batch(RECORDS, BatchFields(codec=codec, producer_id=4, producer_epoch=0, base_sequence=0))
    assert check_produced(batch, rules) == Produced(read_header(batch), None)
    assert check_produced(memoryview(batch), rules).replacement is None


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        (altered(magic=0), ErrorCode.INVALID_RECORD),
        (altered(magic=1), ErrorCode.INVALID_RECORD),
        (altered(magic=3), ErrorCode.CORRUPT_MESSAGE),
        (altered(length=48), ErrorCode.CORRUPT_MESSAGE),
        (BATCH[:17] + b"\x00\x00\x00\x00" + BATCH[21:], ErrorCode.CORRUPT_MESSAGE),
        (altered(base_offset=1), ErrorCode.INVALID_RECORD),
        (altered(records_count=2), ErrorCode.INVALID_RECORD),
        (altered(records_count=0, last_offset_delta=-1), ErrorCode.INVALID_RECORD),
        (altered(records_count=-3, last_offset_delta=-4), ErrorCode.INVALID_RECORD),
        (altered(last_offset_delta=0), ErrorCode.INVALID_RECORD),
        (altered(attributes=0x20), ErrorCode.INVALID_RECORD),
        (altered(attributes=5), ErrorCode.INVALID_RECORD),
        (altered(producer_id=0), ErrorCode.INVALID_RECORD),
        (altered(attributes=0x08, max_timestamp=-1), ErrorCode.INVALID_TIMESTAMP),
    ],
)
@pytest.mark.parametrize("rules", [RULES, SHALLOW])
def test_a_bad_header_is_refused(batch: bytes, code: ErrorCode, rules: ProduceRules) -> None:
    refused = refusal(batch, rules)
    assert refused.code is code
    # Of these, Kafka blames a record only for a timestamp.
    assert bool(refused.record_errors) == (code is ErrorCode.INVALID_TIMESTAMP)


def test_a_batch_may_be_as_large_as_the_limits_and_no_larger() -> None:
    size = len(BATCH)
    check_produced(BATCH, RULES._replace(max_message_bytes=size, segment_bytes=size))
    assert refusal(BATCH, RULES._replace(max_message_bytes=size - 1)).code is ErrorCode.MESSAGE_TOO_LARGE
    assert refusal(BATCH, RULES._replace(segment_bytes=size - 1)).code is ErrorCode.RECORD_LIST_TOO_LARGE


@pytest.mark.parametrize("codec", Codec)
def test_records_that_are_none_are_refused_unless_nobody_looks(codec: Codec) -> None:
    garbage = altered(BATCH[:61] + b"\x50" + BATCH[62:], attributes=codec)
    assert check_produced(garbage, SHALLOW).replacement is None
    assert refusal(garbage).code is ErrorCode.INVALID_RECORD


def test_a_payload_that_would_grow_beyond_the_limit_is_too_large() -> None:
    batch = build_batch([NewRecord(NOW, None, bytes(100_000))], BatchFields(codec=Codec.ZSTD))
    assert refusal(batch, RULES._replace(decompressed_limit=50_000)).code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_of_many_records_is_not_looked_at_at_once(codec: Codec) -> None:
    fields = BatchFields(codec=codec)
    allowed = build_batch([NewRecord(NOW, None, b"")] * AT_ONCE_RECORDS, fields)
    assert check_produced(allowed, AT_ONCE).replacement is None
    more = build_batch([NewRecord(NOW, None, b"")] * (AT_ONCE_RECORDS + 1), fields)
    with pytest.raises(NotAtOnceError, match="10001 records"):
        check_produced(more, AT_ONCE)
    assert check_produced(more, AT_ONCE._replace(at_once=False)).replacement is None


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_batch_that_grows_large_is_not_looked_at_at_once(codec: Codec) -> None:
    large = build_batch([NewRecord(NOW, None, bytes(AT_ONCE_BYTES))], BatchFields(codec=codec))
    with pytest.raises(NotAtOnceError):
        check_produced(large, AT_ONCE)
    assert check_produced(large, AT_ONCE._replace(at_once=False)).replacement is None
    limited = AT_ONCE._replace(decompressed_limit=AT_ONCE_BYTES)
    if len(large) <= AT_ONCE_COMPRESSED:
        assert refusal(large, limited).code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_batch_with_many_compressed_bytes_is_not_looked_at_at_once(codec: Codec) -> None:
    noise = Random(1).randbytes(AT_ONCE_COMPRESSED)
    large = build_batch([NewRecord(NOW, None, noise)], BatchFields(codec=codec))
    with pytest.raises(NotAtOnceError, match="compressed bytes"):
        check_produced(large, AT_ONCE)
    assert check_produced(large, AT_ONCE._replace(at_once=False)).replacement is None


@pytest.mark.parametrize("count", [2, AT_ONCE_RENUMBERED + 1])
def test_a_batch_of_many_records_is_not_rewritten_at_once(count: int) -> None:
    plain = build_batch([NewRecord(NOW, None, b"")] * count)
    rules = AT_ONCE._replace(codec=Codec.LZ4)
    if count > AT_ONCE_RENUMBERED:
        with pytest.raises(NotAtOnceError, match="rewritten"):
            check_produced(plain, rules)
        rules = rules._replace(at_once=False)
    assert check_produced(plain, rules).header.codec == Codec.LZ4


def test_the_price_of_a_batch_grows_with_what_has_to_be_looked_at() -> None:
    records = [NewRecord(NOW, None, bytes(100))] * 1_000
    plain, squeezed = (build_batch(records, BatchFields(codec=codec)) for codec in (Codec.NONE, Codec.ZSTD))
    assert price_of(b"") < price_of(build_batch(records[:1])) < price_of(plain)
    assert price_of(squeezed) > price_of(plain) > len(squeezed)
    many = build_batch([NewRecord(NOW, None, b"")] * 10 * AT_ONCE_RECORDS, BatchFields(codec=Codec.ZSTD))
    assert price_of(many) < 2 * AT_ONCE_RECORDS + AT_ONCE_BYTES // 400  # a thread looks at it


def test_what_the_header_tells_is_told_at_once() -> None:
    more = build_batch([NewRecord(NOW, None, b"")] * (AT_ONCE_RECORDS + 1))
    assert refusal(altered(more, base_offset=1), AT_ONCE).code is ErrorCode.INVALID_RECORD
    assert refusal(more, AT_ONCE._replace(max_message_bytes=1_000)).code is ErrorCode.MESSAGE_TOO_LARGE
    assert check_produced(more, AT_ONCE._replace(deep=False)).replacement is None


def test_more_than_a_million_records_need_a_byte_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kohort.records.produced.MANY_RECORDS", 100)
    dense = build_batch([NewRecord(NOW, None, b"")] * 1_000, BatchFields(codec=Codec.ZSTD))
    assert len(dense) < 2_000
    assert check_produced(dense, RULES).replacement is None
    denser = build_batch([NewRecord(NOW, None, b"")] * 10_000, BatchFields(codec=Codec.ZSTD))
    assert len(denser) < 10_000
    for rules in (RULES, AT_ONCE):
        refused = refusal(denser, rules)
        assert refused.code is ErrorCode.MESSAGE_TOO_LARGE
        assert "10000 records" in str(refused)


def test_a_wrong_newest_timestamp_is_put_right() -> None:
    produced = check_produced(altered(max_timestamp=NOW + 50), RULES)
    assert produced.header.max_timestamp == NOW
    assert plain(stored(produced)) == plain(read_records(BATCH))


@pytest.mark.parametrize(
    ("before", "after", "places"), [(8, 0, [2]), (4, 0, [0, 2]), (UNLIMITED, -1, [1]), (9, 0, [])]
)
def test_timestamps_out_of_range_are_named(before: int, after: int, places: list[int]) -> None:
    for rules in (RULES, SHALLOW):
        bounded = rules._replace(timestamp_before_max_ms=before, timestamp_after_max_ms=after)
        if places and (rules.deep or before != UNLIMITED):
            refused = refusal(BATCH, bounded)
            assert refused.code is ErrorCode.INVALID_TIMESTAMP
            assert [place for place, _ in refused.record_errors] == places
        elif not places:
            assert check_produced(BATCH, bounded).replacement is None


@pytest.mark.parametrize("wanted", Codec)
@pytest.mark.parametrize("sent", Codec)
def test_a_topic_with_its_own_codec_gets_it(sent: Codec, wanted: Codec) -> None:
    batch = build_batch(RECORDS, BatchFields(codec=sent, producer_id=4, producer_epoch=1, base_sequence=9))
    produced = check_produced(batch, SHALLOW._replace(codec=wanted))
    if sent is wanted:
        assert produced.replacement is None
        return
    assert stored(produced) == read_records(batch)
    assert (produced.header.codec, produced.header.base_sequence) == (wanted, 9)


@pytest.mark.parametrize("codec", Codec)
def test_records_out_of_place_are_numbered_anew(codec: Codec) -> None:
    header: BatchHeader = read_header(build_batch(RECORDS, BatchFields(codec=codec)))._replace(
        last_offset_delta=9
    )
    gaps = [Record(offset, NOW, b"k", b"v") for offset in (1, 4, 9)]
    batch = altered(rebuild_batch(header, gaps), last_offset_delta=2)
    produced = check_produced(batch, RULES)
    assert [record.offset for record in stored(produced)] == [0, 1, 2]
    assert produced.header.codec == codec
    claimed = altered(batch, attributes=codec | 0x08)
    assert [record.timestamp for record in stored(check_produced(claimed, RULES))] == [NOW] * 3


def test_a_refusal_says_what_is_wrong() -> None:
    assert str(refusal(altered(base_offset=8))) == "the base offset is 8, a producer must send 0"
    assert refusal(altered(base_offset=8)).retriable is False
