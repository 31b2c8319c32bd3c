"""Opening the files of a partition, and mending them after a crash or damage.

After a clean shutdown files are trusted if their sizes are those that were noted; only the tail of the last
segment is read. After anything else every segment from the recovery point on is read and checked, and of the
others the beginning and the end. A torn tail is cut off: it was never acknowledged, or never synced. Anything
else is damage: intact batches stay readable before and after it, what cannot be read goes to quarantine.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os.path import basename, dirname

from kohort.log.epochs import EpochsInBatches, LeaderEpochs
from kohort.log.files.checkpoints import LEADER_EPOCHS, LOG_STARTS, CorruptCheckpointError, read_epochs
from kohort.log.files.disk import Entry, read_file, remove_if_there
from kohort.log.files.inventory import PartitionFiles
from kohort.log.files.leftovers import base_of, tidy
from kohort.log.files.mending import Contents, mend, read_contents
from kohort.log.files.quarantine import Quarantine
from kohort.log.files.scan import is_torn
from kohort.log.files.segment import LOG, SEGMENT_SUFFIXES, SNAPSHOT, Segment, SegmentFolder, file_name
from kohort.log.producers import CorruptSnapshotError, Producers
from kohort.model.ids import LeaderEpoch, Offset
from kohort.primitives.crc import crc32c
from kohort.records.batch import BatchHeader, CorruptBatchError

_FIRST = Offset(0)


@dataclass(frozen=True, slots=True)
class Trust:
    """What is known about a log before its files are looked at."""

    clean: bool = True  # the last run closed the log
    recovery_point: Offset = _FIRST  # everything before was synced
    start_offset: Offset = _FIRST  # at least here the log starts, whatever files say
    has_checksums: bool = False  # both offsets come from files that carry checksums
    files: PartitionFiles | None = None  # what a clean shutdown has noted
    everything: bool = False  # read all batches, whatever is known

    @property
    def end_offset(self) -> Offset:
        """The log ended here or later: the offsets before are taken, also when their records are lost."""
        if self.files is not None:
            return self.files.end_offset
        return self.recovery_point if self.has_checksums else _FIRST


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


def recover(place: SegmentFolder, trust: Trust) -> Recovered:
    """Open what is in the directory of a partition; an empty log if there is nothing.

    Raises ``LegacyFormatError`` rather than quarantine data of an old format, and ``OSError``.
    """
    entries = place.disk.entries(place.directory)
    if not entries:
        start = trust.start_offset
        if trust.files is None or trust.files.end_offset <= start:
            return Recovered(start_offset=start, end_offset=start)
        # Committed offsets of consumers point behind what is lost; new records must not get those offsets.
    recovery = _Recovery(place, trust)
    recovery.open_segments(entries)
    recovery.mend()
    recovery.settle_offsets()
    recovery.load_producers()
    return recovery.log


class _Recovery:
    """The steps of one recovery, in order."""

    def __init__(self, place: SegmentFolder, trust: Trust) -> None:
        self.log = Recovered()
        self._place = place
        self._trust = trust
        self._snapshots: list[int] = []
        self._sizes: Mapping[str, int] = {}
        self._changed = False
        self._end_floor = _FIRST

    def open_segments(self, entries: Iterable[Entry]) -> None:
        """Tidy up and find the segments; index files without a log belong to nothing and go."""
        files = {entry.name: entry for entry in entries if not entry.is_directory}
        done = tidy(self._place.disk, self._place.directory, files)
        if done:
            self.log.repairs += done
            files = {entry.name: entry for entry in self._place.disk.entries(self._place.directory)}
        self._sizes = {name: entry.size for name, entry in files.items()}
        self.log.segments, self._snapshots = [], []
        for name, entry in sorted(files.items()):
            base = base_of(name)
            if base is None:
                continue
            if name == file_name(base) + LOG:
                self.log.segments.append(Segment(self._place, Offset(base), entry.size, entry.modified))
            elif name == file_name(base) + SNAPSHOT:
                self._snapshots.append(base)
            elif name.endswith(SEGMENT_SUFFIXES) and file_name(base) + LOG not in files:
                self._remove(name, "it belongs to no segment")

    def mend(self) -> None:
        """Find the end of the log; check the batches that may be damaged, and rebuild what is derived."""
        knows_epochs = self._read_epochs()
        suspects = self._suspects(knows_epochs)
        segments = self.log.segments
        if segments and len(segments) - 1 not in suspects:
            try:
                self.log.end_offset = segments[-1].resume()
            except CorruptBatchError as error:
                self.log.repairs.append(f"was closed cleanly, yet {error}")
                suspects.add(len(segments) - 1)
        self.log.closed = self._trust.clean and not suspects and bool(segments)
        found = self._read(suspects)
        self._cut_torn_tail(found)
        if all(contents.is_whole for contents in found.values()):
            return
        # Where a segment begins, the one before it had ended; only a file with a wrong name says nothing.
        self._end_floor = max(
            (each.segment.base_offset for each in found.values() if not each.strays), default=_FIRST
        )
        self.log.repairs += mend(self._place, segments, found)
        self._changed = True
        self.open_segments(self._place.disk.entries(self._place.directory))
        self._read_epochs()
        self._read(set(range(len(self.log.segments))))

    def settle_offsets(self) -> None:
        """Where the log starts and ends. Offsets that were given out are not given out again."""
        log, trust = self.log, self._trust
        if log.segments:
            log.start_offset = log.segments[0].base_offset
        if trust.start_offset <= log.end_offset:
            log.start_offset = max(log.start_offset, trust.start_offset)
        elif log.segments and any(segment.size for segment in log.segments):
            log.repairs.append(
                f"ends at {log.end_offset}, before its start {trust.start_offset} in {LOG_STARTS}: "
                "everything that is there stays readable"
            )
        end = max(trust.end_offset, self._end_floor)
        if trust.has_checksums or not any(segment.size for segment in log.segments):
            end = max(end, trust.start_offset)
        if end > log.end_offset:
            self._go_on_at(end)
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
        self.log.epochs = LeaderEpochs()
        content = read_file(self._place.disk, f"{self._place.directory}/{LEADER_EPOCHS}")
        noted = self._trust.files.epochs_checksum if self._trust.files is not None else None
        if (noted is not None and noted != crc32c(content or b"")) or self._trust.everything:
            return False
        try:
            self.log.epochs = LeaderEpochs(read_epochs(content or b""))
        except CorruptCheckpointError:
            return False
        return True

    def _suspects(self, knows_epochs: bool) -> set[int]:
        """The numbers of the segments that must be read."""
        segments, trust = self.log.segments, self._trust
        if trust.everything or not knows_epochs:
            return set(range(len(segments)))
        suspects: set[int] = set()
        if not trust.clean:
            below = sum(segment.base_offset <= trust.recovery_point for segment in segments)
            suspects.update(range(max(below - 1, 0), len(segments)))
        elif trust.files is not None:
            changed = trust.files.changed(self._sizes)
            if not changed:
                return suspects
            self.log.repairs += [f"was closed cleanly, yet {what}" for what in changed.values()]
            suspects.update(
                number for number, each in enumerate(segments) if file_name(each.base_offset) + LOG in changed
            )
        for number, segment in enumerate(segments):
            if number not in suspects and not segment.looks_whole(self._upper(number)):
                suspects.add(number)
        return suspects

    def _upper(self, number: int) -> Offset | None:
        """The offset before which a segment ends; ``None`` for the last one."""
        segments = self.log.segments
        return segments[number + 1].base_offset if number + 1 < len(segments) else None

    def _read(self, suspects: Iterable[int]) -> dict[int, Contents]:
        """Read segments and index them again."""
        found = {}
        segments = self.log.segments
        epochs = EpochsInBatches(self.log.epochs)
        for number in sorted(suspects):
            segment = segments[number]
            size, file = segment.size, segment.file()
            segment.forget_indexes()
            end = segment.base_offset

            def learn(header: BatchHeader, _: int, segment: Segment = segment) -> None:
                nonlocal end
                segment.learn(header.size, header.last_offset, header.max_timestamp)
                epochs.meet(LeaderEpoch(header.partition_leader_epoch), Offset(header.base_offset))
                end = Offset(header.next_offset)

            found[number] = contents = read_contents(segment, size, self._upper(number), learn)
            # What is kept counts as stored from now on, so it must be.
            file.sync()
            self._changed = True
            if number == len(segments) - 1:
                self.log.end_offset = end
            elif contents.is_whole:
                for index in segment.save_indexes():
                    index.sync()
                segment.seal()
            if not contents.is_whole:
                segment.size = size
        epochs.finish()
        return found

    def _cut_torn_tail(self, found: dict[int, Contents]) -> None:
        """Cut off what a crash left of the last batch; what is more than that is copied to quarantine."""
        last = len(self.log.segments) - 1
        contents = found.get(last)
        if contents is None or contents.strays or len(contents.damages) != 1:
            return
        (damage,), segment = contents.damages, contents.segment
        end = Offset(contents.runs[-1].next_offset) if contents.runs else segment.base_offset
        if damage.end != segment.size or self._trust.clean or end < self._trust.end_offset:
            return
        name = f"{file_name(segment.base_offset)}{LOG}"
        kept = ""
        if not is_torn(segment.file(), damage):
            data, partition = dirname(self._place.directory), basename(self._place.directory)
            span = (damage.start, damage.end)
            quarantine = Quarantine(self._place.disk, data)
            kept = f", kept as {quarantine.keep_bytes(f'{partition}/{name}', span, damage.reason)}"
        segment.file().truncate(damage.start)
        segment.file().sync()
        segment.size = damage.start
        contents.damages.clear()
        self.log.repairs.append(
            f"cut {damage.end - damage.start} bytes off {name}, "
            f"which ends with offset {end - 1} now{kept}: {damage.reason}"
        )

    def _go_on_at(self, end: Offset) -> None:
        """Begin a segment at ``end``: the records before it that are not there are lost."""
        log = self.log
        if not any(segment.size for segment in log.segments):
            for segment in log.segments:
                segment.remove()
            log.segments.clear()
            log.start_offset = end
        if log.end_offset < max(self._trust.end_offset, self._end_floor):
            log.repairs.append(
                f"the records from offset {log.end_offset} to {end - 1} are lost; goes on at {end}"
            )
        if log.segments:
            for index in log.segments[-1].save_indexes():
                index.sync()
            log.segments[-1].seal()
        self._place.disk.make_directory(self._place.directory)
        log.segments.append(Segment(self._place, end))
        log.segments[-1].create()
        log.end_offset = end
        log.closed = False
        self._changed = True

    def _remove(self, name: str, reason: str) -> None:
        self.log.repairs.append(f"removed {name}: {reason}")
        remove_if_there(self._place.disk, f"{self._place.directory}/{name}")
        self._changed = True


def load_producers(
    place: SegmentFolder, segments: Sequence[Segment], end: Offset, snapshots: Iterable[int]
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


def _newest_snapshot(
    place: SegmentFolder, end: Offset, snapshots: Iterable[int]
) -> tuple[Producers, int, list[str]]:
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


def _snapshot_path(place: SegmentFolder, offset: int) -> str:
    return f"{place.directory}/{file_name(offset)}{SNAPSHOT}"
