"""Reading the records of a batch; what they may contain is in ``test_record``."""

import pytest

from kohort.records.batch import (
    BatchFields,
    CorruptBatchError,
    NewRecord,
    build_batch,
    read_header,
    read_records,
)
from kohort.records.compression import Codec
from kohort.records.errors import CompressionError, OversizedPayloadError

T = 1_700_000_000_000


@pytest.mark.parametrize("codec", Codec)
def test_records_are_read_with_or_without_their_header(codec: Codec) -> None:
    batch = build_batch([NewRecord(T, b"k", b"v" * 500)] * 3, BatchFields(base_offset=5, codec=codec))
    held = memoryview(b"xx" + batch + b"yy")
    records = read_records(held, 2, read_header(batch))
    assert records == read_records(batch) == read_records(bytearray(batch))
    assert [record.offset for record in records] == [5, 6, 7]


def test_a_codec_that_does_not_exist_makes_a_batch_corrupt() -> None:
    batch = bytearray(build_batch([NewRecord(T, b"k", b"v")]))
    batch[22] |= 6
    with pytest.raises(CompressionError, match="codec 6"):
        read_records(batch)


def test_the_limit_of_the_reader_counts_decompressed_bytes() -> None:
    batch = build_batch([NewRecord(T, None, bytes(5000))], BatchFields(codec=Codec.ZSTD))
    with pytest.raises(OversizedPayloadError):
        read_records(batch, limit=4999)


def test_a_count_that_the_records_do_not_match_is_corrupt() -> None:
    batch = build_batch([NewRecord(T, b"k", b"v")] * 2)
    for count in (1, 3):
        with pytest.raises(CorruptBatchError):
            read_records(batch, header=read_header(batch)._replace(records_count=count))
