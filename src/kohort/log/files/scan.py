"""Reading a segment as if nothing in it could be trusted: what is intact, and what is damaged."""

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from kohort.log.files.disk import File
from kohort.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    CorruptBatchError,
    LegacyFormatError,
    check_crc,
    read_header,
)

_ENTRY = Struct(">qi4xb")  # offset, length, magic: the same in every format there was
_LENGTH_END = 12
_MAGIC_AT = 16
_SMALLEST_LEGACY = 14
_LEGACY_CRC = Struct(">I")
_MOST_OFFSETS = (1 << 31) - 1
_CHUNK = 1 << 20
_UNUSED_ATTRIBUTES = ~0x7F
_MOST_CODECS = 4


class Intact(NamedTuple):
    """A batch whose checksum is right, and whose offsets fit those around it."""

    position: int
    header: BatchHeader


class Damage(NamedTuple):
    """Bytes that belong to no intact batch."""

    start: int
    end: int
    reason: str


class _Candidate(NamedTuple):
    """An intact batch before the one after it has confirmed its offsets."""

    found: Intact
    follows: bool  # it begins where the batch before it ends


def salvage(file: File, size: int, base_offset: int, upper: int | None = None) -> Iterator[Intact | Damage]:
    """Everything in a segment, in the order of the file: intact batches and the damage between them.

    The checksum of a batch does not cover its offset. So where two neighbours contradict each other, the one
    that does not begin where its predecessor ends counts as damaged; the next segment begins with ``upper``.
    Raises ``LegacyFormatError`` at a message of a format Kohort does not read: that is data, not damage.
    """
    expected = base_offset
    is_placed = False  # a file with the wrong name begins anywhere
    pending: _Candidate | None = None
    for found in _with_right_checksums(file, size, base_offset):
        if isinstance(found, Damage):
            if pending is not None:
                yield pending.found
                expected, pending = pending.found.header.next_offset, None
            yield found
            continue
        header = found.header
        if pending is None:
            if is_placed and header.base_offset < expected:
                yield Damage(found.position, found.position + header.size, _contradiction(header, expected))
                continue
            is_placed = True
            pending = _Candidate(found, header.base_offset == expected)
            continue
        before = pending.found
        if header.base_offset >= before.header.next_offset:
            yield before
            expected = before.header.next_offset
            pending = _Candidate(found, header.base_offset == expected)
        elif pending.follows or header.base_offset < expected:
            reason = _contradiction(header, before.header.next_offset)
            yield before
            expected, pending = before.header.next_offset, None
            yield Damage(found.position, found.position + header.size, reason)
        else:
            yield Damage(
                before.position,
                before.position + before.header.size,
                _contradiction(before.header, expected) + f", and {header.base_offset} follows",
            )
            pending = _Candidate(found, header.base_offset == expected)
    if pending is None:
        return
    last = pending.found
    if upper is None or pending.follows or expected == base_offset or last.header.next_offset <= upper:
        yield last
    else:
        yield Damage(last.position, size, _contradiction(last.header, expected) + f", and {upper} follows")


def is_torn(file: File, damage: Damage) -> bool:
    """Whether damage at the end of a file is what a crash leaves: a part of one batch, or zeros."""
    size = damage.end - damage.start
    if size < _ENTRY.size:
        return True
    _, length, _ = _ENTRY.unpack(file.read(_ENTRY.size, damage.start))
    if _LENGTH_END + length > size and length >= HEADER_SIZE - _LENGTH_END:
        return True
    position = damage.start
    while position < damage.end:
        chunk = file.read(min(_CHUNK, damage.end - position), position)
        if not chunk or any(chunk):
            return not chunk
        position += len(chunk)
    return True


# -- batches ---------------------------------------------------------------------------------------------


def _contradiction(header: BatchHeader, expected: int) -> str:
    return f"offset {header.base_offset} to {header.last_offset} comes where {expected} was expected"


def _with_right_checksums(file: File, size: int, base_offset: int) -> Iterator[Intact | Damage]:
    position = 0
    while position < size:
        try:
            for found in _up_to_damage(file, size, position, base_offset):
                yield found
                position = found.position + found.header.size
            return
        except LegacyFormatError:
            raise
        except CorruptBatchError as error:
            following = _next_batch(file, size, position, base_offset)
            yield Damage(position, following, str(error))
            position = following


def _up_to_damage(file: File, size: int, position: int, base_offset: int) -> Iterator[Intact]:
    while position < size:
        chunk = file.read(min(_CHUNK, size - position), position)
        length = _total_size(chunk, position, size)
        if length > len(chunk):
            chunk = file.read(length, position)
        at = 0
        while length <= len(chunk) - at:
            header = _checked(chunk, at, position + at)
            if header.last_offset_delta < 0 or abs(header.last_offset - base_offset) > _MOST_OFFSETS:
                raise CorruptBatchError(
                    f"offset {header.last_offset} is too far from the start of its segment"
                )
            yield Intact(position + at, header)
            at += length
            if len(chunk) - at < _ENTRY.size:
                break
            length = _total_size(chunk[at : at + _ENTRY.size], position + at, size)
        if at == 0:
            raise CorruptBatchError(f"the file ends inside the batch at byte {position}")
        position += at


def _total_size(chunk: bytes, position: int, size: int) -> int:
    """The declared size of the entry at the start of ``chunk``, which stands at ``position``."""
    if len(chunk) < _ENTRY.size:
        raise CorruptBatchError(f"{len(chunk)} bytes are left at byte {position}, too few for a batch")
    _, length, _ = _ENTRY.unpack_from(chunk)
    if length < _SMALLEST_LEGACY:
        raise CorruptBatchError(f"the entry at byte {position} declares a length of {length}")
    if position + _LENGTH_END + length > size:
        raise CorruptBatchError(f"the batch at byte {position} is cut off at the end of the file")
    return _LENGTH_END + int(length)


def _checked(chunk: bytes, at: int, position: int) -> BatchHeader:
    _, length, magic = _ENTRY.unpack_from(chunk, at)
    end = at + _LENGTH_END + length
    if magic in (0, 1) and _is_legacy(chunk[at + _LENGTH_END : end]):
        raise LegacyFormatError(
            f"there is a message of magic {magic} at byte {position}",
            hint="Kohort reads logs written by Kafka 0.11 or later; let Kafka convert this topic first",
        )
    if end - at < HEADER_SIZE:
        raise CorruptBatchError(f"the entry at byte {position} is smaller than a batch header")
    try:
        header = read_header(chunk, at)
    except LegacyFormatError as error:
        raise CorruptBatchError(f"what is at byte {position} is not a batch") from error
    check_crc(chunk, at, header)
    return header


def _is_legacy(message: bytes) -> bool:
    # Only a checksum that is right makes it a message: torn bytes have any magic.
    return len(message) >= _SMALLEST_LEGACY and _LEGACY_CRC.unpack_from(message)[0] == zlib.crc32(message[4:])


# -- the way on after damage -----------------------------------------------------------------------------


def _next_batch(file: File, size: int, damaged: int, base_offset: int) -> int:
    """Where the next intact batch begins; ``size`` if there is none.

    The length of the damaged batch is tried first: what it holds may look like a batch, too.
    """
    front = file.read(_ENTRY.size, damaged)
    if len(front) == _ENTRY.size:
        _, length, _ = _ENTRY.unpack(front)
        following = damaged + _LENGTH_END + int(length)
        if length >= HEADER_SIZE - _LENGTH_END and (
            following == size or _is_batch(file, size, following, base_offset)
        ):
            return following
    position = damaged + 1
    while size - position >= HEADER_SIZE:
        chunk = file.read(min(_CHUNK, size - position), position)
        at = chunk.find(b"\x02", _MAGIC_AT)
        while at >= 0:
            candidate = position + at - _MAGIC_AT
            if _may_be_batch(chunk, at - _MAGIC_AT, base_offset) and _is_batch(
                file, size, candidate, base_offset
            ):
                return candidate
            at = chunk.find(b"\x02", at + 1)
        position += max(len(chunk) - _MAGIC_AT, 1)
    return size


def _may_be_batch(chunk: bytes, at: int, base_offset: int) -> bool:
    offset, length, _ = _ENTRY.unpack_from(chunk, at)
    return bool(
        length >= HEADER_SIZE - _LENGTH_END and abs(offset - base_offset) <= _MOST_OFFSETS and offset >= 0
    )


def _is_batch(file: File, size: int, position: int, base_offset: int) -> bool:
    """Whether an intact batch begins at ``position``. Its header must make sense first."""
    try:
        header = read_header(file.read(HEADER_SIZE, position))
        if (
            position + header.size > size
            or header.last_offset_delta < 0
            or not 0 <= header.records_count <= header.last_offset_delta + 1
            or header.attributes & _UNUSED_ATTRIBUTES
            or header.codec > _MOST_CODECS
            or abs(header.last_offset - base_offset) > _MOST_OFFSETS
        ):
            return False
        check_crc(file.read(header.size, position), 0, header)
    except CorruptBatchError:
        return False
    return True
