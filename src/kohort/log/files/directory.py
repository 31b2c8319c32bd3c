"""The data directory of a node: one process at a time, and the memory of how the last one ended."""

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kohort.log.background import report
from kohort.log.files.catalog_state import decode, encode
from kohort.log.files.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEAN_SHUTDOWN_CONTENT,
    LOCK,
    META_PROPERTIES,
    OFFSETS_PARTITIONS,
    PARTITION_METADATA,
    CorruptCheckpointError,
    read_meta_properties,
    read_offsets,
    read_partition_metadata,
    write_meta_properties,
    write_offsets,
)
from kohort.log.files.disk import Disk, read_file, remove_if_there, replace_file
from kohort.log.files.inventory import INVENTORY, NOTHING_NOTED, read_inventory
from kohort.log.log import Repair
from kohort.model.errors import KohortError
from kohort.model.ids import NodeId, Offset, TopicId
from kohort.model.topics import TopicPartition, show_topic_id
from kohort.primitives.crc import crc32c

CHECKSUMS = "kohort.checksums"
"""The checksums of the checkpoints, whose own format is Kafka's and has none."""


class ForeignDirectoryError(KohortError):
    """The directory belongs to another cluster or node, or to another topic."""


def repair_hint(path: str) -> str:
    """What to do about damage that a start does not mend by itself."""
    return f"stop the broker, look with `kohort data check {path}`, then run `kohort data repair {path}`"


class DataDirectory:
    """An open data directory. Raises ``DirectoryInUseError`` when another process has it."""

    def __init__(self, disk: Disk, path: str) -> None:
        self.disk = disk
        self.path = path
        is_new = not disk.entries(path)
        disk.make_directory(path)
        if is_new:
            disk.sync_directory(os.path.dirname(path))  # or a crash could take the whole directory away
        self._lock = disk.lock(f"{path}/{LOCK}")
        self.inventory = NOTHING_NOTED
        try:
            self.was_closed_cleanly = self._take_marker()
        except BaseException:
            self._lock.release()
            raise

    def _take_marker(self) -> bool:
        """Whether the last run ended cleanly. From here on a crash is a crash, whatever it left."""
        marker = f"{self.path}/{CLEAN_SHUTDOWN}"
        content = read_file(self.disk, marker)
        if content == CLEAN_SHUTDOWN_CONTENT:  # Kafka's own says another broker epoch
            self.inventory = read_inventory(read_file(self.disk, f"{self.path}/{INVENTORY}") or b"")
        clean = content is not None or not self._has_partitions()
        remove_if_there(self.disk, marker)
        self.disk.sync_directory(self.path)
        return clean

    def _has_partitions(self) -> bool:
        return any(entry.is_directory for entry in self.disk.entries(self.path))

    def identity(self) -> Mapping[str, str]:
        """What ``meta.properties`` says; empty in a new directory."""
        return read_meta_properties(read_file(self.disk, f"{self.path}/{META_PROPERTIES}") or b"")

    def check_identity(self, cluster_id: str, node_id: NodeId) -> None:
        """Raise ``ForeignDirectoryError`` if ``meta.properties`` names another cluster or node."""
        wanted = {"cluster.id": cluster_id, "node.id": str(node_id)}
        known = self.identity()
        for name, value in wanted.items():
            if known.get(name, value) != value:
                raise ForeignDirectoryError(
                    f"the data directory {self.path!r} belongs to {name} {known[name]}, not {value}",
                    hint=f"start with {name} {known[name]}, or with another data directory; "
                    f"if {META_PROPERTIES} is damaged, run `kohort data repair {self.path}`",
                )

    def identify(self, cluster_id: str, node_id: NodeId, offsets_partitions: int | None = None) -> bool:
        """Have ``meta.properties`` say what the catalog says; whether it did not."""
        known = self.identity()
        wanted = properties(cluster_id, node_id, offsets_partitions)
        if wanted.items() <= known.items():
            return False
        replace_file(self.disk, f"{self.path}/{META_PROPERTIES}", write_meta_properties({**known, **wanted}))
        return True

    def read_checkpoints(self, names: Sequence[str]) -> "Checkpoints":
        """As the function below."""
        return read_checkpoints(self.disk, self.path, names)

    def write_checkpoints(self, checkpoints: Mapping[str, Mapping[TopicPartition, Offset]]) -> None:
        """Durable when it returns. Raises ``OSError``."""
        contents = {name: write_offsets(offsets) for name, offsets in checkpoints.items()}
        known = _checksums(self.disk, self.path)
        # Both are right while files are replaced one after the other.
        both = {name: [crc32c(content), *known.get(name, [])[:1]] for name, content in contents.items()}
        replace_file(self.disk, f"{self.path}/{CHECKSUMS}", encode({"checksums": both}))
        for name, content in contents.items():
            replace_file(self.disk, f"{self.path}/{name}", content)

    def has_been_used(self) -> bool:
        """Whether a broker of Kohort has stored checkpoints here: then there was a catalog, too."""
        return any(entry.name == CHECKSUMS for entry in self.disk.entries(self.path))

    def begin_changes(self) -> None:
        """From here on files may differ from what the last run has noted."""
        remove_if_there(self.disk, f"{self.path}/{INVENTORY}")

    def close(self, *, clean: bool, inventory: bytes | None = None) -> None:
        """Give the directory to the next process; ``clean`` says that all logs are closed and synced."""
        try:
            if clean:
                if inventory is not None:
                    replace_file(self.disk, f"{self.path}/{INVENTORY}", inventory)
                replace_file(self.disk, f"{self.path}/{CLEAN_SHUTDOWN}", CLEAN_SHUTDOWN_CONTENT)
        except (OSError, MemoryError) as error:
            report(f"writing {self.path}/{CLEAN_SHUTDOWN}", error, "; the next start recovers all logs")
        finally:
            self._lock.release()


def properties(cluster_id: str, node_id: NodeId, offsets_partitions: int | None) -> dict[str, str]:
    """What ``meta.properties`` says. Without ``__consumer_offsets`` in the catalog, a number there stays."""
    wanted = {"version": "1", "cluster.id": cluster_id, "node.id": str(node_id)}
    return wanted if offsets_partitions is None else {**wanted, OFFSETS_PARTITIONS: str(offsets_partitions)}


def check_topic_id(directory: DataDirectory, path: str, topic_id: TopicId) -> bool:
    """Whether a partition's directory says that it is of the topic; refuses one that is of another."""
    content = read_file(directory.disk, f"{path}/{PARTITION_METADATA}")
    try:
        found = read_partition_metadata(content or b"")
    except CorruptCheckpointError:
        return False
    if found != topic_id:
        raise ForeignDirectoryError(
            f"{path!r} belongs to topic id {show_topic_id(found)}, not {show_topic_id(topic_id)}",
            hint=f"move it out of the data directory if it is from another topic of the same name; if "
            f"{PARTITION_METADATA} is damaged, run `kohort data repair {directory.path}`",
        )
    return True


class Checkpoints(NamedTuple):
    """The offsets of all partitions in the checkpoints of a data directory."""

    offsets: dict[str, dict[TopicPartition, Offset]]  # by the name of the checkpoint
    have_checksums: bool  # what is there was compared with a checksum
    repairs: list[Repair]


def read_checkpoints(disk: Disk, path: str, names: Sequence[str]) -> Checkpoints:
    """The offsets in checkpoints: none where one is missing or damaged; recovery takes longer then."""
    known = _checksums(disk, path)
    found = Checkpoints({}, {name in known for name in names} == {True}, [])
    for name in names:
        content = read_file(disk, f"{path}/{name}") or b""
        try:
            if name in known and crc32c(content) not in known[name]:
                raise CorruptCheckpointError("its checksum is wrong")
            found.offsets[name] = read_offsets(content) if content else {}
        except CorruptCheckpointError as error:
            found.offsets[name] = {}
            found.repairs.append(
                Repair(f"{path}/{name}", f"{error}; all it says is learnt from the logs again")
            )
    return found


def _checksums(disk: Disk, path: str) -> Mapping[str, list[int]]:
    content = read_file(disk, f"{path}/{CHECKSUMS}") or b""
    record = decode(content.removesuffix(b"\n")) if content else None
    checksums: Mapping[str, list[int]] = record["checksums"] if record else {}
    return checksums
