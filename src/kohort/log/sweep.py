"""Making a data directory agree with the catalog when a node starts.

The catalog decides what exists; directories follow. A crash between the two leaves directories of topics that
are deleted already. Those go. A directory that nobody has ever heard of is reported and left alone: it may be
somebody's data.
"""

import re
from collections.abc import Mapping

from kohort.log.catalog import Catalog, Topic
from kohort.log.checkpoints import PARTITION_METADATA, CorruptCheckpointError, read_partition_metadata
from kohort.log.directory import DataDirectory
from kohort.log.disk import Disk, read_file, remove_tree
from kohort.log.log import Repair
from kohort.model.ids import TopicId, TopicName
from kohort.model.topics import TopicPartition

_DOOMED = re.compile(r"\.[0-9a-f]{32}-delete\Z")
_LONGEST_NAME = 255
_BESIDE = frozenset({"archive"})  # what `kohort up` keeps here beside the log; no partition is called so
_STRAY = "is of no topic in the catalog; left as it is"


def doomed_name(partition: TopicPartition, topic_id: TopicId) -> str:
    """What the directory of a partition is called while it is being removed, as in Kafka."""
    suffix = f".{topic_id.hex()}-delete"
    return str(partition)[: _LONGEST_NAME - len(suffix)] + suffix


async def sweep(directory: DataDirectory, catalog: Catalog) -> list[Repair]:
    """Remove the directories of deleted topics, and have the catalog forget those topics."""
    disk, repairs = directory.disk, []
    for entry in disk.entries(directory.path):
        if not entry.is_directory or entry.name in _BESIDE:
            continue
        path = f"{directory.path}/{entry.name}"
        what = _judge(disk, path, entry.name, catalog.topics, catalog.deleted)
        if what is None:
            continue
        repairs.append(Repair(path, what))
        if what is not _STRAY:
            remove_tree(disk, path)
    disk.sync_directory(directory.path)
    if catalog.deleted:
        await catalog.forget_deleted(list(catalog.deleted))
    return repairs


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
    if deleted and _topic_id(disk, path) in deleted:
        return "removed: its topic is deleted, which a crash interrupted"
    topic, _, number = name.rpartition("-")
    known = topics.get(TopicName(topic))
    if known is None or not number.isdecimal() or int(number) >= known.partitions:
        return _STRAY
    return None


def _topic_id(disk: Disk, path: str) -> TopicId | None:
    try:
        return read_partition_metadata(read_file(disk, f"{path}/{PARTITION_METADATA}") or b"")
    except CorruptCheckpointError:
        return None
