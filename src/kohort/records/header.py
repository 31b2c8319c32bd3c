"""The 61 bytes in front of a record batch: read, checked, patched in place."""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from kohort.primitives.buffers import Buffer
from kohort.primitives.crc import crc32c
from kohort.records.errors import CorruptBatchError, LegacyFormatError

HEADER_SIZE = 61
LENGTH_END = 12  # batch_length counts the bytes from here on
CHECKED_FROM = 21  # the checksum covers everything from the attributes on
MAGIC = 2
MAGIC_AT = 16

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_SEQUENCE = -1

HEADER = Struct(">qiibIhiqqqhii")
_BASE_OFFSET = Struct(">q")
_LEADER_EPOCH = Struct(">i")
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_MAX_TIMESTAMP = Struct(">q")
_LEADER_EPOCH_AT, _CRC_AT, _ATTRIBUTES_AT, _MAX_TIMESTAMP_AT = 12, 17, 21, 35


class BatchHeader(NamedTuple):
    """The fields of a batch in front of its records, as they stand there."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, header included."""
        return LENGTH_END + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset behind the batch. Not base plus count: compaction leaves gaps."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """The number of the codec, which may be one that does not exist (5 to 7)."""
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL != 0

    @property
    def delete_horizon(self) -> int | None:
        """When the tombstones and markers of a compacted batch may go, if a cleaning has set it."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record (they wrap at 2**31), or -1 if there are none."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at ``position``.

    Raises ``CorruptBatchError`` for a header that is cut off, too small a length or another magic. Whether
    the whole batch is there, its checksum and its counts are not looked at.
    """
    if len(buffer) - position < HEADER_SIZE:
        raise _cut_off(buffer, position)
    header = BatchHeader._make(HEADER.unpack_from(buffer, position))
    if header.magic != MAGIC:
        raise _other_magic(header.magic, position)
    if header.batch_length < HEADER_SIZE - LENGTH_END:
        raise CorruptBatchError(
            f"batch at byte {position} declares {header.size} bytes, less than its header"
        )
    return header


def _cut_off(buffer: Buffer, position: int) -> CorruptBatchError:
    # An old message can be shorter than the header of a new one, and deserves its own answer.
    if len(buffer) - position > MAGIC_AT and buffer[position + MAGIC_AT] < MAGIC:
        return _other_magic(buffer[position + MAGIC_AT], position)
    return CorruptBatchError(f"{len(buffer) - position} bytes at byte {position} are not a batch header")


def _other_magic(magic: int, position: int) -> CorruptBatchError:
    if 0 <= magic < MAGIC:
        return LegacyFormatError(
            f"message set of magic {magic} at byte {position}: unsupported legacy format",
            hint="only record batches of magic 2 (Kafka 0.11 and later) are read",
        )
    return CorruptBatchError(f"batch at byte {position} has magic {magic}")


def batches(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each whole batch; one that is cut off at the end is left out.

    Raises ``CorruptBatchError`` like ``read_header``. Checksums are the caller's business.
    """
    end = len(buffer)
    while end - position >= HEADER_SIZE:
        header = read_header(buffer, position)
        following = position + header.size
        if following > end:
            return
        yield position, header
        position = following


def check_crc(buffer: Buffer, position: int, header: BatchHeader) -> None:
    """Raise ``CorruptBatchError`` unless the batch is whole and its checksum is right."""
    end = position + header.size
    if end > len(buffer):
        raise CorruptBatchError(
            f"batch at byte {position} has {header.size} bytes, {end - len(buffer)} are missing"
        )
    actual = crc32c(memoryview(buffer)[position + CHECKED_FROM : end])
    if actual != header.crc:
        raise CorruptBatchError(
            f"batch at byte {position}, offset {header.base_offset}: "
            f"the checksum says {header.crc:#010x}, the bytes give {actual:#010x}"
        )


def patch_offsets(batch: bytearray, base_offset: int, leader_epoch: int) -> None:
    """Set what only the leader knows. The checksum does not cover either."""
    _BASE_OFFSET.pack_into(batch, 0, base_offset)
    _LEADER_EPOCH.pack_into(batch, _LEADER_EPOCH_AT, leader_epoch)


def patch_append_time(batch: bytearray, wall: int) -> None:
    """Stamp the batch with the time of its append, which all its records then have; redo the checksum."""
    _stamp(batch, wall, LOG_APPEND_TIME)


def patch_create_time(batch: bytearray, max_timestamp: int) -> None:
    """Let the records have their own timestamps, of which this is the newest; redo the checksum."""
    _stamp(batch, max_timestamp, 0)


def _stamp(batch: bytearray, max_timestamp: int, timestamp_type: int) -> None:
    attributes = _ATTRIBUTES.unpack_from(batch, _ATTRIBUTES_AT)[0]
    _ATTRIBUTES.pack_into(batch, _ATTRIBUTES_AT, attributes & ~LOG_APPEND_TIME | timestamp_type)
    _MAX_TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_AT, max_timestamp)
    _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[CHECKED_FROM:]))
