"""Fetch sessions (KIP-227): what a consumer asked for last time, so that it need not repeat it.

A session remembers, for each partition, what was asked and what was last answered; an
incremental reply leaves out partitions of which there is nothing new to say.
"""

import random
from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicId, TopicName

SESSIONLESS = -1
OPEN_SESSION = 0
_LAST_EPOCH = 2**31 - 1
_EVICTABLE_AFTER_MS = 120_000  # a session idle for so long gives way to a new one when there is no room
_PARTITION_OVERHEAD = 400  # bytes of memory that a partition of a session takes, apart from its topic's name

TopicKey = TopicName | TopicId  # names up to Fetch v12, ids from v13 on
PartitionKey = tuple[TopicKey, int]


class Wanted(NamedTuple):
    """What a consumer asks of one partition."""

    offset: int
    max_bytes: int
    leader_epoch: int
    last_fetched_epoch: int


class SentNumbers(NamedTuple):
    """The numbers of a partition a consumer was last sent; a change is worth a reply."""

    high_watermark: int
    log_start_offset: int


def _size(keys: Iterable[PartitionKey]) -> int:
    """About the memory these partitions take in a session."""
    return sum(_PARTITION_OVERHEAD + len(topic) for topic, _ in keys)


class FetchSession:
    """One consumer's standing request, in the order in which partitions are served."""

    __slots__ = ("by_id", "created", "epoch", "last_used", "sent", "session_id", "size", "wanted")

    def __init__(self, session_id: int, *, by_id: bool, now: int) -> None:
        self.session_id = session_id
        self.by_id = by_id
        self.epoch = 1  # the next one we expect
        self.created = self.last_used = now
        self.size = 0  # about its memory, in bytes
        self.wanted: dict[PartitionKey, Wanted] = {}
        self.sent: dict[PartitionKey, SentNumbers] = {}

    def change(self, wanted: dict[PartitionKey, Wanted], forgotten: list[PartitionKey]) -> None:
        """Add and update what is listed, forget what is dropped; the rest is implied."""
        self.size += self.growth(wanted)
        self.wanted.update(wanted)
        for key in forgotten:
            if self.wanted.pop(key, None) is not None:
                self.size -= _size([key])
            self.sent.pop(key, None)

    def growth(self, wanted: dict[PartitionKey, Wanted]) -> int:
        """About the memory that listing these would add."""
        return _size(key for key in wanted if key not in self.wanted)

    def is_news(self, key: PartitionKey, sent: SentNumbers, *, has_records: bool, failed: bool) -> bool:
        """Whether an incremental reply must mention this partition; remembers that it did.

        A partition with records goes to the end of the queue, so that a small byte budget
        does not starve those behind it. After an error everything counts as news again.
        """
        if failed:
            self.sent.pop(key, None)
            return True
        news = has_records or self.sent.get(key) != sent
        self.sent[key] = sent
        if has_records and key in self.wanted:  # it may have been forgotten during a long poll
            self.wanted[key] = self.wanted.pop(key)
        return news


class Opened(NamedTuple):
    """What a Fetch request is served from; ``session`` is None for a sessionless one."""

    wanted: dict[PartitionKey, Wanted]
    session: FetchSession | None
    incremental: bool


class FetchSessions:
    """All sessions of a broker: at most ``slots`` of them, with about ``max_bytes`` of memory together."""

    def __init__(self, slots: int, max_bytes: int, dice: random.Random | None = None) -> None:
        self._slots = slots
        self._max_bytes = max_bytes
        self._bytes = 0
        self._dice = dice or random.Random()
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()  # least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

    def partitions_of(self, session_id: int) -> int:
        """How many partitions a session has."""
        session = self._sessions.get(session_id)
        return len(session.wanted) if session is not None else 0

    def open(
        self, session_id: int, epoch: int, wanted: dict[PartitionKey, Wanted], *, by_id: bool, now: int
    ) -> Opened:
        """A full fetch: closes the session it names and, unless sessionless, opens another.

        When there is no room for a session the consumer gets none (id 0): it will go on sending
        full fetches.
        """
        self._close(session_id)
        if epoch == SESSIONLESS or not wanted or not self._make_room(len(wanted), _size(wanted), now):
            return Opened(wanted, None, incremental=False)
        session = FetchSession(self._new_id(), by_id=by_id, now=now)
        session.change(wanted, [])
        self._bytes += session.size
        self._sessions[session.session_id] = session
        return Opened(dict(session.wanted), session, incremental=False)

    def resume(
        self,
        session_id: int,
        epoch: int,
        changes: tuple[dict[PartitionKey, Wanted], list[PartitionKey]],
        *,
        by_id: bool,
        now: int,
    ) -> Opened | ErrorCode:
        """An incremental fetch of an open session; an error code leaves the session as it was.

        A session that grows beyond the room there is ends: not found, its consumer starts over.
        """
        session = self._sessions.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_id != by_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        growth = session.growth(changes[0])
        if growth and self._bytes + growth > self._max_bytes:
            self._close(session_id)
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        before = session.size
        session.change(*changes)
        self._bytes += session.size - before
        if not session.wanted:
            self._close(session_id)
            return Opened({}, None, incremental=False)
        session.epoch = 1 if epoch == _LAST_EPOCH else epoch + 1
        session.last_used = now
        self._sessions.move_to_end(session_id)
        return Opened(dict(session.wanted), session, incremental=True)

    def _close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._bytes -= session.size

    def _make_room(self, partitions: int, size: int, now: int) -> bool:
        """For a session of this number of partitions, by the rules of Kafka's cache."""
        if size > self._max_bytes:
            return False
        while len(self._sessions) >= self._slots or self._bytes + size > self._max_bytes:
            session = self._evictable(partitions, now)
            if session is None:
                return False
            self._close(session.session_id)
        return True

    def _evictable(self, partitions: int, now: int) -> FetchSession | None:
        """One that was not used for long; else the smallest of those in use for long, if it is smaller."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is not None and now - oldest.last_used >= _EVICTABLE_AFTER_MS:
            return oldest
        settled = [
            each for each in self._sessions.values() if each.last_used - each.created > _EVICTABLE_AFTER_MS
        ]
        smallest = min(settled, key=lambda each: len(each.wanted), default=None)
        return smallest if smallest is not None and len(smallest.wanted) < partitions else None

    def _new_id(self) -> int:
        while True:
            session_id = self._dice.randint(1, 2**31 - 1)
            if session_id not in self._sessions:
                return session_id
