"""Opening the files of a partition, and mending them after a crash.

After a clean shutdown files are trusted: only the tail of the last segment is read. After anything else every
segment from the recovery point on is read and checked, cut at the first byte that is not a good batch, and
what follows a cut is removed: a torn batch cannot be told from a damaged one, so nothing after it counts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kohort.log.checkpoints import LEADER_EPOCHS, CorruptCheckpointError, read_epochs
from kohort.log.disk import Entry, read_file, remove_if_there
from kohort.log.epochs import LeaderEpochs
from kohort.log.leftovers import base_of, tidy
from kohort.log.producers import CorruptSnapshotError, Producers
from kohort.log.scan import checked_batches
from kohort.log.segment import LOG, SEGMENT_SUFFIXES, SNAPSHOT, Place, Segment, file_name
from kohort.model.ids import LeaderEpoch, Offset
from kohort.records.batch import CorruptBatchError, LegacyFormatError

_FIRST = Offset(0)


@dataclass(frozen=True, slots=True)
class Trust:
    """What is known about a log before its files are looked at."""

    clean: bool = True  # the last run closed the log
    recovery_point: Offset = _FIRST  # everything before was synced
    start_offset: Offset = _FIRST  # at least here the log starts, whatever files say


@dataclass(slots=True)
class Recovered:
    """A log as it was found."""

    segments: list[Segment] = field(default_factory=list)
    start_offset: Offset = _FIRST
    end_offset: Offset = _FIRST
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    producers: Producers = field(default_factory=Producers)
    repairs: list[str] = field(default_factory=list)
    recovery_point: Offset = _FIRST  # everything before, and all that is derived from it, is synced
    closed: bool = False  # the files are complete as they are, down to the last index and snapshot


def recover(place: Place, trust: Trust) -> Recovered:
    """Open what is in the directory of a partition; an empty log if there is nothing.

    Raises ``LegacyFormatError`` rather than cut data of an old format, and ``OSError``.
    """
    entries = place.disk.entries(place.directory)
    if not entries:
        return Recovered(start_offset=trust.start_offset, end_offset=trust.start_offset)
    recovery = _Recovery(place, trust)
    recovery.open_segments(entries)
    recovery.mend()
    recovery.settle_offsets()
    recovery.load_producers()
    return recovery.log


class _Recovery:
    """The steps of one recovery, in order."""

    def __init__(self, place: Place, trust: Trust) -> None:
        self.log = Recovered()
        self._place = place
        self._trust = trust
        self._snapshots: list[int] = []
        self._changed = False

    def open_segments(self, entries: Iterable[Entry]) -> None:
        """Tidy up and find the segments; index files without a log belong to nothing and go."""
        files = {entry.name: entry for entry in entries if not entry.is_directory}
        done = tidy(self._place.disk, self._place.directory, files)
        if done:
            self.log.repairs += done
            files = {entry.name: entry for entry in self._place.disk.entries(self._place.directory)}
        for name, entry in sorted(files.items()):
            base = base_of(name)
            if base is None:
                continue
            if name.endswith(LOG):
                self.log.segments.append(Segment(self._place, Offset(base), entry.size, entry.modified))
            elif name.endswith(SNAPSHOT):
                self._snapshots.append(base)
            elif name.endswith(SEGMENT_SUFFIXES) and file_name(base) + LOG not in files:
                self._remove(name, "it belongs to no segment")

    def mend(self) -> None:
        """Find the end of the log; check the batches that may be damaged, and rebuild what is derived."""
        segments = self.log.segments
        known_epochs = self._read_epochs()
        if not segments:
            return
        if self._trust.clean and known_epochs:
            try:
                self.log.end_offset = segments[-1].resume()
                self.log.closed = True
                return
            except CorruptBatchError as error:
                self.log.repairs.append(f"was closed cleanly, yet {error}")
        first = self._first_suspect() if known_epochs else 0
        self._check_from(max(first, 0))

    def settle_offsets(self) -> None:
        """Where the log starts and ends, and what that makes obsolete."""
        log = self.log
        if log.segments:
            log.start_offset = max(self._trust.start_offset, log.segments[0].base_offset)
        else:
            log.start_offset = log.end_offset = self._trust.start_offset
        if log.end_offset < log.start_offset:
            log.repairs.append(
                f"ends at {log.end_offset}, before its start {log.start_offset}: begins anew there"
            )
            self._remove_segments(0)
            log.end_offset = log.start_offset
            log.segments.append(Segment(self._place, log.start_offset))
            log.segments[0].create()
        log.epochs.truncate(log.end_offset)

    def load_producers(self) -> None:
        log = self.log
        log.producers, repairs = load_producers(self._place, log.segments, log.end_offset, self._snapshots)
        log.repairs += repairs
        log.closed &= not repairs and log.end_offset in self._snapshots
        log.recovery_point = log.end_offset if log.closed else min(self._trust.recovery_point, log.end_offset)
        if self._changed:
            self._place.disk.sync_directory(self._place.directory)

    def _read_epochs(self) -> bool:
        """Load the epoch checkpoint; without one, epochs must be learnt from all batches."""
        content = read_file(self._place.disk, f"{self._place.directory}/{LEADER_EPOCHS}")
        try:
            self.log.epochs = LeaderEpochs(read_epochs(content or b""))
        except CorruptCheckpointError:
            return False
        return True

    def _first_suspect(self) -> int:
        """The segment that holds the recovery point; the last one is always looked at."""
        segments = self.log.segments
        below = sum(segment.base_offset <= self._trust.recovery_point for segment in segments)
        return below - 1

    def _check_from(self, first: int) -> None:
        segments = self.log.segments
        for number, segment in enumerate(segments[first:], first):
            if number > first and segment.base_offset < self.log.end_offset:
                self.log.repairs.append(
                    f"{file_name(segment.base_offset)}{LOG} overlaps what comes before it"
                )
                self._remove_segments(number)
                segments[-1].unseal()
                break
            self.log.end_offset = segment.base_offset
            damage = self._check(segment)
            if number < len(segments) - 1 and damage is None:
                for file in segment.save_indexes():
                    file.sync()
                segment.seal()
            elif damage is not None and number < len(segments) - 1:
                self._remove_segments(number + 1)
                break

    def _check(self, segment: Segment) -> CorruptBatchError | None:
        """Check one segment and index it again; cut it at the first damage, which is returned."""
        size = segment.size
        file = segment.file()
        segment.forget_indexes()
        damage = None
        try:
            for _, header in checked_batches(file, size, segment.base_offset):
                segment.learn(header.size, header.last_offset, header.max_timestamp)
                self.log.epochs.begin(LeaderEpoch(header.partition_leader_epoch), Offset(header.base_offset))
                self.log.end_offset = Offset(header.next_offset)
        except LegacyFormatError:
            raise
        except CorruptBatchError as error:
            damage = error
            file.truncate(segment.size)
            self.log.repairs.append(
                f"cut {size - segment.size} bytes off {file_name(segment.base_offset)}{LOG}, "
                f"which ends with offset {self.log.end_offset - 1} now: {error}"
            )
        # What is kept counts as stored from now on, so it must be.
        file.sync()
        self._changed = True
        return damage

    def _remove_segments(self, first: int) -> None:
        for segment in reversed(self.log.segments[first:]):
            self.log.repairs.append(f"removed {file_name(segment.base_offset)}{LOG} of {segment.size} bytes")
            segment.remove()
            self._changed = True
        del self.log.segments[first:]

    def _remove(self, name: str, reason: str) -> None:
        self.log.repairs.append(f"removed {name}: {reason}")
        remove_if_there(self._place.disk, f"{self._place.directory}/{name}")
        self._changed = True


def load_producers(
    place: Place, segments: Sequence[Segment], end: Offset, snapshots: Iterable[int]
) -> tuple[Producers, list[str]]:
    """What producers have written up to ``end``: the newest good snapshot, and the batches after it.

    Also says what was wrong with other snapshots, which are removed; so are those that are of no more use.
    """
    # A snapshot from before the first segment misses the batches in between, and would refuse what follows.
    first = segments[0].base_offset if segments else end
    producers, after, repairs = _newest_snapshot(
        place, end, [offset for offset in snapshots if offset >= first]
    )
    wanted = {after, *(segment.base_offset for segment in segments)}
    for offset in snapshots:
        if offset not in wanted:
            remove_if_there(place.disk, _snapshot_path(place, offset))
    ends = [*(segment.base_offset for segment in segments[1:]), end]
    for segment, its_end in zip(segments, ends, strict=False):
        if its_end > after:
            for _, header in segment.headers(segment.floor(after)):
                if header.base_offset >= after:
                    producers.replay(header)
    return producers, repairs


def _newest_snapshot(place: Place, end: Offset, snapshots: Iterable[int]) -> tuple[Producers, int, list[str]]:
    repairs: list[str] = []
    for offset in sorted(snapshots, reverse=True):
        try:
            if offset > end:
                raise CorruptSnapshotError("it is beyond the end of the log")
            content = read_file(place.disk, _snapshot_path(place, offset))
            return Producers.from_snapshot(content or b""), offset, repairs
        except CorruptSnapshotError as error:
            repairs.append(f"removed {file_name(offset)}{SNAPSHOT}: {error}")
            remove_if_there(place.disk, _snapshot_path(place, offset))
    return Producers(), 0, repairs


def _snapshot_path(place: Place, offset: int) -> str:
    return f"{place.directory}/{file_name(offset)}{SNAPSHOT}"
