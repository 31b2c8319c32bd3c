"""Offsets of many partitions: as Spark's checkpoint has them, and as options describe them. Pure."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from kohort.model.ids import Partition, TopicId, TopicName
from kohort.model.topics import TopicPartition, show_topic_id
from kohort.spark.errors import OptionError

LATEST = -1
EARLIEST = -2
"""In JSON of the options: the end, the beginning of a partition."""

Offsets = dict[TopicPartition, int]
"""Where each partition stands: the offset of its next record."""

OffsetJson = dict[str, dict[str, int | str]]
"""``{"topic": {"0": 23, "id": "…"}}``: topics in order, partitions in order of their numbers, the topic's id.

Without the ids it is the form of Spark's connector, and of the checkpoints of earlier versions.
"""

TopicIds = Mapping[TopicName, str]
"""As text, as Kafka's tools show them; of topics whose ids are known."""

_ID = "id"
_NO_IDS: TopicIds = MappingProxyType({})


class OffsetRange(NamedTuple):
    """Records of one partition: ``start <= offset < end``."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets; compaction and transactions may leave fewer records."""
        return self.end - self.start

    @property
    def where(self) -> TopicPartition:
        return topic_partition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start}, {self.end})"


# What to read


@dataclass(frozen=True, slots=True)
class SubscribeTo:
    """All partitions of these topics."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    """All partitions of the topics whose whole name matches a regular expression."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Assign:
    """These partitions and no others."""

    partitions: tuple[TopicPartition, ...]


Topics = SubscribeTo | SubscribePattern | Assign


# Where to start or to end


@dataclass(frozen=True, slots=True)
class Earliest:
    """The first record there is."""


@dataclass(frozen=True, slots=True)
class Latest:
    """Behind the last record there is."""


@dataclass(frozen=True, slots=True)
class FromGroup:
    """What the group has committed; without a commit as ``offset_reset`` says."""


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset for every partition; EARLIEST and LATEST are allowed."""

    offsets: Mapping[TopicPartition, int] = field(hash=False)


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """The first record of each partition at or after a time in milliseconds since 1970."""

    timestamp: int
    or_latest: bool = False


@dataclass(frozen=True, slots=True)
class AtTimestamps:
    """The same with a time for every partition."""

    timestamps: Mapping[TopicPartition, int] = field(hash=False)
    or_latest: bool = False


OffsetsSpec = Earliest | Latest | FromGroup | AtOffsets | AtTimestamp | AtTimestamps


def topic_partition(topic: str, partition: int) -> TopicPartition:
    return TopicPartition(TopicName(topic), Partition(partition))


def to_json(offsets: Mapping[TopicPartition, int], topic_ids: TopicIds = _NO_IDS) -> OffsetJson:
    """In order: Spark compares the text, and another order would look like new data."""
    nested: OffsetJson = {}
    for where in sorted(offsets):
        nested.setdefault(where.topic, {})[str(where.partition)] = offsets[where]
    for topic, described in nested.items():
        if topic_id := topic_ids.get(TopicName(topic)):
            described[_ID] = topic_id
    return nested


def from_json(nested: Mapping[str, Mapping[str, int | str]]) -> Offsets:
    """The reverse of ``to_json``, and of the connector's own checkpoints."""
    return {
        topic_partition(topic, int(partition)): offset  # type: ignore[misc]  # only an id is a text
        for topic, partitions in nested.items()
        for partition, offset in partitions.items()
        if partition != _ID
    }


def ids_from_json(nested: Mapping[str, Mapping[str, int | str]]) -> TopicIds:
    """The ids of the topics that ``to_json`` was given."""
    return {TopicName(topic): str(one[_ID]) for topic, one in nested.items() if _ID in one}


def known_ids(topic_ids: Mapping[TopicName, bytes]) -> dict[TopicName, str]:
    """Without the zeroes of brokers that know no ids."""
    return {topic: show_topic_id(TopicId(one)) for topic, one in topic_ids.items() if any(one)}


def made_again(known: TopicIds, now: TopicIds) -> set[TopicName]:
    """The topics that have another id now than they had: other topics, whatever their names and lengths."""
    return {topic for topic, topic_id in now.items() if known.get(topic, topic_id) != topic_id}


def parse_offsets(option: str, text: str) -> Offsets:
    """The value of an option like ``{"topicA": {"0": 23, "1": -1}}``; raises OptionError."""
    try:
        nested = json.loads(text)
        parsed = from_json({topic: dict(numbers) for topic, numbers in nested.items()})
    except (ValueError, AttributeError, TypeError):
        parsed = {}
    if not parsed or not all(type(offset) is int for offset in parsed.values()):
        raise OptionError(
            f"{option} cannot be {text!r}",
            hint='expected for example {"topicA": {"0": 23, "1": -1}, "topicB": {"0": -2}}',
        )
    for where, offset in parsed.items():
        check_range(f"{option}: {offset} of {where}", offset)
    return parsed


def check_range(what: str, number: int) -> None:
    """Raises OptionError for a number that no offset, time or size can be."""
    if not -(1 << 63) <= number < 1 << 63:
        raise OptionError(f"{what} is beyond the 64 bits of Kafka's numbers", hint="check its digits")


def parse_partitions(option: str, text: str) -> tuple[TopicPartition, ...]:
    """The value of an option like ``{"topicA": [0, 1]}``, in order; raises OptionError."""
    try:
        named = {
            topic_partition(topic, number)
            for topic, numbers in json.loads(text).items()
            for number in numbers
        }
    except (ValueError, AttributeError, TypeError):
        named = set()
    if not named or not all(type(one.partition) is int for one in named):
        raise OptionError(
            f"{option} cannot be {text!r}", hint='expected for example {"topicA": [0, 1], "topicB": [2]}'
        )
    return tuple(sorted(named))


def show(partitions: Iterable[TopicPartition]) -> str:
    """Some of them for a message."""
    return listed(str(partition) for partition in sorted(partitions))


def listed(items: Iterable[str]) -> str:
    """The first five, and how many more there are."""
    named = list(items)
    return ", ".join(named[:5]) + (f" and {len(named) - 5} more" if len(named) > 5 else "")
