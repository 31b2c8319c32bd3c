"""A batch as a producer sent it: may it be stored, and as it is?

What is looked at, in Kafka's order:

1. the blob holds exactly one batch of magic 2; zstd needs Produce version 7;
2. base offset, size, checksum;
3. counts, control bit, sequence of a numbered producer, codec;
4. every record: its lengths, its place (0, 1, 2, …), its key in a compacted topic, its timestamp.

The fourth step costs 0.4 to 1 microseconds a record, and a decompression. It is on by default, as in Kafka: a
record that cannot be read would stop every consumer, and compaction. ``deep=False`` leaves it
out where no other rule needs it, and trusts the header instead of the records.

A megabyte can hold a hundred megabytes of a million records. Who has others to serve asks with ``at_once``,
and lets a thread do what would take longer than some milliseconds.
"""

from typing import NamedTuple

from kohort.model.errors import ErrorCode, KohortError, RefusedError
from kohort.primitives.buffers import Buffer
from kohort.records.build import rebuild_batch, recompress_batch
from kohort.records.compression import DEFAULT_LIMIT, Codec, decompress
from kohort.records.errors import CorruptBatchError, LegacyFormatError, OversizedPayloadError
from kohort.records.header import (
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    BatchHeader,
    check_crc,
    patch_append_time,
    patch_create_time,
    read_header,
)
from kohort.records.record import decode_records
from kohort.records.walk import Walk, walk_records

UNLIMITED = 0x7FFFFFFFFFFFFFFF
MOST_NAMED = 1_000  # records that an error names one by one; a batch may have a million
AT_ONCE_RECORDS = 10_000  # ten milliseconds; clients seldom have more in a batch
AT_ONCE_BYTES = 4 * 1024 * 1024
AT_ONCE_COMPRESSED = 64 * 1024  # bytes; in blocks of five, ten milliseconds or more
MANY_RECORDS = 1 << 20  # more are taken only of a batch that has at least a byte for each
AT_ONCE_REWRITTEN = 256 * 1024  # bytes that are compressed in another way, or numbered in order
AT_ONCE_RENUMBERED = 1_000
_ENTRY_PRICE = 30  # to find the partition and append
_MOST_GROWTH = 1_000  # of compressed bytes, about
_ZSTD_SINCE = 7
_NEWEST_CODEC = max(Codec)
_SIZE_END = 12  # a batch begins with an offset and a size
_SMALLEST = 14  # less was never a batch, nor a message of the formats before


class ProduceRules(NamedTuple):
    """What the topic, the request and the moment say about a batch; the defaults are Kafka's."""

    now: int
    api_version: int
    max_message_bytes: int = 1_048_588
    segment_bytes: int = 1_073_741_824
    compacted: bool = False
    log_append_time: bool = False
    timestamp_before_max_ms: int = UNLIMITED
    timestamp_after_max_ms: int = 3_600_000
    codec: Codec | None = None  # the topic's compression.type, if it is not "producer"
    deep: bool = True
    decompressed_limit: int = DEFAULT_LIMIT
    at_once: bool = False  # raise ``NotAtOnceError`` instead of working for long


class Produced(NamedTuple):
    """A batch that may be stored."""

    header: BatchHeader  # of what is to be stored
    replacement: bytearray | None  # None: store the bytes that came


class RefusedBatchError(RefusedError):
    """A batch that is answered with an error code; ``record_errors`` names records by their place in it."""

    def __init__(
        self, code: ErrorCode, message: str, record_errors: list[tuple[int, str]] | None = None
    ) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors or []


class NotOneBatchError(RefusedBatchError):
    """What came is not one batch that this version may bring; Kafka says so before it looks at the log."""


class NotAtOnceError(KohortError):
    """To look at this batch takes longer than others should have to wait."""


def check_produced(batch: Buffer, rules: ProduceRules) -> Produced:
    """The batch, rewritten if it has to be. Raises ``RefusedBatchError``, and nothing else.

    With ``rules.at_once`` it may raise ``NotAtOnceError`` instead of any answer that takes longer.
    """
    header = _only_batch(batch, rules.api_version)
    _check_header(batch, header, rules)
    recoded, newest = _checked_records(batch, header, rules)
    stored = None if recoded is None else bytearray(recoded)
    if rules.log_append_time:
        stored = stored or bytearray(batch)
        patch_append_time(stored, rules.now)
    elif header.is_log_append_time or newest != header.max_timestamp:
        stored = stored or bytearray(batch)
        patch_create_time(stored, newest)
    if stored is not None:
        header = read_header(stored)
        _check_size(header, rules.max_message_bytes)  # compressed another way, it may have grown
    if header.size > rules.segment_bytes:
        raise RefusedBatchError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"the batch has {header.size} bytes, a segment of this topic {rules.segment_bytes}",
        )
    return Produced(header, stored)


def price_of(batch: Buffer) -> int:
    """The most microseconds that ``check_produced`` takes with ``at_once``, estimated from the header."""
    if len(batch) < HEADER_SIZE:
        return _ENTRY_PRICE
    header = BatchHeader._make(HEADER.unpack_from(batch))
    price = _ENTRY_PRICE + len(batch) // 80 + min(max(header.records_count, 0), AT_ONCE_RECORDS)
    if header.codec:
        price += len(batch) // 10 + min(_MOST_GROWTH * len(batch), AT_ONCE_BYTES) // 400
    return price


def _only_batch(batch: Buffer, api_version: int) -> BatchHeader:
    try:
        header = read_header(batch)
    except LegacyFormatError as error:
        raise NotOneBatchError(ErrorCode.INVALID_RECORD, str(error)) from error
    except CorruptBatchError as error:
        if len(batch) < HEADER_SIZE:
            message = f"exactly one batch is expected, {len(batch)} bytes hold none"
            raise NotOneBatchError(ErrorCode.INVALID_RECORD, message) from error
        raise RefusedBatchError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    if header.codec == Codec.ZSTD and api_version < _ZSTD_SINCE:
        raise NotOneBatchError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd needs Produce version {_ZSTD_SINCE}, this is version {api_version}",
        )
    if header.size != len(batch):
        message = f"exactly one batch is expected, but {len(batch)} bytes came and it has {header.size}"
        raise NotOneBatchError(_trailing_code(memoryview(batch)[header.size :]), message)
    return header


def _trailing_code(rest: memoryview) -> ErrorCode:
    """What Kafka calls bytes after a batch: a second one or, if they announce an impossible size, damage."""
    too_small = len(rest) >= _SIZE_END and int.from_bytes(rest[8:_SIZE_END], "big", signed=True) < _SMALLEST
    return ErrorCode.CORRUPT_MESSAGE if too_small else ErrorCode.INVALID_RECORD


def _check_header(batch: Buffer, header: BatchHeader, rules: ProduceRules) -> None:
    if header.base_offset != 0:
        raise _invalid(f"the base offset is {header.base_offset}, a producer must send 0")
    _check_size(header, rules.max_message_bytes)
    try:
        check_crc(batch, 0, header)
    except CorruptBatchError as error:
        raise RefusedBatchError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    if header.records_count <= 0 or header.records_count != header.last_offset_delta + 1:
        raise _invalid(
            f"the header counts {header.records_count} records, "
            f"but its last offset delta is {header.last_offset_delta}"
        )
    if header.is_control:
        raise _invalid("only the broker writes control batches")
    if header.producer_id > NO_PRODUCER_ID and header.base_sequence < 0:
        raise _invalid(f"producer {header.producer_id} sent the sequence number {header.base_sequence}")
    if header.codec > _NEWEST_CODEC:
        raise _invalid(f"compression codec {header.codec} does not exist")
    # Kafka looks at the bit only where it does not check the records' own timestamps.
    if header.is_log_append_time and (rules.log_append_time or header.max_timestamp == NO_TIMESTAMP):
        message = "only the broker sets LogAppendTime"
        raise RefusedBatchError(ErrorCode.INVALID_TIMESTAMP, message, [(0, message)])


def _checked_records(batch: Buffer, header: BatchHeader, rules: ProduceRules) -> tuple[bytes | None, int]:
    """The batch, encoded again if it has to be, and the newest timestamp in it."""
    codec = header.codec if rules.codec is None else rules.codec
    if not (rules.deep or rules.compacted or codec != header.codec or _must_see_timestamps(rules)):
        _check_newest(header.max_timestamp, rules)
        return None, header.max_timestamp
    payload, walk = _walked(batch, header, rules)
    if rules.compacted and walk.null_keys:
        named = walk.null_keys[:MOST_NAMED]
        errors = [(place, "a record of a compacted topic needs a key") for place in named]
        raise RefusedBatchError(
            ErrorCode.INVALID_RECORD, f"{len(walk.null_keys)} records have no key", errors
        )
    if header.is_log_append_time:  # a client's claim, which does not count: records have their own timestamps
        header = header._replace(attributes=header.attributes & ~LOG_APPEND_TIME)
    if not rules.log_append_time:
        _check_timestamps(payload, header, walk, rules)
    if not walk.in_order or codec != header.codec:
        _check_rewriting(payload, header, rules)
    if not walk.in_order:
        records = decode_records(payload, header)
        renumbered = [record._replace(offset=place) for place, record in enumerate(records)]
        return rebuild_batch(header, renumbered, codec=Codec(codec)), walk.newest
    if codec != header.codec:
        return recompress_batch(header, payload, Codec(codec)), walk.newest
    return None, walk.newest


def _check_rewriting(payload: bytes, header: BatchHeader, rules: ProduceRules) -> None:
    is_large = len(payload) > AT_ONCE_REWRITTEN or header.records_count > AT_ONCE_RENUMBERED
    if rules.at_once and is_large:
        raise NotAtOnceError(f"{header.records_count} records in {len(payload)} bytes have to be rewritten")


def _must_see_timestamps(rules: ProduceRules) -> bool:
    """Whether the newest timestamp, which the header has, is not enough."""
    return not rules.log_append_time and rules.timestamp_before_max_ms != UNLIMITED


def _walked(batch: Buffer, header: BatchHeader, rules: ProduceRules) -> tuple[bytes, Walk]:
    """The payload, decompressed, and what is in it."""
    if header.records_count > max(MANY_RECORDS, header.size):
        message = f"{header.records_count} records in {header.size} bytes are more than are taken in a batch"
        raise RefusedBatchError(ErrorCode.MESSAGE_TOO_LARGE, message)
    if rules.at_once and header.records_count > AT_ONCE_RECORDS:
        raise NotAtOnceError(f"the batch has {header.records_count} records")
    content = bytes(batch[HEADER_SIZE:])
    try:
        payload = _decompressed(header.codec, content, rules) if header.codec else content
        return payload, walk_records(payload, header)
    except OversizedPayloadError as error:
        # Kafka has no such limit. This code makes the Java client split the batch and try again.
        raise RefusedBatchError(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from error
    except CorruptBatchError as error:
        # Not CORRUPT_MESSAGE, which clients retry: the checksum was right, it will not get better.
        raise _invalid(str(error)) from error


def _decompressed(codec: int, content: bytes, rules: ProduceRules) -> bytes:
    if not rules.at_once:
        return decompress(codec, content, rules.decompressed_limit)
    if len(content) > AT_ONCE_COMPRESSED:
        raise NotAtOnceError(f"the batch has {len(content)} compressed bytes")
    if rules.decompressed_limit <= AT_ONCE_BYTES:
        return decompress(codec, content, rules.decompressed_limit)
    try:
        return decompress(codec, content, AT_ONCE_BYTES)
    except OversizedPayloadError as error:
        raise NotAtOnceError(f"the batch has more than {AT_ONCE_BYTES} bytes") from error


def _check_timestamps(payload: bytes, header: BatchHeader, walk: Walk, rules: ProduceRules) -> None:
    if _in_range(walk.oldest, rules) and _in_range(walk.newest, rules):
        return
    wrong = [
        (place, record.timestamp)
        for place, record in enumerate(decode_records(payload, header))
        if not _in_range(record.timestamp, rules)
    ]
    if wrong:
        errors = [(place, _out_of_range(timestamp, rules)) for place, timestamp in wrong[:MOST_NAMED]]
        raise RefusedBatchError(
            ErrorCode.INVALID_TIMESTAMP, f"{len(wrong)} records have a timestamp out of range", errors
        )


def _check_newest(timestamp: int, rules: ProduceRules) -> None:
    if not (rules.log_append_time or _in_range(timestamp, rules)):
        raise RefusedBatchError(ErrorCode.INVALID_TIMESTAMP, _out_of_range(timestamp, rules))


def _in_range(timestamp: int, rules: ProduceRules) -> bool:
    """A record without a timestamp is never out of range."""
    age = rules.now - timestamp
    return -rules.timestamp_after_max_ms <= age <= rules.timestamp_before_max_ms or timestamp == NO_TIMESTAMP


def _out_of_range(timestamp: int, rules: ProduceRules) -> str:
    return (
        f"timestamp {timestamp} is {timestamp - rules.now} ms from the broker's clock; allowed are "
        f"{rules.timestamp_before_max_ms} ms before it and {rules.timestamp_after_max_ms} ms after it"
    )


def _check_size(header: BatchHeader, limit: int) -> None:
    if header.size > limit:
        raise RefusedBatchError(
            ErrorCode.MESSAGE_TOO_LARGE, f"the batch has {header.size} bytes, this topic takes {limit}"
        )


def _invalid(message: str) -> RefusedBatchError:
    return RefusedBatchError(ErrorCode.INVALID_RECORD, message)
