"""Whatever records go in come out again; whatever bytes there are, only typed errors come out."""

import struct
import tracemalloc
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.primitives.crc import crc32c
from kohort.records.batch import (
    HEADER_SIZE,
    BatchFields,
    BatchHeader,
    CorruptBatchError,
    NewRecord,
    Record,
    batches,
    build_batch,
    check_crc,
    read_header,
    read_records,
    rebuild_batch,
)
from kohort.records.compression import Codec, compress, decompress
from kohort.records.errors import CompressionError, OversizedPayloadError
from kohort.records.produced import ProduceRules, RefusedBatchError, check_produced
from kohort.records.record import decode_records
from kohort.records.walk import Walk, walk_records

NOW = 1_700_000_000_000
LIMIT = 1 << 20
INT32, INT64 = (1 << 31) - 1, (1 << 63) - 1

steady = settings(derandomize=True, deadline=None, max_examples=70)

blobs = st.none() | st.binary(max_size=40) | st.integers(0, 9000).map(bytes)
headers = st.lists(st.tuples(st.text(max_size=12), st.none() | st.binary(max_size=12)), max_size=3)
timestamps = st.integers(NOW - 2000, NOW + 2000) | st.just(-1) | st.integers(-(1 << 61), 1 << 61)
new_records = st.builds(NewRecord, timestamps, blobs, blobs, headers)
record_lists = st.lists(new_records, min_size=1, max_size=12)
codecs = st.sampled_from(Codec)
fields = st.builds(
    BatchFields,
    base_offset=st.integers(0, 1 << 60),
    leader_epoch=st.integers(-1, INT32),
    codec=codecs,
    producer_id=st.integers(-1, INT64),
    producer_epoch=st.integers(-1, (1 << 15) - 1),
    base_sequence=st.integers(-1, INT32),
    transactional=st.booleans(),
    control=st.booleans(),
    append_time=st.none() | st.integers(0, 1 << 50),
)


def as_written(record: NewRecord, offset: int, timestamp: int | None) -> Record:
    own = record.timestamp if timestamp is None else timestamp
    return Record(offset, own, record.key, record.value, record.headers or ())


@pytest.mark.slow
@steady
@given(record_lists, fields)
def test_records_come_back_as_they_were_written(records: list[NewRecord], given_fields: BatchFields) -> None:
    batch = build_batch(records, given_fields)
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert header.size == len(batch)
    assert header.next_offset == given_fields.base_offset + len(records)
    assert header.is_transactional == given_fields.transactional
    assert read_records(b"before" + batch + b"behind", 6) == [
        as_written(record, given_fields.base_offset + place, given_fields.append_time)
        for place, record in enumerate(records)
    ]


@pytest.mark.slow
@steady
@given(record_lists, fields, st.data())
def test_any_records_can_be_taken_out_of_a_batch(
    records: list[NewRecord], given_fields: BatchFields, data: st.DataObject
) -> None:
    batch = build_batch(records, given_fields)
    header, all_records = read_header(batch), read_records(batch)
    kept = [record for record in all_records if data.draw(st.booleans())]
    horizon = data.draw(st.none() | st.integers(0, 1 << 50))
    rebuilt = rebuild_batch(header, kept, delete_horizon=horizon, codec=data.draw(st.none() | codecs))
    after = read_header(rebuilt)
    check_crc(rebuilt, 0, after)
    assert read_records(rebuilt) == kept
    assert (after.base_offset, after.next_offset) == (header.base_offset, header.next_offset)
    assert after.delete_horizon == (horizon if kept else None)
    assert rebuild_batch(after, read_records(rebuilt)) == rebuilt


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A batch with some bytes changed, taken out or put in, and often a checksum that hides it."""
    batch = bytearray(build_batch(draw(record_lists), draw(fields)._replace(base_offset=0)))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, min(len(batch) - 1, draw(st.sampled_from((HEADER_SIZE, 80, 1 << 20))))))
        match draw(st.integers(0, 3)):
            case 0:
                batch[place] = draw(st.integers(0, 255))
            case 1:
                batch[place] ^= 1 << draw(st.integers(0, 7))
            case 2:
                del batch[place : place + draw(st.integers(1, 9))]
            case _:
                batch[place:place] = draw(st.binary(min_size=1, max_size=9))
        if not batch:
            break
    if len(batch) >= HEADER_SIZE and draw(st.booleans()):
        struct.pack_into(">i", batch, 8, len(batch) - 12)
        struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    return bytes(batch)


def every_record(batch: bytes) -> None:
    for position, header in batches(batch):
        read_records(batch, position, header, limit=LIMIT)


def produced(batch: bytes) -> None:
    rules = ProduceRules(
        now=NOW, api_version=13, compacted=True, decompressed_limit=LIMIT, codec=Codec.SNAPPY
    )
    check_produced(batch, rules)


@pytest.mark.slow
@settings(steady, max_examples=120)
@given(damaged())
def test_damage_leads_to_a_typed_error_or_to_nothing(batch: bytes) -> None:
    readers: tuple[Callable[[bytes], object], ...] = (
        read_header,
        read_records,
        every_record,
        produced,
    )
    for read in readers:
        tracemalloc.start()
        try:
            with suppress(CorruptBatchError, RefusedBatchError):
                read(batch)
            assert tracemalloc.get_traced_memory()[1] < 8 * LIMIT
        finally:
            tracemalloc.stop()


def outcome(read: Callable[[bytes, BatchHeader], object], payload: bytes, header: BatchHeader) -> object:
    try:
        return read(payload, header)
    except CorruptBatchError:
        return None


@pytest.mark.slow
@settings(steady, max_examples=120)
@given(record_lists, st.data())
def test_a_walk_refuses_what_reading_refuses_and_sees_what_it_sees(
    records: list[NewRecord], data: st.DataObject
) -> None:
    batch = build_batch(records)
    header, payload = read_header(batch), bytearray(batch[HEADER_SIZE:])
    for _ in range(data.draw(st.integers(0, 2))):
        payload[data.draw(st.integers(0, min(40, len(payload) - 1)))] = data.draw(st.integers(0, 255))
    read = outcome(decode_records, bytes(payload), header)
    walked = outcome(walk_records, bytes(payload), header)
    assert (read is None) == (walked is None)
    if isinstance(read, list):
        assert walked == Walk(
            in_order=[record.offset for record in read] == list(range(len(read))),
            oldest=min(record.timestamp for record in read),
            newest=max(record.timestamp for record in read),
            null_keys=[place for place, record in enumerate(read) if record.key is None],
        )


@pytest.mark.slow
@settings(steady, max_examples=100)
@given(codecs, st.binary(max_size=200) | st.integers(0, 200_000).map(bytes), st.data())
def test_a_damaged_payload_decompresses_or_is_refused(
    codec: Codec, content: bytes, data: st.DataObject
) -> None:
    squeezed = compress(codec, content)
    assert decompress(codec, squeezed) == content
    broken = bytearray(squeezed)
    for _ in range(data.draw(st.integers(1, 3))):
        if broken:
            broken[data.draw(st.integers(0, min(60, len(broken) - 1)))] = data.draw(st.integers(0, 255))
    with suppress(CompressionError, OversizedPayloadError):
        assert len(decompress(codec, broken, LIMIT)) <= LIMIT


@steady
@given(st.integers(0, 7), st.binary(max_size=100))
def test_noise_decompresses_or_is_refused(codec: int, noise: bytes) -> None:
    with suppress(CompressionError, OversizedPayloadError):
        assert len(decompress(codec, noise, LIMIT)) <= LIMIT
