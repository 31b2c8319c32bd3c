"""Finding records by time: the only reads of a log that decode a batch.

A look into a large batch takes long and needs nothing of the log: it goes to a thread.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeAlias

from kohort.log.files.segment import Segment
from kohort.log.files.walk import timestamp_of
from kohort.log.log import TimedOffset
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import LeaderEpoch, Offset
from kohort.model.topics import TopicPartition
from kohort.records.batch import NO_TIMESTAMP, BatchHeader, CorruptBatchError, Record, read_records
from kohort.records.compression import DEFAULT_LIMIT
from kohort.records.errors import OversizedPayloadError
from kohort.records.produced import AT_ONCE_BYTES, AT_ONCE_RECORDS

Stored: TypeAlias = tuple[bytes, BatchHeader]
Choice: TypeAlias = Callable[[Sequence[Record]], Record | None]
Look: TypeAlias = Callable[[], TimedOffset | None]
Elsewhere: TypeAlias = Callable[[Look], Awaitable[TimedOffset | None]]
"""Has a look taken in a thread; the log may have changed when it returns."""


async def first_not_older(
    segments: Sequence[Segment], timestamp: int, start: Offset, limit: Offset, elsewhere: Elsewhere
) -> TimedOffset | None:
    """The first record from ``start`` on, below ``limit``, that is not older than ``timestamp``.

    ``segments`` are those of the log, also when they have changed between two looks.
    """
    while (stored := _first_that_may(segments, timestamp, start, limit)) is not None:
        found = await _look(stored, partial(_first, timestamp, start), elsewhere)
        if found is not None:
            return found if found.offset < limit else None
        start = Offset(stored[1].next_offset)  # the youngest record of the batch is deleted
    return None


async def youngest(
    segments: Sequence[Segment], start: Offset, limit: Offset, elsewhere: Elsewhere
) -> TimedOffset | None:
    """The first of the youngest records from ``start`` on; ``None`` if it is not below ``limit``.

    ``segments`` as above.
    """
    cut = _batch_cut_by(segments, start)
    if cut is not None and timestamp_of(cut[1]) >= _youngest_whole(segments, start)[0]:
        found = await _look(cut, partial(_youngest, start), elsewhere)
        if found is not None and found.timestamp >= _youngest_whole(segments, start)[0]:
            return found if found.offset < limit else None
    _, stored = _youngest_whole(segments, start)
    if stored is None:
        return None
    found = await _look(stored, partial(_youngest, start), elsewhere)
    return found if found is not None and found.offset < limit else None


async def refusing(search: Awaitable[TimedOffset | None], partition: TopicPartition) -> TimedOffset | None:
    """A search that refuses with CORRUPT_MESSAGE where it meets damage."""
    try:
        return await search
    except CorruptBatchError as error:
        raise RefusedError(ErrorCode.CORRUPT_MESSAGE, f"{partition} is damaged: {error}") from error


# -- batches -------------------------------------------------------------------------------------------


def _first_that_may(
    segments: Sequence[Segment], timestamp: int, start: Offset, limit: Offset
) -> Stored | None:
    """The first batch whose header does not rule it out."""
    for segment in segments:
        if segment.base_offset >= limit:
            return None
        if segment.youngest[0] < timestamp:
            continue
        known_older = segment.times.floor(timestamp)
        position = segment.floor(segment.base_offset + known_older) if known_older >= 0 else 0
        for at, header in segment.headers(max(position, segment.floor(start))):
            if timestamp_of(header) >= timestamp and header.last_offset >= start:
                return segment.read_batch(at, header), header
    return None


def _batch_cut_by(segments: Sequence[Segment], start: Offset) -> Stored | None:
    """The batch whose first records are deleted, if there is one with others."""
    for segment in segments:
        if segment.base_offset >= start:
            return None
        for at, header in segment.headers(segment.floor(start)):
            if header.last_offset >= start:
                is_cut = header.base_offset < start and header.records_count
                return (segment.read_batch(at, header), header) if is_cut else None
    return None


def _youngest_whole(segments: Sequence[Segment], start: Offset) -> tuple[int, Stored | None]:
    """The first batch with the largest timestamp, of those that begin at ``start`` or later.

    Where no record has a timestamp, that is the first batch.
    """
    best, best_timestamp = None, NO_TIMESTAMP
    for segment in segments:
        timestamp, last_offset = _youngest_of(segment, start)
        if segment.size and (best is None or timestamp > best_timestamp):
            best, best_timestamp = (segment, last_offset), timestamp
    if best is None:
        return NO_TIMESTAMP, None
    segment, last_offset = best
    position = segment.locate(last_offset)
    if position is None:  # everything before the start, nothing after it
        return NO_TIMESTAMP, None
    _, header = next(segment.headers(position))
    return best_timestamp, (segment.read_batch(position, header), header)


def _youngest_of(segment: Segment, start: Offset) -> tuple[int, int]:
    if segment.base_offset >= start:
        return segment.youngest
    # The first records of the segment are deleted; its index may speak of one of them.
    found = (NO_TIMESTAMP, int(start))
    for _, header in segment.headers(segment.floor(start)):
        if header.base_offset >= start and timestamp_of(header) > found[0]:
            found = (timestamp_of(header), header.last_offset)
    return found


# -- records -------------------------------------------------------------------------------------------


async def _look(stored: Stored, choose: Choice, elsewhere: Elsewhere) -> TimedOffset | None:
    """The record that is chosen: at once, or by a look elsewhere if the batch is a large one."""
    if stored[1].records_count <= AT_ONCE_RECORDS:
        with suppress(OversizedPayloadError):
            return _chosen(stored, choose, AT_ONCE_BYTES)
    return await elsewhere(partial(_chosen, stored, choose, DEFAULT_LIMIT))


def _chosen(stored: Stored, choose: Choice, most_bytes: int) -> TimedOffset | None:
    batch, header = stored
    record = choose(read_records(batch, 0, header, limit=most_bytes))
    if record is None:
        return None
    return TimedOffset(Offset(record.offset), record.timestamp, LeaderEpoch(header.partition_leader_epoch))


def _first(timestamp: int, start: Offset, records: Sequence[Record]) -> Record | None:
    return next((each for each in records if each.timestamp >= timestamp and each.offset >= start), None)


def _youngest(start: Offset, records: Sequence[Record]) -> Record | None:
    return max(
        (each for each in records if each.offset >= start), key=lambda each: each.timestamp, default=None
    )
