"""Reading everything in a data directory, and saying what is damaged. Nothing is changed."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kohort.log.epochs import EpochsInBatches, LeaderEpochs
from kohort.log.files.catalog_state import CATALOG, CatalogState, decode
from kohort.log.files.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEAN_SHUTDOWN_CONTENT,
    CLEANED_UP_TO,
    LEADER_EPOCHS,
    LOG_STARTS,
    META_PROPERTIES,
    OFFSETS_PARTITIONS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    CorruptCheckpointError,
    read_epochs,
    read_meta_properties,
    read_partition_metadata,
)
from kohort.log.files.directory import CHECKSUMS, Checkpoints, properties, read_checkpoints
from kohort.log.files.disk import Disk, Entry, read_file
from kohort.log.files.index import CorruptIndexError, OffsetIndex, TimeIndex
from kohort.log.files.inventory import INVENTORY, NOTHING_NOTED, Inventory, read_inventory
from kohort.log.files.leftovers import CLEANED, DELETED, SWAP, base_of
from kohort.log.files.mending import Contents, read_contents
from kohort.log.files.offsets_partitions import UnknownPartitionCountError, count_offsets_partitions
from kohort.log.files.scan import is_torn
from kohort.log.files.segment import (
    INDEX,
    LOG,
    SNAPSHOT,
    TIME_INDEX,
    OpenFiles,
    Segment,
    SegmentFolder,
    file_name,
)
from kohort.log.files.sweep import (
    has_records,
    is_of_a_topic,
    is_partition_directory,
    partition_named,
    partitions_of,
    topic_id_in,
)
from kohort.log.producers import CorruptSnapshotError, Producers
from kohort.model.ids import LeaderEpoch, Offset
from kohort.model.topics import CONSUMER_OFFSETS
from kohort.primitives.crc import crc32c
from kohort.records.batch import BatchHeader, LegacyFormatError

CHECKPOINTS = (RECOVERY_POINTS, LOG_STARTS, CLEANED_UP_TO)
ONLY_IN_CATALOG = (
    "Users (SCRAM), ACLs, configs of topics, groups and brokers, and topics without records are in the "
    "catalog alone: those of lost lines are lost. Set them again before clients connect, or restore a backup"
)
_START = Offset(0)

Progress = Callable[[str, int, int], None]
"""Called with the name of a partition, its number and how many there are."""


class Finding(NamedTuple):
    """Something that is not as it should be."""

    name: str  # of the file, in the data directory
    what: str
    remedy: str
    is_damage: bool = True  # else a start mends it without a loss


@dataclass(slots=True)
class Report:
    """What a check has read and found."""

    partitions: int = 0
    segments: int = 0
    bytes_read: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def is_damaged(self) -> bool:
        return any(finding.is_damage for finding in self.findings)


class CatalogLines(NamedTuple):
    """What can be read of a catalog."""

    state: CatalogState
    damaged: list[int]  # the numbers of lines, from 1
    is_cut: bool  # the last line is not finished


def read_catalog(content: bytes) -> CatalogLines:
    """Apply the lines that are good; a change of something whose own line is lost is lost with it."""
    state, damaged = CatalogState(), []
    *lines, rest = content.split(b"\n")
    for number, line in enumerate(lines, 1):
        record = decode(line)
        try:
            if record is None:
                raise KeyError
            state.apply(record)
        except KeyError:
            damaged.append(number)
    return CatalogLines(state, damaged, bool(rest))


def check(disk: Disk, data: str, progress: Progress = lambda *_: None) -> Report:
    """Read a whole data directory. The caller holds its lock, or knows that there is no broker."""
    return _Check(disk, data, progress).run()


class _Check:
    def __init__(self, disk: Disk, data: str, progress: Progress) -> None:
        self._disk = disk
        self._data = data
        self._progress = progress
        self._report = Report()
        self._is_clean = read_file(disk, f"{data}/{CLEAN_SHUTDOWN}") is not None
        self._inventory = self._read_inventory()
        self._checkpoints: Checkpoints = read_checkpoints(disk, data, CHECKPOINTS)
        self._catalog = read_catalog(read_file(disk, f"{data}/{CATALOG}") or b"")

    def run(self) -> Report:
        self._check_catalog()
        self._check_identity()
        for repair in self._checkpoints.repairs:
            self._find(repair.directory.removeprefix(f"{self._data}/"), repair.what, "it is written again")
        content = read_file(self._disk, f"{self._data}/{CHECKSUMS}")
        if content is not None and decode(content.removesuffix(b"\n")) is None:
            self._find(CHECKSUMS, "its checksum is wrong", "it is written again")
        names = sorted(
            entry.name for entry in self._disk.entries(self._data) if is_partition_directory(entry)
        )
        for number, name in enumerate(names, 1):
            self._progress(name, number, len(names))
            self._check_partition(name)
        self._check_offsets_partitions()
        for name in sorted(set(self._inventory.logs) - set(names)):
            files = self._inventory.logs[name]
            self._find(name, f"the directory is missing; its log ended at offset {files.end_offset}", "none")
        self._report.partitions = len(names)
        return self._report

    def _find(self, name: str, what: str, remedy: str, *, is_damage: bool = True) -> None:
        self._report.findings.append(Finding(name, what, remedy, is_damage))

    def _read_inventory(self) -> Inventory:
        """What the last shutdown noted; Kafka's own marker says that another broker has been here since."""
        if read_file(self._disk, f"{self._data}/{CLEAN_SHUTDOWN}") != CLEAN_SHUTDOWN_CONTENT:
            return NOTHING_NOTED
        content = read_file(self._disk, f"{self._data}/{INVENTORY}")
        inventory = read_inventory(content or b"")
        if content and inventory is NOTHING_NOTED:
            self._find(INVENTORY, "its checksum is wrong", "it is written again")
        return inventory

    # -- the node --------------------------------------------------------------------------------------

    def _check_catalog(self) -> None:
        content = read_file(self._disk, f"{self._data}/{CATALOG}")
        remedy = (
            f"it is rebuilt from its good lines and from the directories of partitions. {ONLY_IN_CATALOG}"
        )
        if content is None:
            self._find(CATALOG, "it is missing", remedy)
            return
        if self._catalog.damaged:
            lines = ", ".join(map(str, self._catalog.damaged[:5]))
            self._find(CATALOG, f"{len(self._catalog.damaged)} lines are damaged: {lines}", remedy)
        noted = self._inventory.catalog
        if noted is not None and noted != (len(content), crc32c(content)):
            self._find(CATALOG, f"it has {len(content)} bytes, and is not what the last run wrote", remedy)
        elif self._catalog.is_cut:
            self._find(CATALOG, "its last change is not finished", "a start cuts it off", is_damage=False)

    def _check_identity(self) -> None:
        known = read_meta_properties(read_file(self._disk, f"{self._data}/{META_PROPERTIES}") or b"")
        state = self._catalog.state
        wanted = properties(state.cluster_id, state.node_id, state.offsets_partitions)
        for name, value in wanted.items():
            is_note = name == OFFSETS_PARTITIONS  # older data have none, and a start writes it
            if state.cluster_id and known.get(name, value if is_note else None) != value:
                what = f"{name} is {known.get(name)}, and {value} in the catalog"
                remedy = "it is written again from the catalog"
                self._find(META_PROPERTIES, what, remedy, is_damage=not is_note)
                return

    def _check_offsets_partitions(self) -> None:
        """Where the catalog has lost the topic that groups are in: how a repair counts its partitions."""
        is_known = CONSUMER_OFFSETS in self._catalog.state.topics
        if is_known or not partitions_of(self._disk, self._data, CONSUMER_OFFSETS):
            return
        what = "the catalog does not know how many partitions it has"
        try:
            count, why = count_offsets_partitions(self._disk, self._data)
            remedy = f"it gets {count}: {why}"
        except UnknownPartitionCountError as error:
            what, remedy = str(error.args[0]), str(error.hint)
        self._find(CONSUMER_OFFSETS, what, remedy)

    # -- partitions ------------------------------------------------------------------------------------

    def _check_partition(self, name: str) -> None:
        path = f"{self._data}/{name}"
        self._check_owner(name, path)
        entries = self._disk.entries(path)
        for entry in entries:
            if entry.name.endswith((CLEANED, SWAP, DELETED)):
                what = "a deletion or compaction was interrupted"
                self._find(f"{name}/{entry.name}", what, "a start finishes it", is_damage=False)
        end = self._check_segments(name, entries)
        if end is not None:
            self._check_offsets(name, end)
            self._check_snapshots(name, entries, end)

    def _check_owner(self, name: str, path: str) -> None:
        partition = partition_named(name)
        known = self._catalog.state.topics.get(partition.topic)
        if topic_id_in(self._disk, path) in self._catalog.state.deleted:
            what = "the deletion of its topic was interrupted"
            self._find(name, what, "a start finishes it", is_damage=False)
            return
        if known is None or partition.partition >= known.partitions:
            if is_of_a_topic(self._disk, path):
                self._find(name, "the catalog does not know this partition", "it is taken into the catalog")
            return
        try:
            found = read_partition_metadata(read_file(self._disk, f"{path}/{PARTITION_METADATA}") or b"")
        except CorruptCheckpointError as error:
            if has_records(self._disk, path):
                self._find(f"{name}/{PARTITION_METADATA}", str(error), "it is written again")
            return
        if found != known.topic_id:
            remedy = "it is written again if it is damaged; a directory of another topic goes to quarantine"
            self._find(f"{name}/{PARTITION_METADATA}", "it has another topic id than the catalog", remedy)

    def _check_segments(self, name: str, entries: list[Entry]) -> Offset | None:
        """Read all segments; returns where the log ends, ``None`` if it has none or cannot be read."""
        place = SegmentFolder(self._disk, f"{self._data}/{name}", OpenFiles(4), 4096)
        found = sorted(
            (base, entry)
            for entry in entries
            if (base := base_of(entry.name)) is not None and entry.name == file_name(base) + LOG
        )
        segments = [Segment(place, Offset(base), entry.size) for base, entry in found]
        files = self._inventory.logs.get(name)
        if files is not None:
            for what in files.changed({entry.name: entry.size for entry in entries}).values():
                self._find(name, f"was closed cleanly, yet {what}", "what is intact stays readable")
        epochs = _Epochs(self._disk, f"{place.directory}/{LEADER_EPOCHS}")
        end: Offset | None = None
        for number, segment in enumerate(segments):
            upper = segments[number + 1].base_offset if number + 1 < len(segments) else None
            indexes = _Indexes(self._disk, segment) if upper is not None or self._is_clean else None

            def learn(header: BatchHeader, position: int, indexes: "_Indexes | None" = indexes) -> None:
                epochs.meet(header)
                if indexes is not None:
                    indexes.meet(position, header)

            try:
                contents = read_contents(segment, segment.size, upper, learn)
            except LegacyFormatError as error:
                self._find(f"{name}/{file_name(segment.base_offset)}{LOG}", str(error.args[0]), "none")
                return None
            self._report.segments += 1
            self._report.bytes_read += segment.size
            end = Offset(contents.runs[-1].next_offset) if contents.runs else segment.base_offset
            self._tell_damage(name, contents, end, is_last=upper is None)
            if indexes is not None and contents.is_whole:
                for suffix, what in indexes.wrong():
                    file = f"{name}/{file_name(segment.base_offset)}{suffix}"
                    self._find(file, what, "it is made again from the batches")
        if segments and self._is_clean and (wrong := epochs.wrong()) is not None:
            self._find(f"{name}/{LEADER_EPOCHS}", wrong, "it is made again from the batches")
        return end

    def _tell_damage(self, name: str, contents: Contents, end: Offset, *, is_last: bool) -> None:
        file = f"{name}/{file_name(contents.segment.base_offset)}{LOG}"
        for damage in contents.damages:
            what = f"bytes {damage.start} to {damage.end}: {damage.reason}"
            is_tail = is_last and damage.end == contents.segment.size and not self._is_clean
            if is_tail and end >= self._known_end(name) and is_torn(contents.segment.file(), damage):
                self._find(file, what, "a start cuts off this torn batch", is_damage=False)
            else:
                self._find(file, what, "these bytes go to quarantine; offsets before and after stay readable")
        for stray in contents.strays:
            what = f"offsets {stray.first_offset} to {stray.next_offset - 1} belong to another segment"
            self._find(file, what, "they go where they belong, or to quarantine if they are there")

    def _known_end(self, name: str) -> Offset:
        files = self._inventory.logs.get(name)
        if files is not None:
            return files.end_offset
        points = self._checkpoints.offsets[RECOVERY_POINTS] if self._checkpoints.have_checksums else {}
        return points.get(partition_named(name), _START)

    def _check_offsets(self, name: str, end: Offset) -> None:
        known_end = self._known_end(name)
        if end < known_end:
            what = f"the records from offset {end} to {known_end - 1} are not there"
            self._find(name, what, f"the log goes on at offset {known_end}")
        start = self._checkpoints.offsets[LOG_STARTS].get(partition_named(name), _START)
        if start > max(end, known_end):
            what = f"says that {name} starts at {start}, but it ends at {end}"
            self._find(LOG_STARTS, what, "it is written again")

    def _check_snapshots(self, name: str, entries: list[Entry], end: Offset) -> None:
        for entry in entries:
            base = base_of(entry.name)
            if base is None or entry.name != file_name(base) + SNAPSHOT:
                continue
            try:
                Producers.from_snapshot(read_file(self._disk, f"{self._data}/{name}/{entry.name}") or b"")
                if base > end and self._is_clean:
                    raise CorruptSnapshotError("it is beyond the end of the log")
            except CorruptSnapshotError as error:
                self._find(f"{name}/{entry.name}", str(error), "it is made again from the batches")


class _Epochs:
    """Whether a leader-epoch checkpoint says what the batches say."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._learnt = EpochsInBatches(LeaderEpochs())
        self._content = read_file(disk, path) or b""

    def meet(self, header: BatchHeader) -> None:
        self._learnt.meet(LeaderEpoch(header.partition_leader_epoch), Offset(header.base_offset))

    def wrong(self) -> str | None:
        try:
            stored = LeaderEpochs(read_epochs(self._content))
        except CorruptCheckpointError as error:
            return str(error)
        for epoch, start in self._learnt.finish().entries:
            if stored.at(start) != epoch:
                return f"offset {start} is of epoch {epoch}, not {stored.at(start)}"
        return None


class _Indexes:
    """Whether the entries of two indexes point to batches."""

    def __init__(self, disk: Disk, segment: Segment) -> None:
        self._base = segment.base_offset
        self._wrong: dict[str, str] = {}
        self._positions: Mapping[int, int] = {}
        self._times: Mapping[int, int] = {}
        try:
            index = OffsetIndex.decode(read_file(disk, segment.path + INDEX), segment.size)
            self._positions = {position: relative for relative, position in index.entries()}
        except CorruptIndexError as error:
            self._wrong[INDEX] = str(error)
        try:
            times = TimeIndex.decode(read_file(disk, segment.path + TIME_INDEX))
            self._times = {relative: timestamp for timestamp, relative in times.entries()}
        except CorruptIndexError as error:
            self._wrong[TIME_INDEX] = str(error)
        self._unmet = set(self._positions)
        self._unmet_times = set(self._times)

    def meet(self, position: int, header: BatchHeader) -> None:
        relative = header.last_offset - self._base
        if position in self._unmet and self._positions[position] == relative:
            self._unmet.discard(position)
        if relative in self._unmet_times and self._times[relative] == header.max_timestamp:
            self._unmet_times.discard(relative)

    def wrong(self) -> Iterator[tuple[str, str]]:
        """The suffix of each file that is wrong, and why."""
        if self._unmet:
            self._wrong[INDEX] = f"{len(self._unmet)} entries do not point to a batch"
        if self._unmet_times:
            self._wrong[TIME_INDEX] = f"{len(self._unmet_times)} entries do not point to a batch"
        yield from self._wrong.items()
