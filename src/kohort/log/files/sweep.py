"""Making a data directory agree with the catalog when a node starts.

The catalog decides what exists; directories follow. A crash between the two leaves directories of topics that
are deleted already. Those go. A directory with records that the catalog does not know is a reason not to
start: a catalog that is cut or lost looks like that. Other directories are reported and left alone.
"""

import os
import re
from collections.abc import Mapping

from kohort.log.files.catalog_file import FileCatalog
from kohort.log.files.checkpoints import PARTITION_METADATA, CorruptCheckpointError, read_partition_metadata
from kohort.log.files.directory import DataDirectory, repair_hint
from kohort.log.files.disk import Disk, Entry, read_file, remove_tree
from kohort.log.files.leftovers import base_of
from kohort.log.files.quarantine import QUARANTINE
from kohort.log.files.segment import LOG
from kohort.log.log import Repair
from kohort.model.errors import KohortError
from kohort.model.ids import Partition, TopicId, TopicName
from kohort.model.topics import Topic, TopicPartition

_DOOMED = re.compile(r"\.[0-9a-f]{32}-delete\Z")
_LONGEST_NAME = 255
_BESIDE = frozenset({"archive", QUARANTINE})  # no partition is called so
METADATA_TOPIC = "__cluster_metadata"  # of Kafka
_STRAY = "is of no topic in the catalog; left as it is"


def doomed_name(partition: TopicPartition, topic_id: TopicId) -> str:
    """What the directory of a partition is called while it is being removed, as in Kafka."""
    suffix = f".{topic_id.hex()}-delete"
    return str(partition)[: _LONGEST_NAME - len(suffix)] + suffix


class StrayDataError(KohortError):
    """There are records of partitions that the catalog does not know: it is damaged, or not the right one."""


async def sweep(directory: DataDirectory, catalog: FileCatalog) -> list[Repair]:
    """Remove the directories of deleted topics, and have the catalog forget those topics."""
    disk, repairs = directory.disk, []
    strays = [
        path for path, what in _judged(directory, catalog) if what is _STRAY and has_records(disk, path)
    ]
    if strays:
        raise StrayDataError(
            f"{strays[0]!r}"
            + (f" and {len(strays) - 1} more directories" if len(strays) > 1 else "")
            + " hold records, but the catalog knows no such partition",
            hint=f"{repair_hint(directory.path)} (it takes them into the catalog);"
            " or move the directories elsewhere",
        )
    for path, what in _judged(directory, catalog):
        repairs.append(Repair(path, what))
        if what is not _STRAY:
            remove_tree(disk, path)
    disk.sync_directory(directory.path)
    if catalog.deleted:
        await catalog.forget_deleted(list(catalog.deleted))
    return repairs


def _judged(directory: DataDirectory, catalog: FileCatalog) -> list[tuple[str, str]]:
    """The directories that are of no partition in the catalog, each with what is wrong."""
    found = []
    for entry in directory.disk.entries(directory.path):
        if not entry.is_directory or entry.name in _BESIDE:
            continue
        path = f"{directory.path}/{entry.name}"
        what = _judge(directory.disk, path, entry.name, catalog.topics, catalog.deleted)
        if what is not None:
            found.append((path, what))
    return found


def is_partition_directory(entry: Entry) -> bool:
    """Whether a name in a data directory is that of a partition."""
    topic, _, number = entry.name.rpartition("-")
    return entry.is_directory and number.isdecimal() and topic not in ("", METADATA_TOPIC)


def partition_named(name: str) -> TopicPartition:
    """The partition whose directory has this name."""
    topic, _, number = name.rpartition("-")
    return TopicPartition(TopicName(topic), Partition(int(number)))


def has_records(disk: Disk, path: str) -> bool:
    """Whether a directory is one of a partition and has a segment that is not empty."""
    return is_partition_directory(Entry(os.path.basename(path), 0, True, 0)) and any(
        entry.size and base_of(entry.name) is not None and entry.name.endswith(LOG)
        for entry in disk.entries(path)
    )


def is_of_a_topic(disk: Disk, path: str) -> bool:
    """Whether a directory of a partition has records, or says its topic."""
    return has_records(disk, path) or topic_id_in(disk, path) is not None


def partitions_of(disk: Disk, data: str, topic: TopicName) -> list[int]:
    """The numbers of the partitions of a topic that have a directory."""
    names = [entry.name for entry in disk.entries(data) if is_partition_directory(entry)]
    found = [partition_named(name) for name in names if is_of_a_topic(disk, f"{data}/{name}")]
    return sorted(each.partition for each in found if each.topic == topic)


def _judge(
    disk: Disk,
    path: str,
    name: str,
    topics: Mapping[TopicName, Topic],
    deleted: Mapping[TopicId, TopicName],
) -> str | None:
    """What is wrong with a directory; ``None`` for one of a topic that exists."""
    if _DOOMED.search(name):
        return "removed: its topic is deleted"
    if deleted and topic_id_in(disk, path) in deleted:
        return "removed: its topic is deleted, which a crash interrupted"
    topic, _, number = name.rpartition("-")
    known = topics.get(TopicName(topic))
    if known is None or not number.isdecimal() or int(number) >= known.partitions:
        return _STRAY
    return None


def topic_id_in(disk: Disk, path: str) -> TopicId | None:
    """The topic id in the directory of a partition; ``None`` if it is missing or damaged."""
    try:
        return read_partition_metadata(read_file(disk, f"{path}/{PARTITION_METADATA}") or b"")
    except CorruptCheckpointError:
        return None
