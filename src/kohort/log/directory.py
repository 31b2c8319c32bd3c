"""The data directory of a node: one process at a time, and the memory of how the last one ended."""

import os
from collections.abc import Mapping

from kohort.log.background import report
from kohort.log.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEAN_SHUTDOWN_CONTENT,
    LOCK,
    META_PROPERTIES,
    CorruptCheckpointError,
    read_meta_properties,
    read_offsets,
    write_meta_properties,
    write_offsets,
)
from kohort.log.disk import Disk, read_file, remove_if_there, replace_file
from kohort.model.errors import KohortError
from kohort.model.ids import NodeId, Offset
from kohort.model.topics import TopicPartition


class ForeignDirectoryError(KohortError):
    """The directory belongs to another cluster or node."""


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
        try:
            self.was_closed_cleanly = self._take_marker()
        except BaseException:
            self._lock.release()
            raise

    def _take_marker(self) -> bool:
        """Whether the last run ended cleanly. From here on a crash is a crash, whatever it left."""
        marker = f"{self.path}/{CLEAN_SHUTDOWN}"
        clean = read_file(self.disk, marker) is not None or not self._has_partitions()
        remove_if_there(self.disk, marker)
        self.disk.sync_directory(self.path)
        return clean

    def _has_partitions(self) -> bool:
        return any(entry.is_directory for entry in self.disk.entries(self.path))

    def identity(self) -> Mapping[str, str]:
        """What ``meta.properties`` says; empty in a new directory."""
        return read_meta_properties(read_file(self.disk, f"{self.path}/{META_PROPERTIES}") or b"")

    def identify(self, cluster_id: str, node_id: NodeId) -> None:
        """Write ``meta.properties``, or check that it says the same; raises ``ForeignDirectoryError``."""
        wanted = {"version": "1", "cluster.id": cluster_id, "node.id": str(node_id)}
        known = self.identity()
        for name, value in wanted.items():
            if name != "version" and known.get(name, value) != value:
                raise ForeignDirectoryError(
                    f"the data directory {self.path!r} belongs to {name} {known[name]}, not {value}",
                    hint=f"start with {name} {known[name]}, or with another data directory",
                )
        if not known:
            replace_file(self.disk, f"{self.path}/{META_PROPERTIES}", write_meta_properties(wanted))

    def read_checkpoint(self, name: str) -> dict[TopicPartition, Offset]:
        """The offsets in a checkpoint; none if it is missing or damaged, which costs a longer recovery."""
        content = read_file(self.disk, f"{self.path}/{name}")
        try:
            return {} if content is None else read_offsets(content)
        except CorruptCheckpointError:
            return {}

    def write_checkpoint(self, name: str, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Durable when it returns. Raises ``OSError``."""
        replace_file(self.disk, f"{self.path}/{name}", write_offsets(offsets))

    def close(self, *, clean: bool) -> None:
        """Give the directory to the next process; ``clean`` says that all logs are closed and synced."""
        try:
            if clean:
                replace_file(self.disk, f"{self.path}/{CLEAN_SHUTDOWN}", CLEAN_SHUTDOWN_CONTENT)
        except (OSError, MemoryError) as error:
            report(f"writing {self.path}/{CLEAN_SHUTDOWN}", error, "; the next start recovers all logs")
        finally:
            self._lock.release()
