"""Compacting the closed segments of a log, in steps small enough to share a loop with everything else.

Steps rather than a thread: decoding records holds the interpreter anyway, so a thread would slow the loop
just as much, and steps need no locks against appends, retention and deletion. Only syncs go to a thread.

The files of a round are written as ``.cleaned``, synced, renamed to ``.swap`` and only then take the place of
what they were made from; ``kohort.log.files.leftovers`` finishes or undoes what a crash interrupts.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeAlias

from kohort.log.background import describe
from kohort.log.cleaner import Cleaning, clean_batch, groups, note_keys
from kohort.log.files.disk import File, remove_if_there
from kohort.log.files.leftovers import CLEANED, SWAP
from kohort.log.files.segment import INDEX, LOG, TIME_INDEX, Segment, SegmentFolder
from kohort.log.log import LogConfig
from kohort.model.ids import Offset, WallTime
from kohort.records.batch import BatchHeader, CorruptBatchError, check_crc, read_header

MOST_KEYS = 1_000_000
"""How many keys one round remembers; a round stops at the segment where they are reached."""

Work: TypeAlias = Callable[[], None]
"""Blocking work (a sync) that wants a thread; the one who asked for it waits until it has run."""

Steps: TypeAlias = Generator[Work | None, None, None]
"""A round, cut into pieces that a loop can afford; it gives way at each ``None``."""

_BYTES_A_STEP = 65_536
_KINDS = (LOG, INDEX, TIME_INDEX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What is to be compacted: closed segments, the first of them perhaps clean already."""

    place: SegmentFolder
    segments: Sequence[Segment]
    end: Offset  # where the last of them ends
    cleaned_up_to: Offset
    active: Mapping[int, Offset]  # the last offset of each producer that is remembered
    config: LogConfig
    now: WallTime
    most_keys: int = MOST_KEYS


class Compacted(Protocol):
    """The log that is being compacted."""

    layout: int  # changes whenever closed segments do
    cleaned_up_to: Offset

    def fail(self, reason: str) -> None:
        """Refuse appends until the log is reopened, which tidies its directory up."""
        ...

    def replace(self, old: Sequence[Segment], new: Segment) -> list[File]:
        """Put a segment that is ready as ``.swap`` in the place of others; returns the files of those."""
        ...


class _OutdatedError(Exception):
    """The closed segments changed while the round was giving way."""


def compact(log: Compacted, plan: Round) -> Steps:
    """Run one round. It gives up, and leaves the log as it is, when closed segments change meanwhile."""
    try:
        yield from _Compaction(log, plan).run()
    except _OutdatedError:
        return


def put_in_place(place: SegmentFolder, old: Sequence[Segment], new: Segment) -> list[File]:
    """Give a segment its name and remove those it replaces; returns their files, still open."""
    doomed = [segment.file() for segment in old]
    for segment in old:
        segment.remove()
    for kind in _KINDS:
        place.disk.rename(new.path + kind + SWAP, new.path + kind)
    return doomed


def _sync(files: Sequence[File]) -> None:
    for file in files:
        file.sync()


class _Compaction:
    """One round."""

    def __init__(self, log: Compacted, plan: Round) -> None:
        self._log = log
        self._plan = plan
        self._layout = log.layout
        self._bytes = 0
        following = [segment.base_offset for segment in plan.segments[1:]]
        self._ends = dict(zip(plan.segments, [*following, plan.end], strict=True))

    def run(self) -> Steps:
        plan = self._plan
        newest: dict[bytes, int] = {}
        end = yield from self._note_dirty(newest)
        segments = [segment for segment in plan.segments if segment.base_offset < end]
        cleaning = Cleaning(newest, plan.active, end, plan.now, plan.config.delete_retention_ms)
        for group in groups(segments, end, plan.config.segment_bytes):
            new = Segment(plan.place, group[0].base_offset)
            try:
                yield from self._make(group, new, cleaning)
            except BaseException:  # also when it is cancelled
                self._discard(new)
                raise
            doomed = self._log.replace(group, new)
            self._layout = self._log.layout
            # Freeing the blocks of a large file takes time: the last reference goes in a thread.
            yield from self._give_way(doomed.clear)
        self._log.cleaned_up_to = end

    def _note_dirty(self, newest: dict[bytes, int]) -> Generator[Work | None, None, Offset]:
        """Learn the newest offset of each key in the dirty segments; returns where the round ends."""
        plan = self._plan
        for segment in plan.segments:
            if segment.base_offset < plan.cleaned_up_to:
                continue
            if len(newest) > plan.most_keys:
                return segment.base_offset
            for header, content in self._batches(segment):
                note_keys(newest, content, header)
                yield from self._count(header.size)
        return plan.end

    def _make(self, group: Sequence[Segment], new: Segment, cleaning: Cleaning) -> Steps:
        """Write the new segment and make it durable as ``.swap``."""
        place = self._plan.place
        files = [new.create(CLEANED)]
        for segment in group:
            for header, content in self._batches(segment):
                kept = clean_batch(content, header, cleaning)
                if kept is not None:
                    new.append(kept, header.last_offset, read_header(kept).max_timestamp)
                yield from self._count(header.size)
        files += new.save_indexes(CLEANED)
        new.modified = group[-1].modified
        files[0].set_modified(new.modified)  # a cleaning makes nothing younger, also after a restart
        new.seal()
        new.let_go()
        yield from self._give_way(partial(_sync, files))
        for kind in _KINDS:
            place.disk.rename(new.path + kind + CLEANED, new.path + kind + SWAP)
        yield from self._give_way(partial(place.disk.sync_directory, place.directory))

    def _batches(self, segment: Segment) -> Iterator[tuple[BatchHeader, bytes]]:
        """The batches of a segment. Raises ``CorruptBatchError`` at damage: it must not decide what goes, nor
        get a new checksum. The checksum of a batch does not cover its offset.
        """
        expected, end = segment.base_offset, self._ends[segment]
        for position, header in segment.headers():
            content = segment.read_batch(position, header)
            check_crc(content, 0, header)
            if not expected <= header.base_offset < header.next_offset <= end:
                raise CorruptBatchError(
                    f"{segment.path}{LOG}: offset {header.base_offset} to {header.last_offset} at byte "
                    f"{position}, where {expected} to {end - 1} are expected"
                )
            expected = Offset(header.next_offset)
            yield header, content

    def _discard(self, new: Segment) -> None:
        """Remove what a round has begun. A ``.swap`` file must not stay: recovery would put it in place."""
        try:
            for kind in _KINDS:
                for suffix in (CLEANED, SWAP):
                    remove_if_there(self._plan.place.disk, new.path + kind + suffix)
        except Exception as error:
            self._log.fail(f"what a compaction left of {new.path} could not be removed: {describe(error)}")

    def _count(self, size: int) -> Steps:
        self._bytes += size
        if self._bytes > _BYTES_A_STEP:
            self._bytes = 0
            yield from self._give_way(None)

    def _give_way(self, work: Work | None) -> Steps:
        yield work
        if self._log.layout != self._layout:
            raise _OutdatedError
