"""An accumulator on virtual time, with waiters that remember what they were told."""

from kohort.client.producer.accumulator import Accumulator, Added, BatchLimits
from kohort.client.producer.batch import Batch, RecordMetadata, Sequences
from kohort.model.ids import NodeId, Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.records.batch import HEADER_SIZE, NewRecord

HERE = TopicPartition(TopicName("orders"), Partition(0))
THERE = TopicPartition(TopicName("orders"), Partition(1))
NODE, OTHER_NODE = NodeId(1), NodeId(2)
PRODUCER_ID = 7
PAUSE = 100
RECORD = 100


class Waiter:
    """Waits for one record."""

    def __init__(self) -> None:
        self.result: RecordMetadata | None = None
        self.error: BaseException | None = None

    def done(self) -> bool:
        return self.result is not None or self.error is not None

    def set_result(self, result: RecordMetadata, /) -> None:
        self.result = result

    def set_exception(self, exception: BaseException, /) -> None:
        self.error = exception


def accumulator(*, records: int = 2, linger_ms: int = 10, numbered: bool = True) -> Accumulator:
    """One whose batches have room for so many records."""
    sequences = Sequences() if numbered else None
    if sequences is not None:
        sequences.identify(PRODUCER_ID, 0)
    return Accumulator(
        BatchLimits(
            batch_size=HEADER_SIZE + records * RECORD,
            linger_ms=linger_ms,
            delivery_timeout_ms=10_000,
            max_in_flight=5,
            pause=lambda _attempts: PAUSE,
        ),
        lambda: 0,
        sequences,
    )


def known_accumulator(*, records: int = 2) -> Accumulator:
    """One whose partitions a broker has heard of, so that several batches may be in flight."""
    lanes = accumulator(records=records)
    for partition in (HERE, THERE):
        put(lanes, 1, partition=partition)
        lanes.in_a_hurry = True
        for batch in launch(lanes, partition=partition):
            lanes.settle(batch, stored=True)
    lanes.in_a_hurry = False
    assert lanes.sequences is not None
    for partition in (HERE, THERE):  # count from 0 again: tests read the numbers
        lanes.sequences._counts[partition].next = 0
    return lanes


def put(
    lanes: Accumulator, count: int = 1, *, now: int = 0, partition: TopicPartition = HERE
) -> tuple[list[Waiter], Added]:
    """Add records; who waits for them, and what the last one did."""
    waiters = [Waiter() for _ in range(count)]
    added = Added.JOINED
    lanes.clock = lambda: now
    for waiter in waiters:
        added = lanes.add(partition, NewRecord(now, None, b"v"), RECORD, waiter)
    return waiters, added


def launch(lanes: Accumulator, *, now: float = 0, partition: TopicPartition = HERE) -> list[Batch]:
    """Send all that is ready in a partition."""
    sent = []
    while partition in lanes.ready(now):
        batch = lanes.take(partition, NODE, 1_000_000)
        assert batch is not None
        sent.append(batch)
    return sent


def numbers(batches: list[Batch]) -> list[tuple[int, int]]:
    """Epoch and first sequence number of each."""
    return [(batch.numbering.epoch, batch.numbering.base_sequence) for batch in batches if batch.numbering]
