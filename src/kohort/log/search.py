"""Finding records by time: the only reads of a log that decode a batch."""

from collections.abc import Sequence

from kohort.log.log import TimedOffset
from kohort.log.segment import Segment
from kohort.log.walk import timestamp_of
from kohort.model.ids import LeaderEpoch, Offset
from kohort.records.batch import NO_TIMESTAMP, BatchHeader, Record, read_records


def first_not_older(
    segments: Sequence[Segment], timestamp: int, start: Offset, limit: Offset
) -> TimedOffset | None:
    """The first record from ``start`` on, below ``limit``, that is not older than ``timestamp``."""
    for segment in segments:
        if segment.base_offset >= limit:
            return None
        if segment.youngest[0] < timestamp:
            continue
        known_older = segment.times.floor(timestamp)
        position = segment.floor(segment.base_offset + known_older) if known_older >= 0 else 0
        for at, header in segment.headers(position):
            if timestamp_of(header) >= timestamp and header.last_offset >= start:
                found = _first(segment.read_batch(at, header), header, timestamp, start)
                if found is not None:
                    return found if found.offset < limit else None
    return None


def youngest(segments: Sequence[Segment], start: Offset, limit: Offset) -> TimedOffset | None:
    """The first record with the largest timestamp of all; ``None`` if it is not below ``limit``."""
    best, best_timestamp = None, NO_TIMESTAMP
    for segment in segments:
        timestamp, last_offset = _youngest_of(segment, start)
        if timestamp > best_timestamp:
            best, best_timestamp = (segment, last_offset), timestamp
    if best is None:
        return None
    segment, last_offset = best
    position = segment.locate(last_offset)
    assert position is not None, "an index names a batch that is not there"
    _, header = next(segment.headers(position))
    found = _first(segment.read_batch(position, header), header, best_timestamp, start)
    return found if found is not None and found.offset < limit else None


def _youngest_of(segment: Segment, start: Offset) -> tuple[int, int]:
    if segment.base_offset >= start:
        return segment.youngest
    # The first records of the segment are deleted; its index may speak of one of them.
    found = (NO_TIMESTAMP, int(start))
    for at, header in segment.headers(segment.floor(start)):
        if header.base_offset >= start:
            candidate = timestamp_of(header)
        elif header.last_offset >= start and header.records_count:
            records = read_records(segment.read_batch(at, header))
            candidate = max((r.timestamp for r in records if r.offset >= start), default=NO_TIMESTAMP)
        else:
            continue
        if candidate > found[0]:
            found = (candidate, header.last_offset)
    return found


def _first(batch: bytes, header: BatchHeader, timestamp: int, start: Offset) -> TimedOffset | None:
    for record in read_records(batch):
        if record.timestamp >= timestamp and record.offset >= start:
            return _found(record, header)
    return None


def _found(record: Record, header: BatchHeader) -> TimedOffset:
    return TimedOffset(Offset(record.offset), record.timestamp, LeaderEpoch(header.partition_leader_epoch))
