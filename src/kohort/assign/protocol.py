"""What members of a consumer group tell each other: ConsumerProtocol subscriptions, assignments, user data.

The broker carries these blobs without reading them, so they are written as every other client writes them
(big-endian, not flexible, fields only ever appended) and read with patience: a version newer than ours is
read as ours, and bytes after the last known field are ignored.
"""

import struct
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kohort.model.errors import KohortError, ProtocolError
from kohort.model.ids import Generation, InstanceId, Partition, TopicName
from kohort.model.topics import TopicPartition

PROTOCOL_TYPE = "consumer"
NEWEST_VERSION = 3
NO_GENERATION = Generation(-1)

_OWNED_SINCE, _GENERATION_SINCE, _RACK_SINCE = 1, 2, 3
_LONGEST_STRING = 0x7FFF
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class TruncatedError(ProtocolError):
    """The blob ends before its last field does."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What one member wants and holds.

    ``None`` for what is absent: older members send no generation and no rack. The instance id is not part of
    the blob; the leader takes it from the JoinGroup response.
    """

    topics: tuple[TopicName, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: Generation | None = None
    rack: str | None = None
    instance_id: InstanceId | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """What one member gets. The order of the partitions has no meaning, but survives the wire."""

    partitions: tuple[TopicPartition, ...] = ()
    user_data: bytes | None = None


class StickyUserData(NamedTuple):
    """What a member of a sticky group held, and since which generation (``None``: it does not say)."""

    partitions: tuple[TopicPartition, ...]
    generation: Generation | None


def encode_subscription(subscription: Subscription, version: int = NEWEST_VERSION) -> bytes:
    """The blob of a JoinGroup request; fields that ``version`` does not know yet are left out."""
    topics = sorted(set(subscription.topics))
    parts = [_INT16.pack(_known(version)), _INT32.pack(len(topics))]
    parts += map(_string, topics)
    parts.append(_nullable_bytes(subscription.user_data))
    if version >= _OWNED_SINCE:
        parts.append(_partitions(sorted(set(subscription.owned))))
    if version >= _GENERATION_SINCE:
        absent = subscription.generation is None
        parts.append(_INT32.pack(NO_GENERATION if absent else subscription.generation))
    if version >= _RACK_SINCE:
        parts.append(_string(subscription.rack) if subscription.rack else _INT16.pack(-1))
    return b"".join(parts)


def decode_subscription(blob: bytes) -> Subscription:
    """Read a member's subscription; raises ProtocolError (TruncatedError where bytes are missing)."""
    reader = _Reader(blob)
    version = reader.version()
    topics = tuple(TopicName(reader.string()) for _ in range(reader.count(_INT16.size)))
    user_data = reader.nullable_bytes() or None
    owned: tuple[TopicPartition, ...] = ()
    if version >= _OWNED_SINCE:
        try:
            owned = reader.partitions()
        except TruncatedError:
            # Clients exist that write version 1 on a version 0 blob.
            if version > _OWNED_SINCE:
                raise
    generation = reader.int32() if version >= _GENERATION_SINCE else NO_GENERATION
    rack = reader.nullable_string() if version >= _RACK_SINCE else None
    return Subscription(
        topics, user_data, owned, None if generation < 0 else Generation(generation), rack or None
    )


def encode_assignment(assignment: Assignment, version: int = NEWEST_VERSION) -> bytes:
    """The blob of a SyncGroup request. The body is the same in every version."""
    head = _INT16.pack(_known(version))
    return head + _partitions(assignment.partitions) + _nullable_bytes(assignment.user_data)


def decode_assignment(blob: bytes) -> Assignment:
    """Read what the leader assigned; raises ProtocolError (TruncatedError where bytes are missing)."""
    reader = _Reader(blob)
    reader.version()
    return Assignment(reader.partitions(), reader.nullable_bytes() or None)


def encode_sticky_user_data(partitions: Collection[TopicPartition], generation: Generation) -> bytes:
    """The user data of ``sticky`` (its version 1): what the member held, and since when."""
    return _partitions(sorted(partitions)) + _INT32.pack(generation)


def decode_sticky_user_data(blob: bytes | None) -> StickyUserData:
    """Read either version of ``sticky``'s user data. Never refuses: who cannot be understood held nothing."""
    if not blob:
        return StickyUserData((), None)
    reader = _Reader(blob)
    try:
        partitions = reader.partitions()
    except ProtocolError:
        return StickyUserData((), NO_GENERATION)
    try:
        return StickyUserData(partitions, Generation(reader.int32()))
    except TruncatedError:
        return StickyUserData(partitions, None)  # version 0 ends here


def encode_generation(generation: Generation) -> bytes:
    """The user data of ``cooperative-sticky``: for leaders that do not know subscriptions of version 2."""
    return _INT32.pack(generation)


def decode_generation(blob: bytes | None) -> Generation | None:
    """Read the user data of ``cooperative-sticky``: ``None`` if there is none, -1 if it is unreadable."""
    if not blob:
        return None
    if len(blob) < _INT32.size:
        return NO_GENERATION
    return Generation(_INT32.unpack_from(blob)[0])


def _known(version: int) -> int:
    if not 0 <= version <= NEWEST_VERSION:
        raise KohortError(
            f"there is no version {version} of the consumer protocol",
            hint=f"versions are 0 to {NEWEST_VERSION}",
        )
    return version


def _string(text: str) -> bytes:
    encoded = text.encode()
    if len(encoded) > _LONGEST_STRING:
        raise KohortError(f"a string of {len(encoded)} bytes does not fit: {text[:20]!r}… (at most 32767)")
    return _INT16.pack(len(encoded)) + encoded


def _nullable_bytes(blob: bytes | None) -> bytes:
    return _INT32.pack(-1) if blob is None else _INT32.pack(len(blob)) + blob


def _partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """Grouped by topic, each topic where its first partition stands: the order of Java's encoder."""
    by_topic: dict[TopicName, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    parts = [_INT32.pack(len(by_topic))]
    for topic, numbers in by_topic.items():
        parts += (_string(topic), _int32_array(numbers))
    return b"".join(parts)


def _int32_array(numbers: Sequence[int]) -> bytes:
    return struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)


class _Reader:
    """Reads a blob from its beginning. Every length is checked against the bytes that are there."""

    __slots__ = ("_blob", "_position")

    def __init__(self, blob: bytes) -> None:
        self._blob = blob
        self._position = 0

    def version(self) -> int:
        version = self.int16()
        if version < 0:
            raise ProtocolError(f"a consumer protocol blob of version {version}")
        return min(version, NEWEST_VERSION)

    def int16(self) -> int:
        value: int = _INT16.unpack(self._take(_INT16.size))[0]
        return value

    def int32(self) -> int:
        value: int = _INT32.unpack(self._take(_INT32.size))[0]
        return value

    def count(self, least_size: int) -> int:
        """The length of an array whose elements take ``least_size`` bytes or more."""
        count = self.int32()
        if count < 0:
            raise ProtocolError(f"an array of {count} elements at byte {self._position - _INT32.size}")
        self._need(count * least_size)
        return count

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise ProtocolError(f"null where a string belongs, before byte {self._position}")
        return text

    def nullable_string(self) -> str | None:
        length = self.int16()
        if length < 0:
            return None
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise ProtocolError(f"a string that is not UTF-8, before byte {self._position}") from error

    def nullable_bytes(self) -> bytes | None:
        length = self.int32()
        return None if length < 0 else self._take(length)

    def partitions(self) -> tuple[TopicPartition, ...]:
        found: list[TopicPartition] = []
        for _ in range(self.count(_INT16.size + _INT32.size)):
            topic = TopicName(self.string())
            count = self.count(_INT32.size)
            numbers = struct.unpack(f">{count}i", self._take(count * _INT32.size))
            found += [TopicPartition(topic, Partition(number)) for number in numbers]
        return tuple(found)

    def _take(self, size: int) -> bytes:
        self._need(size)
        start = self._position
        self._position = start + size
        return self._blob[start : start + size]

    def _need(self, size: int) -> None:
        left = len(self._blob) - self._position
        if size > left:
            raise TruncatedError(f"{size} bytes are needed at byte {self._position}, {left} are there")
