"""Reading segments again while a broker runs, slowly, to find bytes that have changed on the disk.

A start and a fetch do not compare checksums: that would cost the time of all readers. This does, in a thread,
a megabyte at a time. Damaged bytes stay where they are; a fetch of them is answered CORRUPT_MESSAGE.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Protocol

from kohort.log.files.disk import Disk
from kohort.log.files.scan import Damage, Intact, salvage
from kohort.log.files.segment import LOG, Segment
from kohort.log.files.walk import timestamp_of
from kohort.records.batch import NO_TIMESTAMP

_BYTES_A_STEP = 1 << 20

Step = Callable[[Callable[[], int]], Awaitable[int]]
"""Runs a function in a thread and returns what it does."""


class Scrubbed(Protocol):
    """The log whose segments are read."""

    def segments(self) -> Sequence[Segment]: ...


async def scrub(
    log: Scrubbed, disk: Disk, in_thread: Step, rest: Callable[[int], Awaitable[None]]
) -> AsyncIterator[tuple[Segment, Damage]]:
    """Read all segments of a log one after another: what is damaged and was not known to be.

    The last one is read as far as it reaches when its turn comes: what was appended by then stays as it is.
    After each step ``rest`` is called with the number of bytes that were read.
    """
    for segment in list(log.segments()):
        try:
            reading = _Reading(disk, segment)
            while (size := await in_thread(reading.step)) > 0:
                await rest(size)
        except FileNotFoundError:
            continue  # deleted or compacted meanwhile
        if segment not in log.segments():
            continue
        known = segment.damages
        segment.damages = tuple(reading.damages)
        for damage in reading.damages:
            if damage not in known:
                yield segment, damage


def youngest_in(disk: Disk, segment: Segment, size: int) -> tuple[int, int]:
    """The youngest timestamp of the intact batches in the first ``size`` bytes, and the last offset of its
    batch.

    ``Segment.youngest`` believes the time index. This reads everything: a thread may call it.
    """
    file, base = disk.open(segment.path + LOG), segment.base_offset
    youngest = (NO_TIMESTAMP, int(base))
    for found in salvage(file, size, base):
        if isinstance(found, Intact) and timestamp_of(found.header) > youngest[0]:
            youngest = (timestamp_of(found.header), found.header.last_offset)
    return youngest


class _Reading:
    """One segment that is being read. It has a file of its own: that of the segment belongs to the loop."""

    def __init__(self, disk: Disk, segment: Segment) -> None:
        self.damages: list[Damage] = []
        self._position = 0
        self._size = segment.size
        self._disk = disk
        self._segment = segment
        self._found: Iterator[Intact | Damage] | None = None

    def step(self) -> int:
        """Read on, about a megabyte; how much it was, 0 at the end."""
        segment = self._segment
        if self._found is None:
            file = self._disk.open(segment.path + LOG)
            self._found = salvage(file, self._size, segment.base_offset)
        start = self._position
        for found in self._found:
            match found:
                case Damage():
                    self.damages.append(found)
                    self._position = found.end
                case Intact(position, header):
                    self._position = position + header.size
            if self._position - start >= _BYTES_A_STEP:
                break
        return self._position - start
