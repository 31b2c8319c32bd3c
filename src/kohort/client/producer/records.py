"""What a caller hands in, as the bytes of a record and the partition it goes to. No I/O."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kohort.client.metadata import NO_NODE, TopicInfo
from kohort.client.producer.settings import Serializer
from kohort.model.errors import KohortError
from kohort.model.topics import TopicPartition
from kohort.records.batch import Header

Headers = Mapping[str, bytes | None] | Sequence[Header]

_RECORD_OVERHEAD = 21  # lengths, deltas and attributes at their largest, nearly
_HEADER_OVERHEAD = 10
_LAST_TIMESTAMP = 2**63 - 65  # a batch keeps some room for deltas


def in_bytes(what: str, given: Any, serializer: Serializer | None) -> bytes | None:  # noqa: ANN401 (any user's type)
    """A key or a value ("key" or "value" says which); raises TypeError if it is no bytes in the end."""
    made = given if serializer is None else serializer(given)
    if made is None or type(made) is bytes:
        return made
    if isinstance(made, bytes | bytearray | memoryview):
        return bytes(made)
    if serializer is None:
        raise TypeError(f"a {what} must be bytes or None, not {type(given).__name__}; see {what}_serializer")
    raise TypeError(f"{what}_serializer returned {type(made).__name__}, not bytes or None")


def check_target(topic: str, partition: int | None) -> None:
    """TypeError for what cannot be a topic's name or a partition's number."""
    if not isinstance(topic, str):
        raise TypeError(f"a topic's name is text, not {topic!r}")
    if partition is not None and not isinstance(partition, int):
        raise TypeError(f"a partition's number is a whole number, not {partition!r}")


def header_list(headers: Headers) -> Sequence[Header]:
    """Headers as pairs; raises KohortError for what is no header."""
    pairs = list(headers.items()) if isinstance(headers, Mapping) else list(headers)
    for pair in pairs:
        match pair:
            case (str(name), bytes() | None) if _is_encodable(name):
                continue
            case _:
                raise KohortError(f"{pair!r} is not a header", hint="a name in text with bytes or None")
    return pairs


def _is_encodable(name: str) -> bool:
    try:
        name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def check_timestamp(given: int) -> int:
    """Milliseconds since 1970, as a record can have them; raises KohortError for anything else."""
    if not isinstance(given, int) or not 0 <= given <= _LAST_TIMESTAMP:
        raise KohortError(f"{given!r} is not a timestamp", hint="timestamp_ms is in milliseconds since 1970")
    return given


def record_size(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
    """How many bytes a record takes in a batch, at most."""
    size = _RECORD_OVERHEAD + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += _HEADER_OVERHEAD + 3 * len(name) + len(content or b"")
    return size


Choose = Callable[[Sequence[int]], int]
"""One of several, by chance."""


class TopicLayout:
    """The partitions of a topic by their numbers. ``led``: those that have a leader, or all if none has."""

    __slots__ = ("info", "led", "partitions")

    def __init__(self, info: TopicInfo) -> None:
        self.info = info
        self.partitions: dict[int, TopicPartition] = {
            one.partition: TopicPartition(info.name, one.partition) for one in info.partitions
        }
        led = [one.partition for one in info.partitions if one.leader != NO_NODE]
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


_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit hash Java's producer takes of a key, as an unsigned number."""
    length = len(data)
    hashed = _SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        block = int.from_bytes(data[position : position + 4], "little") * _MULTIPLIER & _MASK
        block = (block ^ block >> 24) * _MULTIPLIER & _MASK
        hashed = (hashed * _MULTIPLIER & _MASK) ^ block
    if whole < length:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    hashed = (hashed ^ hashed >> 13) * _MULTIPLIER & _MASK
    return hashed ^ hashed >> 15


def partition_for_key(key: bytes, partitions: int) -> int:
    """The partition of a key: the same one every Java producer chooses, as long as their number stays."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
