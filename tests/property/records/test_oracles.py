"""Two other implementations read what we write, and we read what they write."""

import importlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy as AioPythonBuilder
from aiokafka.record.default_records import _DefaultRecordBatchPy as AioPythonBatch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.records.markers import end_marker

from kohort.records.batch import BatchFields, NewRecord, build_batch, check_crc, read_header, read_records
from kohort.records.compression import Codec
from kohort.records.control import ControlType

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # kafka-python reads its schemas with a deprecated function
    kafka_python = importlib.import_module("kafka.record.default_records")

NOW = 1_700_000_000_000

Other = Callable[..., Any]

steady = settings(derandomize=True, deadline=None, max_examples=60)

blobs = st.none() | st.binary(max_size=40) | st.integers(0, 20_000).map(bytes)
headers = st.lists(st.tuples(st.text(max_size=12), st.none() | st.binary(max_size=12)), max_size=3)
timestamps = st.integers(NOW - 100_000, NOW + 100_000)
new_records = st.builds(NewRecord, timestamps, blobs, blobs, headers)
record_lists = st.lists(new_records, min_size=1, max_size=12)
fields = st.builds(
    BatchFields,
    base_offset=st.integers(0, 1 << 60),
    codec=st.sampled_from(Codec),
    producer_id=st.integers(0, 1 << 60),
    producer_epoch=st.integers(0, (1 << 15) - 1),
    base_sequence=st.integers(0, (1 << 31) - 1),
    transactional=st.booleans(),
    leader_epoch=st.just(-1),
    control=st.just(False),
    append_time=st.none(),
)

# kafka-python wants other packages for snappy, lz4 and zstd than the ones that are installed.
READERS = [
    pytest.param(AioBatch, list(Codec), id="aiokafka"),
    pytest.param(AioPythonBatch, list(Codec), id="aiokafka without C"),
    pytest.param(kafka_python.DefaultRecordBatch, [Codec.NONE, Codec.GZIP], id="kafka-python"),
]
WRITERS = [
    pytest.param(AioBuilder, list(Codec), id="aiokafka"),
    pytest.param(AioPythonBuilder, list(Codec), id="aiokafka without C"),
    pytest.param(kafka_python.DefaultRecordBatchBuilder, [Codec.NONE, Codec.GZIP], id="kafka-python"),
]


def expected(records: Sequence[NewRecord], base_offset: int) -> list[tuple[object, ...]]:
    return [
        (base_offset + place, record.timestamp, record.key, record.value, list(record.headers))
        for place, record in enumerate(records)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("reader", "codecs"), READERS)
@steady
@given(record_lists, fields)
def test_others_read_our_batches(
    reader: Other, codecs: list[Codec], records: list[NewRecord], given_fields: BatchFields
) -> None:
    codec = codecs[given_fields.codec % len(codecs)]
    batch = reader(build_batch(records, given_fields._replace(codec=codec)))
    assert batch.validate_crc()
    assert (batch.compression_type, batch.is_transactional) == (codec, given_fields.transactional)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == given_fields[3:6]
    read = [(it.offset, it.timestamp, it.key, it.value, list(it.headers)) for it in batch]
    assert read == expected(records, given_fields.base_offset)


def built_by(builder: Other, records: Sequence[NewRecord], given_fields: BatchFields) -> bytes:
    made = builder(
        magic=2,
        compression_type=int(given_fields.codec),
        is_transactional=given_fields.transactional,
        producer_id=given_fields.producer_id,
        producer_epoch=given_fields.producer_epoch,
        base_sequence=given_fields.base_sequence,
        batch_size=1 << 24,
    )
    for offset, record in enumerate(records):
        assert made.append(offset, *record[:3], headers=list(record.headers)) is not None
    return bytes(made.build())


@pytest.mark.slow
@pytest.mark.parametrize(("builder", "codecs"), WRITERS)
@steady
@given(record_lists, fields)
def test_we_read_the_batches_of_others(
    builder: Other, codecs: list[Codec], records: list[NewRecord], given_fields: BatchFields
) -> None:
    ours = given_fields._replace(codec=codecs[given_fields.codec % len(codecs)], base_offset=0)
    batch = built_by(builder, records, ours)
    header = read_header(batch)
    check_crc(batch, 0, header)
    read = [(*record[:4], list(record.headers)) for record in read_records(batch)]
    assert read == expected(records, 0)
    if header.codec == Codec.NONE:  # asked for or not: both leave out a compression that does not help
        plain = ours._replace(codec=Codec.NONE, leader_epoch=header.partition_leader_epoch)
        assert build_batch(records, plain) == batch


def test_others_understand_our_markers() -> None:
    fields = BatchFields(base_offset=7, producer_id=9, producer_epoch=2)
    batch = kafka_python.DefaultRecordBatch(end_marker(ControlType.ABORT, NOW, fields, 4))
    assert batch.validate_crc()
    assert batch.is_control_batch
    [marker] = batch
    assert marker.abort
    assert not marker.commit
