"""What compaction keeps: decisions about batches and segments, no files.

A record stays if no later one in the cleaned part of the log has its key. Offsets and order never change. Two
simplifications, both of which only keep more than Kafka would: transactional batches and markers stay as they
are (whether a transaction was aborted is not looked up), and their records do not outdate others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from kohort.log.log import Cleanup, LogConfig
from kohort.log.retention import Aged, largest_timestamp
from kohort.model.ids import Offset, WallTime
from kohort.records.batch import BatchHeader, Record, read_records, rebuild_batch

_MOST_OFFSETS = (1 << 31) - 1

S = TypeVar("S", bound=Aged)


@dataclass(frozen=True, slots=True)
class Cleaning:
    """What one round of compaction knows."""

    newest: Mapping[bytes, int]  # the last offset of each key in the dirty part
    active: Mapping[int, Offset]  # the last offset of each producer that is remembered
    end: Offset  # the round goes up to here
    now: WallTime
    delete_retention_ms: int


def note_keys(newest: dict[bytes, int], batch: bytes, header: BatchHeader) -> None:
    """Enter the keys of a batch into the map of newest offsets."""
    if header.is_control or header.is_transactional:
        return
    for record in read_records(batch):
        if record.key is not None:
            newest[record.key] = record.offset


def clean_batch(batch: bytes, header: BatchHeader, cleaning: Cleaning) -> bytes | None:
    """The batch as it stays in the log: unchanged, with fewer records, empty, or not at all.

    An emptied batch stays if it tells the last sequence of a producer, or the end of the cleaned part.
    """
    if header.is_control or header.is_transactional:
        return batch
    records = read_records(batch)
    expired = header.delete_horizon is not None and cleaning.now >= header.delete_horizon
    kept = [record for record in records if _stays(record, cleaning, expired)]
    if not kept:
        last = header.last_offset
        stays = cleaning.active.get(header.producer_id) == last or last == cleaning.end - 1
        return rebuild_batch(header, ()) if stays else None
    horizon = None
    if header.delete_horizon is None and any(record.value is None for record in kept):
        # The first cleaning that sees a tombstone says how long it stays.
        horizon = cleaning.now + cleaning.delete_retention_ms
    elif len(kept) == len(records):
        return batch
    return rebuild_batch(header, kept, delete_horizon=horizon)


def _stays(record: Record, cleaning: Cleaning, expired: bool) -> bool:
    if record.key is None or cleaning.newest.get(record.key, -1) > record.offset:
        return False
    return record.value is not None or not expired


def count_cleanable(
    segments: Sequence[Aged], first_dirty: Offset, high_watermark: Offset, config: LogConfig, now: WallTime
) -> int:
    """How many of the first segments may be cleaned: closed ones, below the high watermark.

    The first dirty one that is younger than ``min.compaction.lag.ms`` stops the round.
    """
    lag = config.min_compaction_lag_ms
    for count, (segment, following) in enumerate(pairwise(segments)):
        is_dirty = following.base_offset > first_dirty
        too_young = is_dirty and lag > 0 and now - largest_timestamp(segment) < lag
        if following.base_offset > high_watermark or too_young:
            return count
    return max(len(segments) - 1, 0)


def is_worth_it(
    segments: Sequence[Aged], first_dirty: Offset, high_watermark: Offset, config: LogConfig, now: WallTime
) -> bool:
    """Whether enough of what may be cleaned is dirty, or something waits for too long."""
    if Cleanup.COMPACT not in config.cleanup:
        return False
    count = count_cleanable(segments, first_dirty, high_watermark, config, now)
    clean = sum(following.base_offset <= first_dirty for following in segments[1:])
    dirty_bytes = sum(segment.size for segment in segments[clean:count])
    if not dirty_bytes:
        return False
    latest = now - config.max_compaction_lag_ms
    if any(0 < segment.first_timestamp < latest for segment in segments[clean:-1]):
        return True
    # A segment that begins clean and ends dirty (its first records are deleted) counts as both, as in Kafka.
    clean_bytes = sum(segment.size for segment in segments if segment.base_offset < first_dirty)
    return dirty_bytes / (clean_bytes + dirty_bytes) > config.min_cleanable_dirty_ratio


def groups(segments: Sequence[S], end: Offset, most_bytes: int) -> list[list[S]]:
    """Neighbours that together make one segment of at most ``most_bytes``; ``end`` is where the last ends."""
    ends = [*(segment.base_offset for segment in segments[1:]), end]
    grouped: list[list[S]] = []
    size = 0
    for segment, its_end in zip(segments, ends, strict=True):
        size += segment.size
        group = grouped[-1] if grouped else None
        if group and size <= most_bytes and its_end - group[0].base_offset <= _MOST_OFFSETS:
            group.append(segment)
        else:
            grouped.append([segment])
            size = segment.size
    return grouped
