"""``--topic TOPIC[:0,1,…]``: a topic, or some of its partitions."""

from typing import NamedTuple

from kohort.cli.session import refuse
from kohort.model.ids import Partition, TopicName
from kohort.model.topics import TopicPartition, is_legal_name


class TopicParts(NamedTuple):
    """A topic and the partitions that were named; None means all of them."""

    topic: TopicName
    partitions: tuple[Partition, ...] | None

    def named(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic, number) for number in self.partitions or ()]


def parse_topic_parts(text: str) -> TopicParts:
    """What an option says; leaves with exit code 2 if it says nothing that can be understood."""
    name, colon, numbers = text.partition(":")
    if not is_legal_name(name):
        raise refuse(
            f"--topic {text!r}: {name!r} is not the name of a topic", "for example --topic orders:0,1"
        )
    if not colon:
        return TopicParts(TopicName(name), None)
    try:
        partitions = tuple(Partition(int(number)) for number in numbers.split(","))
    except ValueError:
        raise refuse(
            f"--topic {text!r}: {numbers!r} is not a list of partitions", "for example --topic orders:0,1"
        ) from None
    if min(partitions) < 0:
        raise refuse(f"--topic {text!r}: a partition is not below zero", "for example --topic orders:0,1")
    return TopicParts(TopicName(name), tuple(dict.fromkeys(partitions)))
