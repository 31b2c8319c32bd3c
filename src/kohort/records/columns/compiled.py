"""The decoder compiled by numba: the walk in plain Python, at the speed of C. Needs ``kohort[fast]``.

Compiled code reads at any address, so every read is preceded by a comparison with the end of the
payload. Importing this takes most of a second, and the first call again half of one (two, when the compiled
code is not in numba's cache): only worth it for many records.
"""

from typing import Any

import numba
import numpy as np

from kohort.records.columns.spans import Bounds, Bytes, Flags, HeaderSpans, Ints, Section, Spans
from kohort.records.errors import CorruptBatchError

_BAD = -1  # no number that is read here can be negative
_compile = numba.njit(cache=True, nogil=True)


def decode(section: Section) -> Spans:
    """Where the fields are; raises ``CorruptBatchError`` for what ``decode_records`` would refuse."""
    total = section.records
    data = np.frombuffer(section.data, np.uint8)
    spans = Spans(
        np.empty(total, np.int64),
        np.empty(total, np.int64),
        np.empty(4 * total + 1, np.int32),
        np.empty(total, np.bool_),
        np.empty(total, np.bool_),
        None,
    )
    spans.bounds[-1] = len(data)
    counts = np.zeros(total, np.int32)
    ends = np.empty(total, np.int64)
    batches = np.stack((section.starts, section.ends, section.counts))
    headers = _walk(data, batches, spans[:5], counts, ends)
    if headers < 0:
        raise CorruptBatchError("a record is cut off, or is no record")
    if not headers:
        return spans
    bounds = np.empty(4 * headers + 1, np.int32)
    bounds[-1] = len(data)
    values = np.empty(headers, np.bool_)
    if _walk_headers(data, (spans.bounds, ends), counts, bounds, values) < 0:
        raise CorruptBatchError("a record does not end where its headers do")
    return spans._replace(headers=HeaderSpans(counts, bounds, values))


def _read_uvarint(data: Bytes, position: int, end: int) -> tuple[int, int]:
    """A number of at most 32 bits, or ``_BAD``; and the position behind it."""
    number = 0
    for shift in range(0, 35, 7):
        if position >= end:
            return _BAD, position
        byte = int(data[position])
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number if number <= 0xFFFFFFFF else _BAD), position
    return _BAD, position


_uvarint: Any = _compile(_read_uvarint)


def _read_varlong(data: Bytes, position: int, end: int) -> tuple[np.int64 | int, int]:
    """A signed number of at most 64 bits; and the position behind it, ``_BAD`` if there is none."""
    number = np.uint64(0)
    for place in range(10):
        if position >= end:
            return 0, _BAD
        byte = np.uint64(data[position])
        position += 1
        number |= (byte & np.uint64(0x7F)) << np.uint64(7 * place)
        if byte < np.uint64(0x80):
            if place == 9 and byte > np.uint64(1):
                return 0, _BAD
            return np.int64(number >> np.uint64(1)) ^ -np.int64(number & np.uint64(1)), position
    return 0, _BAD


_varlong: Any = _compile(_read_varlong)


def _read_bytes(data: Bytes, position: int, end: int) -> tuple[int, int, bool]:
    """A length and as many bytes: where they begin and end, and whether they are not null.

    ``_BAD`` as the end if there is no room for them, or the length is negative.
    """
    length, position = _uvarint(data, position, end)
    if length == _BAD or (length & 1 and length != 1):
        return position, _BAD, False
    begin = position
    position += length >> 1
    if position > end:
        return begin, _BAD, False
    return begin, position, not length & 1


_bytes: Any = _compile(_read_bytes)


def _walk_record(
    data: Bytes, position: int, end: int, row: int, found: tuple[Ints, Ints, Bounds, Flags, Flags]
) -> tuple[int, int, int]:
    """One record, its length behind it: where its headers begin, how many they are, where it ends.

    ``_BAD`` as their number if it is no record.
    """
    offsets, timestamps, bounds, keys, values = found
    length, position = _uvarint(data, position, end)
    if length == _BAD or length & 1 or position + (length >> 1) > end:
        return position, _BAD, 0
    end = position + (length >> 1)
    timestamps[row], position = _varlong(data, position + 1, end)
    if position == _BAD:
        return position, _BAD, 0
    offset, position = _uvarint(data, position, end)
    if offset == _BAD:
        return position, _BAD, 0
    offsets[row] = (offset >> 1) ^ -(offset & 1)
    bounds[4 * row], position, keys[row] = _bytes(data, position, end)
    if position == _BAD:
        return position, _BAD, 0
    bounds[4 * row + 1] = position
    bounds[4 * row + 2], position, values[row] = _bytes(data, position, end)
    if position == _BAD:
        return position, _BAD, 0
    bounds[4 * row + 3] = position
    headers, position = _uvarint(data, position, end)
    if headers == _BAD or headers & 1 or headers > end - position:
        return position, _BAD, 0
    if not headers and position != end:
        return position, _BAD, 0
    return position, headers >> 1, end


_record: Any = _compile(_walk_record)


def _walk_batches(
    data: Bytes, batches: Ints, found: tuple[Ints, Ints, Bounds, Flags, Flags], counts: Bounds, ends: Ints
) -> int:
    """All records of all batches; how many headers they declare, or ``_BAD``."""
    row = headers = 0
    for batch in range(batches.shape[1]):
        position, end = batches[0, batch], batches[1, batch]
        for _ in range(batches[2, batch]):
            _, count, position = _record(data, position, end, row, found)
            if count == _BAD:
                return _BAD
            counts[row] = count
            ends[row] = position
            headers += count
            row += 1
        if position != end:
            return _BAD
    return headers


_walk: Any = _compile(_walk_batches)


def _read_headers(
    data: Bytes, records: tuple[Bounds, Ints], counts: Bounds, bounds: Bounds, values: Flags
) -> int:
    """The headers of all records, which stand between the end of the value and that of the record."""
    spans, ends = records
    at = 0
    for row in range(len(counts)):
        if not counts[row]:
            continue
        end = ends[row]
        _, position = _uvarint(data, np.int64(spans[4 * row + 3]), end)
        for _ in range(counts[row]):
            begin, position, has_key = _bytes(data, position, end)
            if position == _BAD or not has_key:
                return _BAD
            bounds[4 * at], bounds[4 * at + 1] = begin, position
            begin, position, values[at] = _bytes(data, position, end)
            if position == _BAD:
                return _BAD
            bounds[4 * at + 2], bounds[4 * at + 3] = begin, position
            at += 1
        if position != end:
            return _BAD
    return at


_walk_headers: Any = _compile(_read_headers)
