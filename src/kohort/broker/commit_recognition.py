"""Recognise an OffsetCommit that differs from an earlier one of its connection in the offsets alone.

A consumer commits the same partitions again and again. Where the offsets lie in such a frame, what stands
around them and the bytes of the reply are kept with the connection; the core decides each commit by the
command that the handler would have made of it. Nothing is kept of a request that names an unknown partition.

The places of the offsets are found by writing the request twice, with offsets of zeros and of ones: only
those bytes differ. A frame that is not what our own encoder writes is not kept.
"""

from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from kohort.broker.recognition import AFTER_ID, ID, Grounds, SeenRequest
from kohort.broker.topics import ServedTopic
from kohort.codec.compiled import encode
from kohort.groups.commands import CommitOffsets, CommitRow
from kohort.groups.replies import CommitReply
from kohort.model.errors import ErrorCode
from kohort.model.ids import ReplyTo

if TYPE_CHECKING:
    from kohort.broker.coordinator import GroupCoordinator
    from kohort.wire.messages.offset_commit import OffsetCommitRequest

LARGEST: Final = 8 * 1024  # bytes of a frame that is kept
MOST_ROWS: Final = 100  # partitions in it: what is kept of one is many times its bytes
_TRIES = 4  # frames that a connection may have kept without sending one like them again
_FIRST_VERSION_WITH_EPOCHS = 6

FoundTopic = tuple[Callable[[Any], ServedTopic | None], str | bytes, ServedTopic]  # how, by what, and which


class CommitFrameLayout:
    """Where the offsets and leader epochs of a frame lie; the rest of it is fixed, but for its number."""

    __slots__ = ("_count", "fixed", "has_epochs", "size", "start", "unpack")

    def __init__(self, frame: bytes, mask: bytes, version: int) -> None:
        """``frame`` with its size; ``mask`` has ones where the frame may differ."""
        self.has_epochs = version >= _FIRST_VERSION_WITH_EPOCHS
        width, code = (12, "qi") if self.has_epochs else (8, "q")
        form = [f">{ID}s4x"]
        position = AFTER_ID
        while (place := mask.find(0xFF, position)) >= 0:
            form.append(f"{place - position}s{code}")
            position = place + width
        form.append(f"{len(frame) - position}s")
        whole = Struct("".join(form))
        self.unpack = whole.unpack_from
        self.size = len(frame)
        self.start = frame[:ID]
        self._count = 3 if self.has_epochs else 2
        self.fixed: tuple[Any, ...] = whole.unpack(frame)[1 :: self._count]

    def read(self, data: bytes) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Offsets and leader epochs of the frame that ``data`` begins with, if it is such a frame."""
        if not data.startswith(self.start) or len(data) < self.size:
            return None
        fields = self.unpack(data)
        count = self._count
        if fields[1::count] != self.fixed:
            return None
        offsets = fields[2::count]
        return offsets, fields[3::count] if self.has_epochs else (-1,) * len(offsets)


def find_places(
    frame: bytes, position: int, request: "OffsetCommitRequest", version: int
) -> CommitFrameLayout | None:
    """Of a frame without its size, whose body begins at ``position``."""
    if encode(request, version) != frame[position:]:
        return None  # tagged fields that we do not know, or bytes behind the request
    partitions = [part for topic in request.topics for part in topic.partitions]
    said = [(part.committed_offset, part.committed_leader_epoch) for part in partitions]
    written = []
    for value in (0, -1):
        for part in partitions:
            part.committed_offset = part.committed_leader_epoch = value
        written.append(int.from_bytes(encode(request, version), "big"))
    for part, (offset, epoch) in zip(partitions, said, strict=True):
        part.committed_offset, part.committed_leader_epoch = offset, epoch
    size = 4 + len(frame)
    return CommitFrameLayout(
        len(frame).to_bytes(4, "big") + frame, (written[0] ^ written[1]).to_bytes(size, "big"), version
    )


class SeenCommit(SeenRequest[CommitReply]):
    """A commit that a connection has sent, but for its offsets.

    ``topics`` says how each topic of the request is looked up, and what was found.
    """

    __slots__ = ("_coordinator", "_places", "_replies", "_rows", "_said", "_topics")

    def __init__(
        self,
        places: CommitFrameLayout,
        request: CommitOffsets,
        topics: list[FoundTopic],
        basis: "tuple[GroupCoordinator, Grounds]",
        write: Callable[[CommitReply], bytes],
    ) -> None:
        self._coordinator, grounds = basis
        super().__init__(places.size, grounds, write)
        self._places = places
        self._said = request
        self._rows = [(row.topic, row.partition, row.metadata, row.topic_id) for row in request.rows]
        self._topics = topics
        self._replies: dict[ErrorCode, tuple[bytes, bytes]] = {}  # if all rows have the same

    def recognise(self, data: bytes) -> tuple[CommitRow, ...] | None:
        found = self._places.read(data)
        if found is None:
            return None
        for find, key, topic in self._topics:
            if find(key) is not topic:
                return None
        offsets, epochs = found
        return tuple(
            [
                CommitRow(topic, partition, offset, epoch, metadata, topic_id)
                for (topic, partition, metadata, topic_id), offset, epoch in zip(
                    self._rows, offsets, epochs, strict=True
                )
            ]
        )

    def ask(self, asked: tuple[CommitRow, ...]) -> object:
        _, group_id, _, generation, member, instance, retention, version = self._said

        def command(reply_to: ReplyTo) -> CommitOffsets:
            return CommitOffsets(reply_to, group_id, asked, generation, member, instance, retention, version)

        return self._coordinator.ask(group_id, command, self)

    def parts_of(self, reply: CommitReply) -> tuple[bytes, bytes] | None:
        error = _common_error(reply)
        return None if error is None else self._replies.get(error)

    def keep(self, reply: CommitReply, parts: tuple[bytes, bytes]) -> None:
        error = _common_error(reply)
        if error is not None:
            self._replies[error] = parts


def _common_error(reply: CommitReply) -> ErrorCode | None:
    """What all rows say, if they say the same."""
    error = reply.rows[0].error
    for row in reply.rows:
        if row.error is not error:
            return None
    return error


class CommitSizes:
    """Whether the commits of a connection are worth keeping.

    A frame is if the one before it was as long. A connection whose commits differ each time is left alone
    after a few.
    """

    __slots__ = ("_last", "_tries")

    def __init__(self) -> None:
        self._last = 0
        self._tries = _TRIES

    def is_worth_it(self, size: int, seen: SeenRequest[Any] | None) -> bool:
        """Whether a frame of this size, which is not the one that was ``seen``, is to be kept."""
        if seen is not None and seen.used:
            self._tries = _TRIES
            seen.used = False
        if size != self._last or size > LARGEST or not self._tries:
            self._last = size
            return False
        self._tries -= 1
        return True
