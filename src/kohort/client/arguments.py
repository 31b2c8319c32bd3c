"""What callers hand in, checked before anything is done with it.

A wrong type is a TypeError that says what to write instead; a value that makes no sense is a KohortError.
"""

import operator
from collections.abc import Iterable, Mapping
from typing import TypeVar

from kohort.client.subscription import OffsetAndMetadata, RebalanceListener
from kohort.model.errors import KohortError
from kohort.model.ids import Partition, TopicName
from kohort.model.topics import TopicPartition

T = TypeVar("T")

AnyPartition = TopicPartition | tuple[str, int]
"""A partition; a plain pair of topic and number will do."""

PartitionKey = TypeVar("PartitionKey", bound=tuple[str, int])
"""The same as the key of a mapping, whose type checkers want to know it exactly."""


def as_partition(partition: AnyPartition) -> TopicPartition:
    match partition:
        case (str(topic), number) if is_whole(number):
            if number < 0:
                raise KohortError(f"there is no partition {number} of topic {topic!r}: it is negative")
            return TopicPartition(TopicName(topic), Partition(operator.index(number)))
        case _:
            raise TypeError(
                f"{partition!r} is not a partition: write a pair of topic and number, as in ('orders', 0); "
                "write *partitions to pass a list of them"
            )


def as_partitions(partitions: Iterable[AnyPartition] | str) -> list[TopicPartition]:
    if isinstance(partitions, str | TopicPartition):
        raise TypeError(
            f"{partitions!r} is not a list of partitions; write a list of pairs, as in [('orders', 0)]"
        )
    return [as_partition(each) for each in partitions]


def keyed_by_partition(items: Mapping[PartitionKey, T]) -> dict[TopicPartition, T]:
    """The same with each key as a TopicPartition."""
    return {as_partition(partition): item for partition, item in items.items()}


def as_list(names: Iterable[str]) -> list[str]:
    """Several names; TypeError for one alone, each letter of which would count as a name."""
    if isinstance(names, str):
        raise TypeError(f"write a list of names: [{names!r}]")
    return list(names)


def is_whole(number: object) -> bool:
    """Whether it is a whole number; those of other libraries count, too."""
    return hasattr(number, "__index__")


def by_topic(partitions: Iterable[TopicPartition]) -> dict[TopicName, list[Partition]]:
    """The partition numbers of each topic, as the messages of the protocol list them."""
    numbers: dict[TopicName, list[Partition]] = {}
    for topic, number in partitions:
        numbers.setdefault(topic, []).append(number)
    return numbers


AnyOffset = int | OffsetAndMetadata
"""The next offset to read, alone or with a leader epoch and a note."""

_LARGEST_OFFSET = 2**63 - 1


def as_topics(topics: Iterable[str]) -> list[str]:
    """Names of topics; one alone will do."""
    names = [topics] if isinstance(topics, str) else list(topics)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(
                f"{name!r} is not the name of a topic: a name is text; topics are written one after another, "
                "as in Consumer('orders', 'bills'), and settings by name, as in group_id='billing'"
            )
    return names


def check_listener(listener: RebalanceListener | None) -> None:
    """TypeError for one that cannot be called about a rebalance."""
    for method in ("on_partitions_revoked", "on_partitions_assigned"):
        if listener is not None and not callable(getattr(listener, method, None)):
            raise TypeError(
                f"{listener!r} is not a rebalance listener: it has no method {method}(partitions)"
            )


def as_offset(offset: AnyOffset) -> OffsetAndMetadata:
    """An offset that a consumer can be at; a number stands for one without epoch and note."""
    place = offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
    if not is_whole(place.offset):
        raise TypeError(f"{place.offset!r} is not an offset: an offset is a whole number")
    if not is_whole(place.leader_epoch):
        raise TypeError(
            f"{place.leader_epoch!r} is not a leader epoch: it is a whole number; "
            "a note is given by name: OffsetAndMetadata(offset, metadata=…)"
        )
    if place.metadata is not None and not isinstance(place.metadata, str):
        raise TypeError(f"the note of an offset is text, not {place.metadata!r}")
    if place.offset > _LARGEST_OFFSET:
        raise KohortError(f"there is no offset {place.offset}: the largest is {_LARGEST_OFFSET}")
    return place._replace(
        offset=operator.index(place.offset), leader_epoch=operator.index(place.leader_epoch)
    )


def as_offsets(offsets: Mapping[PartitionKey, AnyOffset]) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets to commit."""
    if not isinstance(offsets, Mapping):
        raise TypeError(
            f"{offsets!r} does not say what to commit: write a dict from partitions to offsets, "
            "as in {('orders', 0): 42}"
        )
    return {as_partition(partition): as_offset(offset) for partition, offset in offsets.items()}


def as_times(times: Mapping[PartitionKey, int]) -> dict[TopicPartition, int]:
    """Times to look for, in milliseconds since 1970."""
    if not isinstance(times, Mapping):
        raise TypeError(f"{times!r} is not a dict from partitions to times, as in {{('orders', 0): millis}}")
    wanted: dict[TopicPartition, int] = {}
    for each, time in times.items():
        partition = as_partition(each)
        if not is_whole(time):
            raise TypeError(f"{time!r} is not a time: a time is a whole number of milliseconds since 1970")
        if time < 0:
            raise KohortError(
                f"cannot look for time {time} in {partition}: it is negative",
                hint="times are milliseconds since 1970; see also beginning_offsets and end_offsets",
            )
        wanted[partition] = operator.index(time)
    return wanted


def as_millis(timeout_ms: float) -> float:
    """How long a call may wait."""
    if not isinstance(timeout_ms, int | float):
        raise TypeError(f"a timeout is a number of milliseconds, not {timeout_ms!r}")
    if not timeout_ms >= 0:
        raise KohortError(
            f"a timeout cannot be {timeout_ms} ms", hint="0 does not wait, float('inf') waits for ever"
        )
    return timeout_ms


def as_limit(count: int | None, otherwise: int) -> int:
    """How many records or rows a call may return."""
    if count is None:
        return otherwise
    if not is_whole(count):
        raise TypeError(f"the number of records to return is a whole number, not {count!r}")
    if count < 1:
        raise KohortError(
            f"cannot return at most {count} records", hint="pass at least 1, or leave it out for the default"
        )
    return operator.index(count)
