"""Find the records of many batches at once, by what stands around a place where one ends and another begins.

Most records have no headers, are shorter than 8 KiB and have no attributes. Then a zero (no headers) ends one
record, and behind the one or two bytes of its length a zero (the attributes) stands in the next. Such places
are a few operations on vectors away. They are a guess, but one that is proved: if each of them leads by its
length to the next one, from the beginning of every batch to its end and in as many steps as the batch counts
records, then hopping from record to record would have come to no others.
"""

import numpy as np

from kohort.records.columns.spans import Bytes, Flags, Ints, Section
from kohort.records.record import SMALLEST_RECORD

# All bytes are looked at: where records are longer, hopping over them costs less.
LONGEST_RECORD = 300
# With fewer, the price of the operations themselves is that of hopping.
FEWEST_RECORDS = 256
# If there are more batches, one of them shows whether the others are worth a look.
_FEW_BATCHES = 4
# Bytes that are looked at together: what is made of them stays in a processor's cache.
STRETCH = 1 << 18

# How far the first byte of a length alone leads: half of it (zig-zag), and the one or two bytes themselves.
DISTANCES: Ints = np.array(
    [1 + (byte >> 1) if byte < 0x80 else 2 + ((byte & 0x7F) >> 1) for byte in range(256)]
)


def spot(section: Section, data: Bytes) -> tuple[Ints, Ints] | None:
    """Where each record begins, with its length, and where it ends; None if hopping has to tell."""
    if section.records < FEWEST_RECORDS:
        return None
    if len(section.starts) > _FEW_BATCHES and _spot(section.part(slice(0, 1)), data) is None:
        return None
    return _spot(section, data)


def _spot(section: Section, data: Bytes) -> tuple[Ints, Ints] | None:
    filled = section.counts > 0
    starts, stops, counts = section.starts[filled], section.ends[filled], section.counts[filled]
    total = section.records
    if not total or int(stops[-1] - starts[0]) > total * LONGEST_RECORD:
        return None
    if (stops - starts < counts * SMALLEST_RECORD).any():
        return None
    low = int(starts[0])
    piece = data[low : int(stops[-1])]
    starts, stops = starts - low, stops - low
    begins = _likely(piece, starts, stops)
    if len(begins) > 2 * total:
        return None
    ends = begins + _distances(piece, begins)
    if len(begins) > total:
        led_to = _led_to(begins, ends, starts, len(piece))
        begins, ends = begins[led_to], ends[led_to]
    if len(begins) != total:
        return None
    lasts = np.cumsum(counts)
    following = np.empty_like(begins)
    following[:-1] = begins[1:]
    following[lasts - 1] = stops
    is_proved = np.array_equal(ends, following) and np.array_equal(begins[lasts - counts], starts)
    return (begins + low, ends + low) if is_proved else None


def _likely(piece: Bytes, starts: Ints, stops: Ints) -> Ints:
    """Places where a record may begin, and those where one does: at the beginning of a batch."""
    between = list(zip(stops[:-1].tolist(), starts[1:].tolist(), strict=True))[::-1]
    zeros = np.empty(STRETCH + 3, np.bool_)
    flags = np.empty(STRETCH, np.bool_)
    found = [np.zeros(1, np.int64)]
    for first in range(1, len(piece) - 2, STRETCH):
        stretch = piece[first - 1 : first + STRETCH + 2]
        zero = np.equal(stretch, 0, out=zeros[: len(stretch)])
        likely = flags[: len(stretch) - 3]
        np.logical_or(zero[2:-1], zero[3:], out=likely)
        np.logical_and(likely, zero[:-3], out=likely)
        _leave_headers_out(likely, first, between)
        found.append(np.flatnonzero(likely) + first)
    return np.concatenate(found)


def _leave_headers_out(likely: Flags, first: int, between: list[tuple[int, int]]) -> None:
    """Between batches no record begins, and behind that one does. Takes what is done with from the list."""
    while between and between[-1][0] < first + len(likely):
        stop, start = between[-1]
        likely[max(stop - first, 0) : start - first] = False
        if start >= first + len(likely):
            break
        likely[start - first] = True
        between.pop()


def _distances(piece: Bytes, begins: Ints) -> Ints:
    """How far lengths of one or two bytes lead; a longer one leads nowhere."""
    first = piece.take(begins)
    distances = DISTANCES.take(first)
    if first.max() > 0x7F:
        second = piece.take(begins + 1, mode="clip")
        longer = first > 0x7F
        distances += (second.astype(np.int64) << 6) * longer
        distances[longer & (second > 0x7F)] = 0
    return distances


def _led_to(begins: Ints, ends: Ints, starts: Ints, size: int) -> Flags:
    """Which of the places another one leads to, or a batch begins at, and are long enough for a record."""
    long_enough = ends - begins >= SMALLEST_RECORD
    marks = np.zeros(size + 1, np.bool_)
    marks[np.minimum(ends[long_enough], size)] = True
    marks[starts] = True
    return long_enough & marks.take(begins)
