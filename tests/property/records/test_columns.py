"""Three decoders, one result: that of ``read_records``, for batches that are whole and for any others."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.rounds import ROUNDS

from kohort.client.fetching import chunk as chunk_module
from kohort.client.fetching.chunk import BadRecordError, Chunk, ConsumerRecord, Reading
from kohort.model.ids import Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.primitives.crc import crc32c
from kohort.records.batch import (
    BatchFields,
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
from kohort.records.columns import lanes, read, spotting
from kohort.records.columns.read import read_columns
from kohort.records.columns.spans import Columns
from kohort.records.columns.table import OFFSET_LIMIT, Sifting
from kohort.records.compression import Codec
from kohort.records.header import CONTROL
from kohort.wire.messages.fetch import PartitionData

NOW = 1_700_000_000_000


@contextmanager
def by_few() -> Iterator[None]:
    """The decoder for a few records, however many there are."""
    with mock.patch.object(read, "FEWEST_RECORDS", 1 << 30):
        yield


@contextmanager
def by_lanes() -> Iterator[None]:
    """The one for many, however few there are."""
    with mock.patch.object(read, "FEWEST_RECORDS", 1):
        yield


@contextmanager
def by_spotting() -> Iterator[None]:
    """The same, where even a few records are tried to be spotted at once."""
    with by_lanes(), mock.patch.multiple(spotting, FEWEST_RECORDS=1, LONGEST_RECORD=1 << 20, STRETCH=50):
        yield


DECODERS = {"few": by_few, "lanes": by_lanes, "spotting": by_spotting}

steady = settings(
    derandomize=True, deadline=None, max_examples=40 * ROUNDS, phases=(Phase.explicit, Phase.generate)
)

blobs = st.none() | st.binary(max_size=40) | st.integers(0, 9000).map(bytes)
headers = st.lists(st.tuples(st.text(max_size=12), st.none() | st.binary(max_size=12)), max_size=3)
timestamps = st.integers(NOW - 2000, NOW + 2000) | st.just(-1) | st.integers(-(1 << 61), 1 << 61)
new_records = st.builds(NewRecord, timestamps, blobs, blobs, headers)
record_lists = st.lists(new_records, min_size=1, max_size=12)
fields = st.builds(
    lambda codec, control, append_time: BatchFields(codec=codec, control=control, append_time=append_time),
    codec=st.sampled_from([Codec.NONE, Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]),
    control=st.just(False) | st.booleans(),
    append_time=st.none() | st.integers(0, 1 << 50),
)


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Batches one after the other, some with the gaps a compaction leaves."""
    log, offset = b"", draw(st.integers(0, 1 << 60))
    for records, given_fields in draw(st.lists(st.tuples(record_lists, fields), max_size=6)):
        batch = build_batch(records, given_fields._replace(base_offset=offset))
        if draw(st.booleans()):
            kept = [record for record in read_records(batch) if draw(st.booleans())]
            batch = rebuild_batch(read_header(batch), kept)
        log += batch
        offset = read_header(batch).next_offset
    return log


def records_of(columns: Columns) -> Iterator[Record]:
    """Columns as the records they stand for."""
    view = bytes(columns.data)
    at = 0
    for row, offset in enumerate(columns.offsets.tolist()):
        key_at, key_end, value_at, value_end = columns.bounds[4 * row : 4 * row + 4].tolist()
        found = []
        if columns.headers is not None:
            for number in range(at, at + int(columns.headers.counts[row])):
                name_at, name_end, begin, end = columns.headers.bounds[4 * number : 4 * number + 4].tolist()
                value = view[begin:end] if columns.headers.values[number] else None
                found.append((view[name_at:name_end].decode("utf-8", "surrogateescape"), value))
            at += len(found)
        yield Record(
            offset,
            int(columns.timestamps[row]),
            view[key_at:key_end] if columns.keys[row] else None,
            view[value_at:value_end] if columns.values[row] else None,
            found or (),
        )


def in_columns(log: bytes) -> tuple[list[Record], bool]:
    """The records up to what cannot be read, and whether there is such a thing."""
    found: list[Record] = []
    try:
        for columns in read_columns(log):
            assert (np.diff(columns.bounds) >= 0).all()
            found += records_of(columns)
    except CorruptBatchError:
        return found, True
    return found, False


def one_by_one(log: bytes) -> tuple[list[Record], bool]:
    """The same by ``read_records``."""
    found: list[Record] = []
    try:
        for position, header in batches(log):
            if abs(header.base_offset) > OFFSET_LIMIT:
                raise CorruptBatchError("vectors of 64 bits have no room for what comes behind it")
            check_crc(log, position, header)
            if not header.is_control and header.next_offset > 0:
                found += [
                    record._replace(headers=record.headers or ())
                    for record in read_records(log, position, header)
                ]
    except CorruptBatchError:
        return found, True
    return found, False


@pytest.mark.slow
@pytest.mark.parametrize("name", DECODERS)
@steady
@given(log=logs(), torn=st.integers(0, 80))
def test_columns_hold_what_records_do(name: str, log: bytes, torn: int) -> None:
    log = log[: max(0, len(log) - torn)]
    with DECODERS[name]():
        assert in_columns(log) == (one_by_one(log)[0], False)


@pytest.mark.slow
@pytest.mark.parametrize(("lanes_from", "leaps_from"), [(1, 32), (96, 32), (96, 1)])
@settings(steady, max_examples=40 * ROUNDS)
@given(data=st.data())
def test_damaged_batches_are_refused_by_all_or_by_none(
    lanes_from: int, leaps_from: int, data: st.DataObject
) -> None:
    log = bytearray(data.draw(logs().filter(bool)))
    mutations = st.tuples(
        st.integers(0, len(log) - 1), st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255)
    )
    for place, byte in data.draw(st.lists(mutations, min_size=1, max_size=4)):
        log[place] = byte
    mend(log)
    expected = one_by_one(bytes(log))
    with mock.patch.multiple(lanes, FEWEST_LANES=lanes_from, FEWEST_STEPS=leaps_from):
        for decoder in DECODERS.values():
            with decoder():
                assert in_columns(bytes(log)) == expected


@pytest.mark.slow
@settings(steady, max_examples=40 * ROUNDS)
@given(data=st.data())
def test_a_consumer_gets_the_same_records_with_numpy_and_without(data: st.DataObject) -> None:
    log = bytearray(data.draw(logs().filter(bool)))
    for place, byte in data.draw(
        st.lists(st.tuples(st.integers(0, len(log) - 1), st.integers(0, 255)), max_size=2)
    ):
        log[place] = byte
    mend(log)
    start = data.draw(st.sampled_from([0, *(record.offset for record in one_by_one(bytes(log))[0])]))
    results = []
    for at_least in (1, 1 << 30):
        with mock.patch.object(chunk_module, "_WORTH_NUMPY", at_least):
            results.append(taken(bytes(log), start, 7))
    assert results[0] == results[1]


def test_a_marker_that_stands_too_far_on_hides_what_is_behind_it_with_numpy_and_without() -> None:
    marker = bytearray(build_batch([NewRecord(NOW, None, b"v")], BatchFields(base_offset=0)))
    marker[0] = 1  # an offset no log reaches; no checksum covers it
    marker[22] |= CONTROL
    log = marker + build_batch([NewRecord(NOW, None, b"v")], BatchFields(base_offset=1))
    mend(log)
    for at_least in (1, 1 << 30):
        with mock.patch.object(chunk_module, "_WORTH_NUMPY", at_least):
            assert taken(bytes(log), 0, 7) == ([], (1 << 56) + 1, False)


def taken(log: bytes, start: int, limit: int) -> tuple[list[ConsumerRecord], int, bool]:
    """What a chunk hands out, where it stands then, and whether it cannot go on."""
    where = TopicPartition(TopicName("t"), Partition(0))
    chunk = Chunk(where, start, PartitionData(records=log), Reading())
    found: list[ConsumerRecord] = []
    try:
        while portion := chunk.take(limit):
            found += portion
    except BadRecordError:
        return found, chunk.next_offset, True
    return found, chunk.next_offset, False


def mend(log: bytearray) -> None:
    """Make the checksums right again: what is behind them shall be looked at."""
    try:
        for position, header in batches(log):
            crc = crc32c(memoryview(log)[position + 21 : position + header.size])
            log[position + 17 : position + 21] = crc.to_bytes(4, "big")
    except CorruptBatchError:
        return


def test_sifting_passes_over_what_lies_before_the_start() -> None:
    log = b"".join(
        build_batch([NewRecord(NOW, None, b"v")] * 3, BatchFields(base_offset=at)) for at in (0, 3, 6)
    )
    assert [one.offsets.tolist() for one in read_columns(log, Sifting(start=5))] == [[3, 4, 5, 6, 7, 8]]
