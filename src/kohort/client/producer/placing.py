"""Which partition a record goes to. No I/O; chance is handed in."""

from collections.abc import Callable, Sequence

from kohort.client.metadata import NOBODY, TopicInfo
from kohort.model.topics import TopicPartition

Choose = Callable[[Sequence[int]], int]
"""One of several, by chance."""


class Places:
    """The partitions of a topic by their numbers. ``led``: those that have a leader, or all if none has."""

    __slots__ = ("info", "led", "partitions")

    def __init__(self, info: TopicInfo) -> None:
        self.info = info
        self.partitions: dict[int, TopicPartition] = {
            one.partition: TopicPartition(info.name, one.partition) for one in info.partitions
        }
        led = [one.partition for one in info.partitions if one.leader != NOBODY]
        self.led: Sequence[int] = led or list(self.partitions)


class Sticky:
    """Records without a key stay together until a batch is full of them, then move on (KIP-794).

    So batches are large and partitions share alike; a partition without a leader is left out.
    """

    def __init__(self, batch_size: int, choose: Choose) -> None:
        self._batch_size = batch_size
        self._choose = choose
        self._current: dict[str, tuple[int, int]] = {}  # topic: partition, bytes sent there

    def place(self, topic: str, available: Sequence[int], size: int) -> int:
        """``available``: the partitions that have a leader; there must be one."""
        current = self._current.get(topic)
        if current is None or current[1] >= self._batch_size or current[0] not in available:
            others = [number for number in available if current is None or number != current[0]]
            current = (self._choose(others or available), 0)
        number, sent = current
        self._current[topic] = (number, sent + size)
        return number
