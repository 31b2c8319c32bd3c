"""Record batches, format version 2: the one module other packages import them from."""

from kohort.primitives.buffers import Buffer
from kohort.records.build import PLAIN, BatchFields, build_batch, rebuild_batch
from kohort.records.compression import DEFAULT_LIMIT, decompress
from kohort.records.errors import CorruptBatchError, LegacyFormatError
from kohort.records.header import (
    HEADER_SIZE,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    batches,
    check_crc,
    patch_append_time,
    patch_create_time,
    patch_offsets,
    read_header,
)
from kohort.records.record import Header, NewRecord, Record, decode_records

__all__ = [
    "HEADER_SIZE",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "PLAIN",
    "BatchFields",
    "BatchHeader",
    "CorruptBatchError",
    "Header",
    "LegacyFormatError",
    "NewRecord",
    "Record",
    "batches",
    "build_batch",
    "check_crc",
    "patch_append_time",
    "patch_create_time",
    "patch_offsets",
    "read_header",
    "read_payload",
    "read_records",
    "rebuild_batch",
]


def read_records(
    buffer: Buffer, position: int = 0, header: BatchHeader | None = None, *, limit: int = DEFAULT_LIMIT
) -> list[Record]:
    """The records of the batch at ``position``, whatever its codec; ``header`` if it has been read already.

    Raises like ``read_payload``, and when the batch does not hold exactly the records its header counts.
    """
    if header is None:
        header = read_header(buffer, position)
    return decode_records(read_payload(buffer, position, header, limit=limit), header)


def read_payload(buffer: Buffer, position: int, header: BatchHeader, *, limit: int = DEFAULT_LIMIT) -> bytes:
    """What follows the header of the batch at ``position``, decompressed.

    Raises ``CorruptBatchError`` when the batch is not whole or does not decompress to at most ``limit``
    bytes. The checksum is the caller's business.
    """
    end = position + header.size
    if end > len(buffer):
        raise CorruptBatchError(
            f"batch at byte {position} has {header.size} bytes, {end - len(buffer)} are missing"
        )
    payload = buffer[position + HEADER_SIZE : end]
    return decompress(header.codec, payload, limit) if header.codec else bytes(payload)
