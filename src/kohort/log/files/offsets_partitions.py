"""How many partitions ``__consumer_offsets`` has, when the catalog does not say.

The name of a group and this number give the partition that the group is in. With another number, a broker
looks elsewhere, and a group seems to have committed nothing.
"""

from collections.abc import Iterator
from contextlib import suppress
from math import gcd

from kohort.log.files.checkpoints import META_PROPERTIES, OFFSETS_PARTITIONS, read_meta_properties
from kohort.log.files.disk import Disk, read_file
from kohort.log.files.leftovers import base_of
from kohort.log.files.mending import read_contents
from kohort.log.files.segment import LOG, OpenFiles, Segment, SegmentFolder, file_name
from kohort.log.files.sweep import METADATA_TOPIC, partitions_of
from kohort.model.errors import KohortError
from kohort.model.ids import Offset
from kohort.model.topics import CONSUMER_OFFSETS
from kohort.primitives.strings import group_hash
from kohort.records.batch import BatchHeader, CorruptBatchError, read_records
from kohort.records.offsets_topic import group_named

_DEFAULT = 50
_MOST = 10_000  # as many as a broker gives a topic
_SHOWN = 5
_INDEX_INTERVAL = 4096


class UnknownPartitionCountError(KohortError):
    """Several numbers are possible, or none."""


def count_offsets_partitions(disk: Disk, data: str, given: int | None = None) -> tuple[int, str]:
    """The number of partitions, and how it is known. ``given`` is what the operator says.

    Raises ``UnknownPartitionCountError``.
    """
    numbers = partitions_of(disk, data, CONSUMER_OFFSETS)
    least = max(numbers) + 1
    divisor = _common_divisor(disk, data, numbers)

    def fits(count: int) -> bool:
        return least <= count <= _MOST and (divisor is None or divisor % count == 0)

    if given is not None:
        if not least <= given <= _MOST:
            raise UnknownPartitionCountError(
                f"{CONSUMER_OFFSETS} cannot have {given} partitions: there is the directory of number "
                f"{least - 1}, and a broker makes at most {_MOST}",
                hint="say how many it had: offsets.topic.num.partitions of the broker",
            )
        doubt = "" if fits(given) else "; but some groups are where another number puts them"
        return given, f"as given{doubt}"
    noted = read_meta_properties(read_file(disk, f"{data}/{META_PROPERTIES}") or b"").get(OFFSETS_PARTITIONS)
    possible = [count for count in range(least, _MOST + 1) if fits(count)]
    for count in possible:
        if str(count) == noted:
            return count, f"as {META_PROPERTIES} says"
    if least in possible and _is_whole_topic_of_kafka(disk, data, numbers):
        return least, "Kafka makes a directory for each"
    if divisor is None:
        return max(least, _DEFAULT), "there are no groups in it"
    if len(possible) == 1:
        return possible[0], "the places of its groups allow no other number"
    shown = ", ".join(map(str, possible[:_SHOWN])) + (" and more" if len(possible) > _SHOWN else "")
    raise UnknownPartitionCountError(
        f"the catalog of {data!r} does not say how many partitions {CONSUMER_OFFSETS} has, "
        f"and the places of its groups allow {shown or 'no number'}",
        hint=f"run `kohort data repair {data} --yes --offsets-partitions N` with the broker's "
        f"offsets.topic.num.partitions, {_DEFAULT} unless it was set; with a wrong number, groups do not "
        "find their offsets",
    )


def _is_whole_topic_of_kafka(disk: Disk, data: str, numbers: list[int]) -> bool:
    has_metadata = any(entry.name == f"{METADATA_TOPIC}-0" for entry in disk.entries(data))
    return has_metadata and len(numbers) == max(numbers) + 1


def _common_divisor(disk: Disk, data: str, numbers: list[int]) -> int | None:
    """What every possible number divides, if all groups are in their place; ``None`` without groups."""
    found = {
        group_hash(group) - number
        for number in numbers
        for group in _groups(disk, f"{data}/{CONSUMER_OFFSETS}-{number}")
    }
    return gcd(*found) if found else None


def _groups(disk: Disk, path: str) -> set[str]:
    """The groups that intact records in the directory of a partition name."""
    place = SegmentFolder(disk, path, OpenFiles(4), _INDEX_INTERVAL)
    groups: set[str] = set()
    for entry in disk.entries(path):
        base = base_of(entry.name)
        if base is None or entry.name != file_name(base) + LOG:
            continue
        segment = Segment(place, Offset(base), entry.size)

        def learn(header: BatchHeader, position: int, segment: Segment = segment) -> None:
            if not header.is_control:
                groups.update(_named(segment.file().read(header.size, position)))

        with suppress(CorruptBatchError):  # a format that Kohort does not read
            read_contents(segment, segment.size, None, learn)
        segment.close()
    return groups


def _named(batch: bytes) -> Iterator[str]:
    with suppress(CorruptBatchError):
        for record in read_records(batch):
            group = group_named(record.key)
            if group is not None:
                yield group
