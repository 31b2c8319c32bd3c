"""Producer id, epochs and sequence numbers, so that a batch sent again is stored once. No I/O.

Each partition counts for itself. When a broker expects another number than the one that is due (records were
given up before, or the broker forgot us), the partition goes on under the next epoch, from 0: a producer
without transactions may raise its epoch by itself (KIP-360), and brokers keep epochs by partition.
"""

from dataclasses import dataclass

from kohort.client.producer.batch import Numbering
from kohort.model.topics import TopicPartition

LAST_EPOCH = 32_767
_SEQUENCES = 0x7FFFFFFF  # the one after it is 0


@dataclass(slots=True)
class _Count:
    producer_id: int
    epoch: int
    next: int = 0


class Sequences:
    """The numbers of one producer. Needs an id of a broker before it can number anything."""

    def __init__(self) -> None:
        self._identity: tuple[int, int] | None = None
        self._counts: dict[TopicPartition, _Count] = {}

    @property
    def needs_identity(self) -> bool:
        return self._identity is None

    def identify(self, producer_id: int, epoch: int) -> None:
        """Number partitions that have not begun yet under this id."""
        self._identity = (producer_id, epoch)

    def assign(self, partition: TopicPartition, records: int) -> Numbering:
        """The numbers of the next batch of a partition."""
        count = self._counts.get(partition)
        if count is None:
            assert self._identity is not None, "a batch cannot be numbered without a producer id"
            count = self._counts[partition] = _Count(*self._identity)
        numbering = Numbering(count.producer_id, count.epoch, count.next)
        count.next = (count.next + records) & _SEQUENCES
        return numbering

    def start_over(self, partition: TopicPartition) -> None:
        """Count from 0 under the next epoch; under another id once the epochs are used up."""
        count = self._counts.get(partition)
        if count is None:
            return
        if count.epoch < LAST_EPOCH:
            self._counts[partition] = _Count(count.producer_id, count.epoch + 1)
        else:
            self.renounce(partition)

    def renounce(self, partition: TopicPartition) -> None:
        """Go on under another producer id: this one is used up, or somebody else has it."""
        count = self._counts.pop(partition, None)
        if count is not None and self._identity is not None and count.producer_id == self._identity[0]:
            self._identity = None
