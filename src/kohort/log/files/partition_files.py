"""The files in the directory of a partition that are not segments. Each is returned open: it wants a sync."""

from collections.abc import Iterable

from kohort.log.files.checkpoints import PARTITION_METADATA, write_partition_metadata
from kohort.log.files.disk import File, write_all
from kohort.log.files.leftovers import base_of
from kohort.log.files.segment import SNAPSHOT, Segment, SegmentFolder, file_name
from kohort.log.producers import Producers
from kohort.model.ids import Offset, TopicId

_REWRITTEN_AT_ONCE = 1 << 20


def make_directory(place: SegmentFolder, topic_id: TopicId) -> File:
    """Make the directory, and the file that says which topic it belongs to."""
    place.disk.make_directory(place.directory)
    return _write(place, PARTITION_METADATA, write_partition_metadata(topic_id))


def write_snapshot(place: SegmentFolder, offset: Offset, producers: Producers) -> File:
    """Store what producers have written up to ``offset``."""
    return _write(place, file_name(offset) + SNAPSHOT, producers.snapshot())


def snapshots(place: SegmentFolder) -> list[int]:
    """The offsets of the snapshots that are there."""
    names = [entry.name for entry in place.disk.entries(place.directory)]
    bases = [base_of(name) for name in names if name.endswith(SNAPSHOT)]
    return [base for base in bases if base is not None]


def rewrite(segments: Iterable[Segment], offset: Offset) -> list[File]:
    """Write the batches from ``offset`` on over themselves, so that a sync covers them. Raises ``OSError``.

    After a failed sync the system may take pages for written that never were.
    """
    files = []
    for segment in segments:
        file = segment.file()
        for position in range(segment.floor(offset), segment.size, _REWRITTEN_AT_ONCE):
            content = file.read(min(_REWRITTEN_AT_ONCE, segment.size - position), position)
            write_all(file, content, position)
        files.append(file)
    return files


def _write(place: SegmentFolder, name: str, content: bytes) -> File:
    file = place.disk.open(f"{place.directory}/{name}", create=True)
    write_all(file, content, 0)
    file.truncate(len(content))
    return file
