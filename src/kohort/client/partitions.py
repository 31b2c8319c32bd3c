"""Partitions as callers write them."""

import operator
from collections.abc import Iterable, Mapping
from typing import TypeVar

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
                f"{partition!r} is no partition, which is a pair of topic and number, as in ('orders', 0); "
                "a list of them is passed as *partitions where one after another is expected"
            )


def as_partitions(partitions: Iterable[AnyPartition] | str) -> list[TopicPartition]:
    if isinstance(partitions, str | TopicPartition):
        raise TypeError(
            f"{partitions!r} is no list of partitions; write a list of pairs, as in [('orders', 0)]"
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
