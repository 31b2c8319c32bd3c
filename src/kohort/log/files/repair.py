"""Making a damaged data directory one that a broker starts on, without removing anything that can be read.

Everything that is derived is made again: indexes, epochs, snapshots and checkpoints from the batches, the
catalog from its good lines and from the directories of partitions. What is left over goes to quarantine.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kohort.log.catalog import new_cluster_id, new_topic_id
from kohort.log.files.catalog_state import CATALOG, encode
from kohort.log.files.check import CHECKPOINTS, ONLY_IN_CATALOG, CatalogLines, Progress, read_catalog
from kohort.log.files.checkpoints import (
    CLEANED_UP_TO,
    LEADER_EPOCHS,
    LOG_STARTS,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    write_epochs,
    write_partition_metadata,
)
from kohort.log.files.directory import DataDirectory
from kohort.log.files.disk import Disk, read_file, replace_file
from kohort.log.files.inventory import PartitionFiles, take, write_inventory
from kohort.log.files.offsets_partitions import UnknownPartitionCountError, count_offsets_partitions
from kohort.log.files.partition_files import snapshots, write_snapshot
from kohort.log.files.quarantine import Quarantine
from kohort.log.files.recovery import Recovered, Trust, recover
from kohort.log.files.segment import SNAPSHOT, OpenFiles, SegmentFolder, file_name
from kohort.log.files.sweep import is_of_a_topic, is_partition_directory, partition_named, topic_id_in
from kohort.log.log import Repair
from kohort.log.producers import CorruptSnapshotError, Producers
from kohort.model.errors import KohortError
from kohort.model.ids import LeaderEpoch, Offset, TopicId, TopicName
from kohort.model.topics import CONSUMER_OFFSETS, JOURNAL, Topic, TopicPartition, show_topic_id
from kohort.primitives.crc import crc32c

_START = Offset(0)
_DEFAULT_NODE = 1
_INDEX_INTERVAL = 4096
_MOST_DAMAGED_BYTES = 2  # of an id: one wrong character of its text changes at most two
_OFFSETS_CONFIGS = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "segment.bytes": "104857600",
}
_JOURNAL_CONFIGS = {"retention.ms": "604800000"}
# The configs of a topic are in the catalog alone. Until someone sets them again, nothing may be deleted.
_KEEP_EVERYTHING = {"retention.ms": "-1", "retention.bytes": "-1"}
_PRODUCER_IDS_AHEAD = 1_000


def repair(
    disk: Disk, data: str, progress: Progress = lambda *_: None, *, offsets_partitions: int | None = None
) -> list[Repair]:
    """Repair a data directory; returns what was done.

    ``offsets_partitions`` is how many ``__consumer_offsets`` has, if nothing else says it. Raises
    ``UnknownPartitionCountError`` before a change, ``DirectoryInUseError`` beside a broker.
    """
    directory = DataDirectory(disk, data)
    clean, inventory = False, None
    try:
        work = _Repair(directory, progress, offsets_partitions)
        inventory = work.run()
        clean = True
    except UnknownPartitionCountError:
        clean = directory.was_closed_cleanly
        raise
    finally:
        # Where it was interrupted, the next start recovers all logs.
        directory.close(clean=clean, inventory=inventory)
    return work.done


@dataclass(slots=True)
class _Log:
    """One partition after its recovery."""

    partition: TopicPartition
    place: SegmentFolder
    found: Recovered


class _Repair:
    def __init__(self, directory: DataDirectory, progress: Progress, offsets_partitions: int | None) -> None:
        self.done: list[Repair] = []
        self._directory = directory
        self._disk = directory.disk
        self._data = directory.path
        self._progress = progress
        self._quarantine = Quarantine(directory.disk, directory.path)
        self._checkpoints = directory.read_checkpoints(CHECKPOINTS)
        self.done += self._checkpoints.repairs
        self._old_catalog = read_file(self._disk, f"{self._data}/{CATALOG}") or b""
        self._catalog: CatalogLines = read_catalog(self._old_catalog)
        self._lost_topics: set[TopicName] = set()
        self._topics = self._directories()
        self._offsets_partitions = (0, "")
        if CONSUMER_OFFSETS in self._topics.keys() - self._catalog.state.topics.keys():
            self._offsets_partitions = count_offsets_partitions(self._disk, self._data, offsets_partitions)

    def run(self) -> bytes:
        """All steps; returns what a clean shutdown notes."""
        self._adopt_directories()
        logs = self._recover_logs()
        self._write_catalog(logs)
        self._identify()
        self._write_checkpoints(logs)
        self._disk.sync_directory(self._data)
        return write_inventory(
            {str(log.partition): self._note(log) for log in logs if log.found.end_offset},
            read_file(self._disk, f"{self._data}/{CATALOG}") or b"",
        )

    def _say(self, name: str, what: str) -> None:
        self.done.append(Repair(f"{self._data}/{name}", what))

    # -- topics ----------------------------------------------------------------------------------------

    def _adopt_directories(self) -> None:
        """Have the catalog know every directory of a topic, and every directory say its topic."""
        for topic, numbers in sorted(self._topics.items()):
            ids = {number: topic_id_in(self._disk, f"{self._data}/{topic}-{number}") for number in numbers}
            known = self._catalog.state.topics.get(topic)
            if known is None:
                known = self._new_topic(topic, ids)
            elif max(numbers) >= known.partitions:
                self._say(str(topic), f"has {max(numbers) + 1} partitions again, not {known.partitions}")
                known = replace(known, partitions=max(numbers) + 1)
                self._catalog.state.apply({"type": "partitions", "name": topic, "total": known.partitions})
            for number, found in ids.items():
                if found != known.topic_id:
                    self._claim(f"{topic}-{number}", known.topic_id, found)

    def _directories(self) -> dict[TopicName, list[int]]:
        """The partitions of each topic, also empty ones; those of deleted topics are for the next start."""
        topics: dict[TopicName, list[int]] = {}
        for entry in self._disk.entries(self._data):
            path = f"{self._data}/{entry.name}"
            if not is_partition_directory(entry) or not is_of_a_topic(self._disk, path):
                continue
            if topic_id_in(self._disk, path) not in self._catalog.state.deleted:
                topic, number = partition_named(entry.name)
                topics.setdefault(topic, []).append(number)
        return topics

    def _new_topic(self, name: TopicName, ids: Mapping[int, TopicId | None]) -> Topic:
        """A topic whose line in the catalog is lost."""
        taken = self._catalog.state.names
        found = Counter(each for each in ids.values() if each is not None and each not in taken)
        topic_id = found.most_common(1)[0][0] if found else new_topic_id()
        partitions, why, configs = max(ids) + 1, "those that have a directory", _KEEP_EVERYTHING
        if name == JOURNAL:
            configs = _JOURNAL_CONFIGS
        if name == CONSUMER_OFFSETS:
            (partitions, why), configs = self._offsets_partitions, _OFFSETS_CONFIGS
        topic = Topic(name, topic_id, partitions, configs)
        self._catalog.state.apply(self._catalog.state.topic_record(topic, LeaderEpoch(0)))
        self._lost_topics.add(name)
        settings = ", ".join(f"{key}={value}" for key, value in configs.items())
        self._say(
            str(name),
            f"taken into the catalog, partitions: {partitions} ({why}); its configs were lost and are now "
            f"{settings}",
        )
        return topic

    def _claim(self, name: str, topic_id: TopicId, found: TopicId | None) -> None:
        """Write the id of its topic into a directory, unless it is clearly of another topic."""
        if found is not None and found not in self._catalog.state.names:
            differing = sum(one != other for one, other in zip(found, topic_id, strict=True))
            if differing > _MOST_DAMAGED_BYTES:
                why = f"it is of topic id {show_topic_id(found)}, not {show_topic_id(topic_id)}"
                self._say(name, f"went to {self._quarantine.keep_whole(name, why)}: {why}")
                return
        replace_file(
            self._disk, f"{self._data}/{name}/{PARTITION_METADATA}", write_partition_metadata(topic_id)
        )
        self._say(f"{name}/{PARTITION_METADATA}", "written again")

    # -- logs ------------------------------------------------------------------------------------------

    def _recover_logs(self) -> list[_Log]:
        logs = []
        names = sorted(
            entry.name for entry in self._disk.entries(self._data) if is_partition_directory(entry)
        )
        for number, name in enumerate(names, 1):
            self._progress(name, number, len(names))
            try:
                logs.append(self._recover(name))
            except KohortError as error:  # of a format that Kohort does not read
                self._say(name, f"left as it is: {error}")
        return logs

    def _recover(self, name: str) -> _Log:
        partition = partition_named(name)
        offsets = self._checkpoints.offsets
        files = self._directory.inventory.logs.get(name) if self._directory.was_closed_cleanly else None
        trust = Trust(
            clean=False,
            recovery_point=offsets[RECOVERY_POINTS].get(partition, _START),
            start_offset=offsets[LOG_STARTS].get(partition, _START),
            has_checksums=self._checkpoints.have_checksums,
            files=files,
            everything=True,
        )
        place = SegmentFolder(self._disk, f"{self._data}/{name}", OpenFiles(4), _INDEX_INTERVAL)
        self._set_damaged_snapshots_aside(place, name)
        found = recover(place, trust)
        for what in found.repairs:
            self._say(name, what)
        if found.segments:
            made = [
                write_snapshot(place, found.end_offset, found.producers),
                *found.segments[-1].save_indexes(),
            ]
            for file in made:
                file.sync()
            replace_file(self._disk, f"{place.directory}/{LEADER_EPOCHS}", write_epochs(found.epochs.entries))
        for segment in found.segments:
            segment.close()
        return _Log(partition, place, found)

    def _set_damaged_snapshots_aside(self, place: SegmentFolder, name: str) -> None:
        """Recovery reads the newest one only; all of them can be made again from the batches."""
        for offset in snapshots(place):
            file = f"{name}/{file_name(offset)}{SNAPSHOT}"
            try:
                Producers.from_snapshot(read_file(self._disk, f"{self._data}/{file}") or b"")
            except CorruptSnapshotError as error:
                kept = self._quarantine.keep_whole(file, str(error.args[0]))
                self._say(file, f"went to {kept}: {error.args[0]}")

    def _note(self, log: _Log) -> PartitionFiles:
        return take(self._disk, log.place.directory, log.found.end_offset)

    # -- the node --------------------------------------------------------------------------------------

    def _write_catalog(self, logs: Iterable[_Log]) -> None:
        state = self._catalog.state
        for name in self._lost_topics:
            epoch = max((log.found.epochs.latest for log in logs if log.partition.topic == name), default=-1)
            state.apply(state.topic_record(state.topics[name], LeaderEpoch(epoch + 1)))
        highest = max((log.found.producers.highest_id for log in logs), default=-1)
        if highest >= state.next_producer_id:
            state.apply({"type": "producer-ids", "next": highest + _PRODUCER_IDS_AHEAD})
        noted = self._directory.inventory.catalog
        is_damaged = self._catalog.damaged or noted not in (
            None,
            (len(self._old_catalog), crc32c(self._old_catalog)),
        )
        if is_damaged and self._old_catalog:
            kept = self._quarantine.keep_bytes(
                CATALOG, (0, len(self._old_catalog)), "lines are damaged or lost"
            )
            self._say(CATALOG, f"the damaged one was kept as {kept}")
        if not state.cluster_id:
            known = self._directory.identity()
            state.apply(
                {
                    "type": "cluster",
                    "cluster_id": known.get("cluster.id") or new_cluster_id(),
                    "node_id": _node_id(known),
                }
            )
        content = b"".join(map(encode, state.records()))
        if is_damaged or content != self._old_catalog:
            replace_file(self._disk, f"{self._data}/{CATALOG}", content)
        if is_damaged or self._lost_topics or not self._old_catalog:
            self._say(CATALOG, f"rebuilt with {len(state.topics)} topics. {ONLY_IN_CATALOG}")

    def _identify(self) -> None:
        state = self._catalog.state
        if self._directory.identify(state.cluster_id, state.node_id, state.offsets_partitions):
            self._say(META_PROPERTIES, "written again from the catalog")

    def _write_checkpoints(self, logs: Iterable[_Log]) -> None:
        offsets: dict[str, dict[TopicPartition, Offset]] = {name: {} for name in CHECKPOINTS}
        cleaned = self._checkpoints.offsets[CLEANED_UP_TO]
        for log in logs:
            found = log.found
            offsets[RECOVERY_POINTS][log.partition] = found.end_offset
            offsets[LOG_STARTS][log.partition] = found.start_offset
            offsets[CLEANED_UP_TO][log.partition] = min(cleaned.get(log.partition, _START), found.end_offset)
        self._directory.write_checkpoints(
            {name: {key: value for key, value in each.items() if value} for name, each in offsets.items()}
        )


def _node_id(identity: Mapping[str, str]) -> int:
    text = identity.get("node.id", "")
    return int(text) if text.isdecimal() else _DEFAULT_NODE
