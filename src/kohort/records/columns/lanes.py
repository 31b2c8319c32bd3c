"""The decoder with numpy: many records at once, field by field.

Only one thing about records is sequential: where the next one begins. So the batches of a section are lanes
in which all hop from record to record at the same time; after that every record is a lane of its own, and a
field of all of them is a few operations on vectors. Where few lanes are left, plain Python hops on alone.
But first it is tried whether all records can be spotted at once, see ``spotting``.

Positions only grow, and reading behind the end gives the last byte again: so whatever the bytes say, nothing
outside is read, and one check at the end of a record covers all its lengths.
"""

from typing import NamedTuple

import numpy as np

from kohort.primitives.varint import VarintError, read_uvarint
from kohort.records.columns.spans import Bounds, Bytes, Columns, Flags, HeaderSpans, Ints, Section
from kohort.records.columns.spotting import DISTANCES, spot
from kohort.records.errors import CorruptBatchError

# With fewer lanes, a step of numpy costs more than the same steps in Python.
FEWEST_LANES = 96
# So many steps from record to record cost as much as a leap over any number of equal length.
FEWEST_STEPS = 32
_INT32_BYTES, _INT64_BYTES = 5, 10
_NO_FIELDS = 1  # lengths are zig-zag: 1 is -1, and any other odd number is more negative


def many_columns(section: Section) -> Columns:
    """The records of one section; raises ``CorruptBatchError`` for what ``decode_records`` would refuse."""
    spans = _decode(section)
    counts = section.counts
    base = np.repeat(section.base_timestamps, counts)
    timestamps = base + spans.timestamp_deltas
    if (((base ^ timestamps) & (spans.timestamp_deltas ^ timestamps)) < 0).any():
        raise CorruptBatchError("the timestamp of a record does not fit 64 bits")
    appended = np.repeat(section.appended != 0, counts)
    if section.appended.any():
        timestamps = np.where(appended, np.repeat(section.append_times, counts), timestamps)
    return Columns(
        section.data,
        np.repeat(section.base_offsets, counts) + spans.offset_deltas,
        timestamps,
        appended,
        spans.bounds,
        spans.keys,
        spans.values,
        spans.headers,
    )


class _Spans(NamedTuple):
    """The fields of the records of a section, in order; what ``Columns`` has too, as there."""

    offset_deltas: Ints
    timestamp_deltas: Ints
    bounds: Bounds
    keys: Flags
    values: Flags
    headers: HeaderSpans | None


def _decode(section: Section) -> _Spans:
    data = np.frombuffer(section.data, np.uint8)
    return _fields(data, _hop(section, data))


class _RecordBounds(NamedTuple):
    """Where each record begins, behind its length, and where it ends."""

    begins: Ints
    ends: Ints


def _hop(section: Section, data: Bytes) -> _RecordBounds:
    """Find the records; each payload must hold exactly as many as its header says."""
    spotted = spot(section, data) if _has_few_lanes(section.counts) else None
    starts, ends = spotted or _walk(section, data)
    lengths, begins = _uvarints(data, starts)
    _require((lengths & 1) == 0, "the length of a record is negative")
    return _RecordBounds(begins, ends)


def _has_few_lanes(counts: Ints) -> bool:
    """Whether most records stand in so few batches that Python would hop over them alone."""
    return int(np.maximum(counts - _steps(np.sort(counts)[::-1]), 0).sum()) * 2 > int(counts.sum())


def _steps(descending: Ints) -> int:
    """How many records all lanes have, as long as they are lanes enough."""
    return int(descending[FEWEST_LANES - 1]) if len(descending) >= FEWEST_LANES else 0


def _walk(section: Section, data: Bytes) -> tuple[Ints, Ints]:
    """Where each record begins, with its length, and where it ends: one after the other."""
    counts = section.counts
    lasts = np.cumsum(counts)
    ends = np.empty(int(lasts[-1]), np.int64)
    # Longest first: those that still have records are a prefix of the lanes at every step.
    order = np.argsort(-counts, kind="stable")
    positions, slots, descending = section.starts[order], (lasts - counts)[order], counts[order]
    steps = _steps(descending)
    alive = np.searchsorted(-descending, -np.arange(1, steps + 1), side="right").tolist()
    for step, live in enumerate(alive):
        at = _behind(data, positions[:live])
        ends[slots[:live] + step] = positions[:live] = at
    if len(left := np.flatnonzero(descending > steps)):
        content = memoryview(section.data)
        for lane in left.tolist():
            slot = int(slots[lane]) + steps
            found = ends[slot : slot + int(descending[lane]) - steps]
            positions[lane] = _hop_alone(content, data, int(positions[lane]), found)
    _require(positions == section.ends[order], "the records do not end where their batch does")
    starts = np.empty_like(ends)
    starts[1:] = ends[:-1]
    starts[(lasts - counts)[counts > 0]] = section.starts[counts > 0]
    return starts, ends


def _behind(data: Bytes, positions: Ints) -> Ints:
    """The positions behind the records at these."""
    first = data.take(positions, mode="clip")
    distances = DISTANCES.take(first)
    if first.max() > 0x7F:
        second = data.take(positions + 1, mode="clip")
        longer = first > 0x7F
        if (longer & (second > 0x7F)).any():
            lengths, begins = _uvarints(data, positions)
            return begins + (lengths >> 1)
        distances += (second.astype(np.int64) << 6) * longer
    return positions + distances


def _hop_alone(content: memoryview, data: Bytes, position: int, ends: Ints) -> int:
    """Fill in the ends of records that follow each other; returns the last. ``content`` is ``data`` too."""
    done, count, steps = 0, len(ends), FEWEST_STEPS
    while done < count:
        leapt = _leap(data, position, ends[done:]) if count - done >= FEWEST_STEPS else 0
        if leapt:
            done += leapt
        else:
            stepped = _step(content, position, min(steps, count - done))
            ends[done : done + len(stepped)] = stepped
            done += len(stepped)
            steps *= 2  # records of all lengths: look for others less and less often
        position = int(ends[done - 1])
    return position


def _leap(data: Bytes, position: int, ends: Ints) -> int:
    """How many records from ``position`` on are as long as the first, if they are many; with their ends.

    A record whose length reads as that of the one before ends as far behind it: no guess is in this.
    """
    start = data[position : position + 2].tolist()
    if len(start) < 2 or start[1] > 0x7F < start[0]:
        return 0
    stride = int(DISTANCES[start[0]]) + (start[1] << 6 if start[0] > 0x7F else 0)
    last = position + stride * len(ends)
    same = data[position:last:stride] == start[0]
    if start[0] > 0x7F:
        seconds = data[position + 1 : last : stride] == start[1]
        same = same[: len(seconds)] & seconds
    found = len(same) if same.all() else int(same.argmin())
    if found < FEWEST_STEPS:
        return 0
    ends[:found] = np.arange(position + stride, position + stride * found + 1, stride)
    return found


def _step(data: memoryview, position: int, count: int) -> list[int]:
    """The ends of the next records."""
    ends: list[int] = []
    append = ends.append
    try:
        for _ in range(count):
            length = data[position]
            if length < 0x80:
                position += 1 + (length >> 1)
            elif (second := data[position + 1]) < 0x80:
                position += (length >> 1) + (second << 6) - 62
            elif (third := data[position + 2]) < 0x80:
                position += (length >> 1) + (second << 6) + (third << 13) - 8253
            else:
                length, position = read_uvarint(data, position)
                position += length >> 1
            append(position)
    except (IndexError, VarintError) as error:
        raise CorruptBatchError("a record is cut off, or is not a record") from error
    return ends


def _fields(data: Bytes, places: _RecordBounds) -> _Spans:
    total = len(places.begins)
    timestamps, positions = _varlongs(data, places.begins + 1)
    offsets, positions = _uvarints(data, positions)
    bounds = np.empty(4 * total + 1, np.int32)
    bounds[-1] = len(data)
    keys, positions = _bytes(data, positions, bounds[0:-1:4], bounds[1:-1:4])
    values, positions = _bytes(data, positions, bounds[2:-1:4], bounds[3:-1:4])
    plain = data.take(positions, mode="clip") == 0
    _require((positions + 1 == places.ends) | ~plain, "a record does not end where it should")
    headers = None
    if not plain.all():
        rows = np.flatnonzero(~plain)
        headers = _headers(data, rows, positions[rows], places)
    return _Spans((offsets >> 1) ^ -(offsets & 1), timestamps, bounds, keys, values, headers)


def _bytes(data: Bytes, positions: Ints, begins: Bounds, ends: Bounds) -> tuple[Flags, Ints]:
    """A length and as many bytes: which are not null, and the positions behind."""
    lengths, positions = _uvarints(data, positions)
    null = (lengths & 1) != 0
    _require((lengths == _NO_FIELDS) | ~null, "a length is negative")
    # What does not fit 32 bits is no place in the data: it is refused with the end of its record.
    begins[:] = positions
    positions = positions + (lengths >> 1)
    ends[:] = positions
    return ~null, positions


def _headers(data: Bytes, rows: Ints, positions: Ints, places: _RecordBounds) -> HeaderSpans | None:
    """The headers of the records ``rows``, whose number stands at ``positions``."""
    ends = places.ends[rows]
    doubled, positions = _uvarints(data, positions)
    # A header has two lengths at least: what cannot fit is refused before anything is reserved for it.
    _require(((doubled & 1) == 0) & (doubled <= ends - positions), "the declared headers do not fit")
    counts = doubled >> 1
    total = int(counts.sum())
    firsts = np.cumsum(counts) - counts
    bounds = np.empty(4 * total + 1, np.int32)
    bounds[-1] = len(data)
    values = np.empty(total, np.bool_)
    order = np.argsort(-counts, kind="stable")
    at, slots, descending = positions[order], firsts[order], counts[order]
    for step in range(int(descending[0])):
        live = int(np.searchsorted(-descending, -step, side="left"))
        at[:live], values[slots[:live] + step] = _header(data, at[:live], (slots[:live] + step) * 4, bounds)
    _require(at == ends[order], "a record does not end where its headers do")
    every = np.zeros(len(places.begins), np.int32)
    every[rows] = counts
    return HeaderSpans(every, bounds, values) if total else None


def _header(data: Bytes, positions: Ints, slots: Ints, bounds: Bounds) -> tuple[Ints, Flags]:
    """One header of each lane, its bounds from ``slots`` on: the positions behind, and which have a value."""
    found = np.empty((4, len(positions)), np.int32)
    keys, positions = _bytes(data, positions, found[0], found[1])
    _require(keys, "a header has no key")
    values, positions = _bytes(data, positions, found[2], found[3])
    for place, numbers in enumerate(found):
        bounds[slots + place] = numbers
    return positions, values


def _uvarints(data: Bytes, positions: Ints) -> tuple[Ints, Ints]:
    """An unsigned number of at most 32 bits at each position, and the positions behind them."""
    first = data.take(positions, mode="clip")
    positions = positions + 1
    longer = first > 0x7F
    if not longer.any():
        return first.astype(np.int64), positions
    numbers = (first & 0x7F).astype(np.int64)
    lanes = np.flatnonzero(longer)
    for shift in range(7, 7 * _INT32_BYTES, 7):
        more = data.take(positions[lanes], mode="clip")
        numbers[lanes] |= (more & 0x7F).astype(np.int64) << shift
        positions[lanes] += 1
        lanes = lanes[more > 0x7F]
        if not len(lanes):
            break
    if len(lanes) or (numbers > 0xFFFFFFFF).any():
        raise CorruptBatchError("a number has more than 32 bits")
    return numbers, positions


def _varlongs(data: Bytes, positions: Ints) -> tuple[Ints, Ints]:
    """A signed number of at most 64 bits, zig-zag, at each position, and the positions behind them."""
    first = data.take(positions, mode="clip")
    positions = positions + 1
    numbers = (first & 0x7F).astype(np.uint64)
    lanes = np.flatnonzero(first > 0x7F)
    for shift in range(7, 7 * _INT64_BYTES, 7):
        if not len(lanes):
            break
        more = data.take(positions[lanes], mode="clip")
        if shift == 7 * (_INT64_BYTES - 1):
            _require(more <= 1, "a number has more than 64 bits")
        numbers[lanes] |= (more & 0x7F).astype(np.uint64) << np.uint64(shift)
        positions[lanes] += 1
        lanes = lanes[more > 0x7F]
    half = (numbers >> np.uint64(1)).astype(np.int64)
    return half ^ -(numbers & np.uint64(1)).astype(np.int64), positions


def _require(good: Flags, otherwise: str) -> None:
    if not good.all():
        raise CorruptBatchError(otherwise)
