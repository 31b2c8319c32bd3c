"""Record batches, made: from new records, or again from those a compaction keeps."""

from collections.abc import Sequence
from itertools import pairwise
from operator import itemgetter
from struct import Struct
from typing import NamedTuple

from kohort.primitives.buffers import Buffer
from kohort.primitives.crc import crc32c
from kohort.records.compression import Codec, compress
from kohort.records.errors import CorruptBatchError
from kohort.records.header import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER_SIZE,
    LENGTH_END,
    LOG_APPEND_TIME,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
)
from kohort.records.record import Fields, Record, encode_record, encode_records

_TIMESTAMP = itemgetter(0)
_FRONT = Struct(">qiibI")
_CHECKED = Struct(">hiqqqhii")


class BatchFields(NamedTuple):
    """What a batch says besides its records; the defaults are those of a plain, unnumbered producer."""

    base_offset: int = 0
    leader_epoch: int = -1
    codec: Codec = Codec.NONE
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = -1
    base_sequence: int = NO_SEQUENCE
    transactional: bool = False
    control: bool = False
    append_time: int | None = None  # set: LogAppendTime, and this is the timestamp of all records


PLAIN = BatchFields()


def build_batch(records: Sequence[Fields], fields: BatchFields = PLAIN) -> bytes:
    """A batch of consecutive offsets. There must be at least one record."""
    return frame_payload(encode_payload(records, fields.codec), fields)


class Payload(NamedTuple):
    """The records of a batch as they stand behind its header, compressed already."""

    content: Buffer
    codec: Codec
    records_count: int
    base_timestamp: int
    max_timestamp: int


def encode_payload(records: Sequence[Fields], codec: Codec = Codec.NONE) -> Payload:
    """Records of consecutive offsets, without their header. There must be at least one."""
    if not records:
        raise ValueError("a batch is built from at least one record")
    base_timestamp, newest = records[0][0], max(map(_TIMESTAMP, records))
    payload = encode_records(records, base_timestamp)
    content = compress(codec, payload) if codec else payload
    return Payload(content, codec, len(records), base_timestamp, newest)


def frame_payload(payload: Payload, fields: BatchFields = PLAIN) -> bytes:
    """The batch of a payload; the codec is that of the payload, whatever ``fields`` says."""
    content, codec, count, base_timestamp, newest = payload
    attributes = codec | (TRANSACTIONAL if fields.transactional else 0) | (CONTROL if fields.control else 0)
    if fields.append_time is not None:
        attributes |= LOG_APPEND_TIME
        newest = fields.append_time
    checked = _CHECKED.pack(
        attributes,
        count - 1,
        base_timestamp,
        newest,
        fields.producer_id,
        fields.producer_epoch,
        fields.base_sequence,
        count,
    )
    return _assemble(fields.base_offset, fields.leader_epoch, checked, content)


def rebuild_batch(
    header: BatchHeader,
    records: Sequence[Record],
    *,
    codec: Codec | None = None,
    delete_horizon: int | None = None,
) -> bytes:
    """The batch of ``header`` with only ``records`` left in it: offsets, producer and flags stay.

    ``codec`` and ``delete_horizon`` replace those of the header. Without any record the batch keeps its
    place in the log and its producer's state. Raises ``CorruptBatchError`` for offsets outside the batch
    or out of order.
    """
    attributes = header.attributes & ~CODEC_MASK
    horizon = header.delete_horizon if delete_horizon is None else delete_horizon
    if not records:
        # Kafka leaves neither codec nor horizon on an empty batch.
        return _rebuilt(header, attributes & ~DELETE_HORIZON, (NO_TIMESTAMP, header.max_timestamp), (0, b""))
    base_timestamp, newest = records[0].timestamp, max(record.timestamp for record in records)
    if horizon is not None:
        attributes |= DELETE_HORIZON
        base_timestamp = horizon
    payload = b"".join(
        encode_record(record.timestamp - base_timestamp, delta, record.key, record.value, record.headers)
        for delta, record in zip(_deltas(header, records), records, strict=True)
    )
    codec = Codec(header.codec) if codec is None else codec
    content = (len(records), compress(codec, payload) if codec else payload)
    return _rebuilt(header, attributes | codec, (base_timestamp, newest), content)


def recompress_batch(header: BatchHeader, payload: bytes, codec: Codec) -> bytes:
    """The batch of ``header`` with its payload, handed in uncompressed, in another codec."""
    attributes = header.attributes & ~CODEC_MASK | codec
    timestamps = (header.base_timestamp, header.max_timestamp)
    return _rebuilt(header, attributes, timestamps, (header.records_count, compress(codec, payload)))


def _deltas(header: BatchHeader, records: Sequence[Record]) -> list[int]:
    deltas = [record.offset - header.base_offset for record in records]
    if deltas[0] < 0 or deltas[-1] > header.last_offset_delta:
        raise CorruptBatchError(f"records outside the offsets {header.base_offset} to {header.last_offset}")
    if any(later <= earlier for earlier, later in pairwise(deltas)):
        raise CorruptBatchError(f"offsets of the batch at {header.base_offset} do not increase")
    return deltas


def _rebuilt(
    header: BatchHeader, attributes: int, timestamps: tuple[int, int], content: tuple[int, bytes]
) -> bytes:
    count, payload = content
    checked = _CHECKED.pack(
        attributes,
        header.last_offset_delta,
        *timestamps,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        count,
    )
    return _assemble(header.base_offset, header.partition_leader_epoch, checked, payload)


def _assemble(base_offset: int, leader_epoch: int, checked: bytes, payload: Buffer) -> bytes:
    length = HEADER_SIZE - LENGTH_END + len(payload)
    checksum = crc32c(payload, crc32c(checked))
    return _FRONT.pack(base_offset, length, leader_epoch, MAGIC, checksum) + checked + payload
