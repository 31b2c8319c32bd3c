"""Producer ids, and the sequence numbers an idempotent producer must keep."""

from collections.abc import Iterator

from tests.interop.scripts.exchange import Answer, Exchange
from tests.interop.scripts.setting import T0, batch, make_topic, new_producer, produce_request

from kohort.records.batch import BatchFields
from kohort.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kohort.wire.messages.init_producer_id import InitProducerIdRequest

TOPIC = "script.sequences"
WRITTEN = "script.producers"
LARGEST = 2**31 - 1
Steps = Iterator[tuple[str, Answer]]


def anonymous(timeout: int = 1000, producer_id: int = -1, epoch: int = -1) -> InitProducerIdRequest:
    """A request without a transactional id."""
    return InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=timeout, producer_id=producer_id, producer_epoch=epoch
    )


def producer_ids(x: Exchange) -> Steps:
    """InitProducerId without a transaction, and the checks made before one is looked up."""
    new_producer(x)
    for version in range(6):
        yield f"v{version}", x.get(anonymous(), version)
    for timeout in (0, -1, LARGEST):
        yield f"no transaction, timeout {timeout}", x.get(anonymous(timeout), 4)
    yield "id without an epoch", x.get(anonymous(producer_id=5), 4)
    yield "epoch without an id", x.get(anonymous(epoch=0), 4)
    yield "id and epoch", x.get(anonymous(producer_id=5, epoch=0), 4)
    unnamed = InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1000)
    yield "empty transactional id", x.get(unnamed, 4)


def sequences(x: Exchange) -> Steps:
    """In order, repeated, skipped, from an older and a newer epoch, around the largest number."""
    make_topic(x, TOPIC, 3)
    one, two = new_producer(x), new_producer(x)

    def send(producer: int, epoch: int, first: int, count: int = 2, partition: int = 0) -> Answer:
        fields = BatchFields(producer_id=producer, producer_epoch=epoch, base_sequence=first)
        values = [f"{first}+{i}" for i in range(count)]
        return x.get(produce_request(TOPIC, batch(*values, fields=fields), partition=partition), 9)

    yield "first", send(one, 0, 0)
    yield "second", send(one, 0, 2)
    yield "first again", send(one, 0, 0)
    yield "second again", send(one, 0, 2)
    yield "a gap", send(one, 0, 10)
    yield "an overlap", send(one, 0, 3)
    yield "same start, other length", send(one, 0, 2, count=3)
    for first in (4, 6, 8, 10):
        yield f"from {first}", send(one, 0, first)
    yield "the fifth last again", send(one, 0, 2)
    yield "the sixth last again", send(one, 0, 0)
    yield "no sequence", send(one, 0, -1)
    yield "newer epoch, wrong start", send(one, 1, 12)
    yield "newer epoch", send(one, 1, 0)
    yield "older epoch", send(one, 0, 12)
    yield "older epoch, a duplicate once", send(one, 0, 10)
    yield "newer epoch goes on", send(one, 1, 2)
    yield "unknown producer, any start", send(two, 0, 77)
    yield "unknown producer goes on", send(two, 0, 79)
    yield "other partition has its own numbers", send(two, 0, 5, partition=1)
    yield "up to the largest number", send(two, 3, LARGEST - 1, partition=2)
    yield "after the largest comes 0", send(two, 3, 0, partition=2)
    yield "and then on", send(two, 3, 2, partition=2)
    yield "across the largest", send(new_producer(x), 0, LARGEST, partition=2)
    yield "negative epoch", send(two, -1, 0, partition=2)


def describe_producers(x: Exchange) -> Steps:
    """What a partition remembers of its producers, and partitions that are not there."""
    make_topic(x, WRITTEN, 2)
    one, two = new_producer(x), new_producer(x)

    def describe(*partitions: int, topic: str = WRITTEN) -> Answer:
        asked = TopicRequest(name=topic, partition_indexes=list(partitions))
        return x.get(DescribeProducersRequest(topics=[asked]), 0)

    def send(producer: int, epoch: int, first: int, at: int) -> None:
        fields = BatchFields(producer_id=producer, producer_epoch=epoch, base_sequence=first)
        x.get(produce_request(WRITTEN, batch("a", "b", at=at, fields=fields)), 9)

    yield "no producer", describe(0)
    x.get(produce_request(WRITTEN, batch("a")), 9)
    yield "one without an id", describe(0)
    send(one, 0, 0, T0)
    send(one, 0, 2, T0 - 5)
    yield "two batches, the second one older", describe(0)
    send(one, 3, 0, T0 + 7)
    yield "a newer epoch", describe(0)
    send(two, 0, LARGEST, T0)
    yield "two producers", describe(0, 1)
    yield "no partitions", describe()
    yield "partitions that are not there", describe(2, -1, LARGEST)
    yield "no such topic", describe(0, topic="script.nowhere")
    yield "a bad name", describe(0, topic="a b")
    yield "no name", describe(0, topic="")
    yield "no topics", x.get(DescribeProducersRequest(), 0)
