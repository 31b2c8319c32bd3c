"""What an iteration has polled and not reached."""

from kohort.client.fetching.buffer import Remaining
from kohort.client.fetching.chunk import ConsumerRecord
from kohort.client.subscription import OffsetAndMetadata
from kohort.model.ids import Partition, TopicName
from kohort.model.topics import TopicPartition

A, B = (TopicPartition(TopicName("t"), Partition(number)) for number in (0, 1))


def records(partition: int, *offsets: int) -> list[ConsumerRecord]:
    return [ConsumerRecord("t", partition, offset, 0, None, b"") for offset in offsets]


def filled() -> Remaining:
    remaining = Remaining()
    remaining.refill([records(0, 5, 6), records(1, 9)])
    return remaining


def test_what_is_left_says_where_each_partition_goes_on() -> None:
    remaining = filled()
    remaining.next()
    assert remaining.first_offsets() == {A: OffsetAndMetadata(6), B: OffsetAndMetadata(9)}


def test_everything_can_be_dropped() -> None:
    remaining = filled()
    remaining.drop()
    assert remaining.next() is None
