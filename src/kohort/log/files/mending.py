"""Mending segments: intact batches stay at their offsets, everything else goes to quarantine.

The batches of a segment lie between its name and the name of the next one. A batch elsewhere is a stray: two
files have each other's name, or one is there twice. It goes where it belongs, unless its offsets are there.

New contents are written as ``.cleaned``, synced and renamed to ``.swap``, as a compaction does; so
``kohort.log.files.leftovers`` finishes or undoes what a crash interrupts.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from os.path import basename, dirname
from typing import NamedTuple

from kohort.log.files.leftovers import CLEANED, SWAP, tidy
from kohort.log.files.quarantine import Quarantine, copy_bytes
from kohort.log.files.scan import Damage, Intact, salvage
from kohort.log.files.segment import LOG, Segment, SegmentFolder, file_name
from kohort.log.files.walk import headers
from kohort.records.batch import BatchHeader


class Run(NamedTuple):
    """Intact batches that stand one after the other in one file."""

    segment: Segment
    start: int
    end: int
    first_offset: int
    next_offset: int


@dataclass(slots=True)
class Contents:
    """What was found in one segment."""

    segment: Segment
    runs: list[Run] = field(default_factory=list)
    strays: list[Run] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        return not self.strays and not self.damages


def read_contents(
    segment: Segment, size: int, upper: int | None, learn: Callable[[BatchHeader, int], None]
) -> Contents:
    """Read a whole segment, whose offsets end before ``upper``. Each batch in its place goes to ``learn``."""
    contents = Contents(segment)
    for found in salvage(segment.file(), size, segment.base_offset, upper):
        match found:
            case Damage():
                contents.damages.append(found)
            case Intact(position, header):
                is_home = header.base_offset >= segment.base_offset and (
                    upper is None or header.next_offset <= upper
                )
                _extend(contents.runs if is_home else contents.strays, segment, position, header)
                if is_home:
                    learn(header, position)
    return contents


def _extend(runs: list[Run], segment: Segment, position: int, header: BatchHeader) -> None:
    end = position + header.size
    if runs and runs[-1].end == position:
        runs[-1] = runs[-1]._replace(end=end, next_offset=header.next_offset)
    else:
        runs.append(Run(segment, position, end, header.base_offset, header.next_offset))


def mend(place: SegmentFolder, segments: Sequence[Segment], found: dict[int, Contents]) -> list[str]:
    """Rewrite the segments that are damaged; ``found`` are those that were read, by number.

    Returns what was done, in words. The caller opens the directory again afterwards.
    """
    return _Mending(place, segments, found).run()


class _Mending:
    def __init__(self, place: SegmentFolder, segments: Sequence[Segment], found: dict[int, Contents]) -> None:
        self._place = place
        self._segments = segments
        self._found = found
        self._quarantine = Quarantine(place.disk, dirname(place.directory))
        self._partition = basename(place.directory)
        self._bases = [int(segment.base_offset) for segment in segments]
        self._orphans: dict[int, list[Run]] = {}  # batches that lie before the first segment
        self.done: list[str] = []

    def run(self) -> list[str]:
        self._leave_out_wrong_names()
        damaged = [contents for contents in self._found.values() if not contents.is_whole]
        for contents in damaged:
            for stray in contents.strays:
                self._place_stray(stray)
        for contents in damaged:
            self._keep_damaged(contents)
        self._rewrite()
        for contents in self._found.values():
            if not contents.runs and contents.segment.size:
                self._keep_whole(contents.segment)
        return self.done

    def _leave_out_wrong_names(self) -> None:
        """A segment whose name lies inside a batch of another one has the wrong name: all of it is stray."""
        wrong = {
            base
            for contents in self._found.values()
            for stray in contents.strays
            for _, header in headers(stray.segment.file(), stray.start, stray.end)
            for base in self._bases[bisect_right(self._bases, header.base_offset) :][:1]
            if base < header.next_offset and header.base_offset >= contents.segment.base_offset
        }
        if not wrong:
            return
        self._bases = [base for base in self._bases if base not in wrong]
        every = self._segments
        self._segments = [segment for segment in every if segment.base_offset not in wrong]
        self._found = {}
        for number in range(len(self._segments)):
            self._read(number)
        for segment in every:
            if segment.base_offset in wrong:
                contents = read_contents(segment, segment.size, segment.base_offset, lambda *_: None)
                self._found[-1 - len(self._found)] = contents

    def _read(self, number: int) -> Contents:
        segment = self._segments[number]
        upper = self._bases[number + 1] if number + 1 < len(self._bases) else None
        contents = self._found[number] = read_contents(segment, segment.size, upper, lambda *_: None)
        return contents

    def _place_stray(self, stray: Run) -> None:
        segment = stray.segment
        for position, header in headers(segment.file(), stray.start, stray.end):
            run = Run(segment, position, position + header.size, header.base_offset, header.next_offset)
            number = bisect_right(self._bases, run.first_offset) - 1
            target = self._target(number, run)
            upper = self._bases[number + 1] if number + 1 < len(self._bases) else run.next_offset
            if run.next_offset > upper or any(
                run.first_offset < other.next_offset and other.first_offset < run.next_offset
                for other in target
            ):
                why = f"offsets {run.first_offset} to {run.next_offset - 1} are in another segment, too"
                self._keep_bytes(segment, (run.start, run.end), why)
            elif number == len(self._bases) - 1 and not self._follows(run, target):
                why = f"offset {run.first_offset} follows no batch of the last segment"
                self._keep_bytes(segment, (run.start, run.end), why)
            else:
                target.append(run)

    def _follows(self, run: Run, target: Sequence[Run]) -> bool:
        """Whether a stray goes on where the last segment begins or a batch of it ends; it has no gaps.

        The checksum of a batch does not cover its offset: one that is far behind the end is a wrong one.
        """
        ends = {other.next_offset for other in target}
        return run.first_offset == self._bases[-1] or run.first_offset in ends

    def _target(self, number: int, run: Run) -> list[Run]:
        """The runs of the segment a stray belongs to."""
        if number < 0:
            lowest = min([*self._orphans, run.first_offset])
            self._orphans = {lowest: [other for runs in self._orphans.values() for other in runs]}
            return self._orphans[lowest]
        return (self._found.get(number) or self._read(number)).runs

    def _keep_damaged(self, contents: Contents) -> None:
        if not contents.runs and not contents.strays:
            return  # the whole file goes
        for damage in contents.damages:
            self._keep_bytes(contents.segment, (damage.start, damage.end), damage.reason)

    def _keep_bytes(self, segment: Segment, span: tuple[int, int], why: str) -> None:
        name = f"{file_name(segment.base_offset)}{LOG}"
        kept = self._quarantine.keep_bytes(f"{self._partition}/{name}", span, why)
        self.done.append(f"bytes {span[0]} to {span[1]} of {name} went to {kept}: {why}")

    def _keep_whole(self, segment: Segment) -> None:
        name = f"{file_name(segment.base_offset)}{LOG}"
        segment.close()
        why = "there is no intact batch in it that is not elsewhere"
        kept = self._quarantine.keep_whole(f"{self._partition}/{name}", why)
        segment.remove()
        self.done.append(f"{name} of {segment.size} bytes went to {kept}: {why}")

    def _rewrite(self) -> None:
        disk, directory = self._place.disk, self._place.directory
        wanted = {int(contents.segment.base_offset): contents.runs for contents in self._found.values()}
        changed = [
            contents.segment.base_offset
            for contents in self._found.values()
            if contents.runs
            and (not contents.is_whole or any(run.segment is not contents.segment for run in contents.runs))
        ]
        wanted |= self._orphans
        made = []
        for base in sorted([*changed, *self._orphans]):
            path = f"{directory}/{file_name(base)}{LOG}"
            target = disk.open(path + CLEANED, create=True)
            target.truncate(0)
            end = 0
            for run in sorted(wanted[base], key=lambda run: run.first_offset):
                end = copy_bytes(run.segment.file(), (run.start, run.end), target, end)
            target.sync()
            made.append(path)
        if not made:
            return
        for path in made:
            disk.rename(path + CLEANED, path + SWAP)
        disk.sync_directory(directory)
        for contents in self._found.values():
            contents.segment.close()
        tidy(disk, directory, [entry.name for entry in disk.entries(directory)])
        self.done += [f"{basename(path)} was written again without what is damaged" for path in made]
