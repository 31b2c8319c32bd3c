"""Fetch sessions (KIP-227): what a consumer asked for last time, so that it need not repeat it.

A session remembers, for each partition, what was asked and what was last answered; an
incremental reply leaves out partitions of which there is nothing new to say.
"""

import random
from collections import OrderedDict
from typing import NamedTuple

from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicId, TopicName

SESSIONLESS = -1
OPEN_SESSION = 0
_LAST_EPOCH = 2**31 - 1
_EVICTABLE_AFTER_MS = 120_000  # a session idle for so long gives way to a new one when all slots are taken

TopicKey = TopicName | TopicId  # names up to Fetch v12, ids from v13 on
PartitionKey = tuple[TopicKey, int]


class Wanted(NamedTuple):
    """What a consumer asks of one partition."""

    offset: int
    max_bytes: int
    leader_epoch: int
    last_fetched_epoch: int


class Told(NamedTuple):
    """The numbers of a partition a consumer was last told; a change is worth a reply."""

    high_watermark: int
    log_start_offset: int


NOTHING_TOLD = Told(-1, -1)


class FetchSession:
    """One consumer's standing request, in the order in which partitions are served."""

    __slots__ = ("by_id", "epoch", "last_used", "session_id", "told", "wanted")

    def __init__(self, session_id: int, *, by_id: bool, now: int) -> None:
        self.session_id = session_id
        self.by_id = by_id
        self.epoch = 1  # the next one we expect
        self.last_used = now
        self.wanted: OrderedDict[PartitionKey, Wanted] = OrderedDict()
        self.told: dict[PartitionKey, Told] = {}

    def change(self, wanted: dict[PartitionKey, Wanted], forgotten: list[PartitionKey]) -> None:
        """Add and update what is listed, forget what is dropped; the rest is implied."""
        self.wanted.update(wanted)
        for key in forgotten:
            self.wanted.pop(key, None)
            self.told.pop(key, None)

    def is_news(self, key: PartitionKey, told: Told, *, has_records: bool, failed: bool) -> bool:
        """Whether an incremental reply must mention this partition; remembers that it did.

        A partition with records goes to the end of the queue, so that a small byte budget
        does not starve those behind it. After an error everything counts as news again.
        """
        if failed:
            self.told[key] = NOTHING_TOLD
            return True
        news = has_records or self.told.get(key) != told
        self.told[key] = told
        if has_records:
            self.wanted.move_to_end(key)
        return news


class Opened(NamedTuple):
    """What a Fetch request is served from; ``session`` is None for a sessionless one."""

    wanted: dict[PartitionKey, Wanted]
    session: FetchSession | None
    incremental: bool


class FetchSessions:
    """All sessions of a broker, at most ``slots`` of them."""

    def __init__(self, slots: int = 1_000, dice: random.Random | None = None) -> None:
        self._slots = slots
        self._dice = dice or random.Random()
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()  # least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

    def open(
        self, session_id: int, epoch: int, wanted: dict[PartitionKey, Wanted], *, by_id: bool, now: int
    ) -> Opened:
        """A full fetch: closes the session it names and, unless sessionless, opens another.

        When every slot is taken by a session in use the consumer gets none (id 0): it will
        go on sending full fetches.
        """
        self._sessions.pop(session_id, None)
        if epoch == SESSIONLESS or not wanted or not self._make_room(now):
            return Opened(wanted, None, incremental=False)
        session = FetchSession(self._new_id(), by_id=by_id, now=now)
        session.change(wanted, [])
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
        """An incremental fetch of an open session; an error code leaves the session as it was."""
        session = self._sessions.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_id != by_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.change(*changes)
        if not session.wanted:
            del self._sessions[session_id]
            return Opened({}, None, incremental=False)
        session.epoch = 1 if epoch == _LAST_EPOCH else epoch + 1
        session.last_used = now
        self._sessions.move_to_end(session_id)
        return Opened(dict(session.wanted), session, incremental=True)

    def _make_room(self, now: int) -> bool:
        if len(self._sessions) < self._slots:
            return True
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now - oldest.last_used < _EVICTABLE_AFTER_MS:
            return False
        del self._sessions[oldest.session_id]
        return True

    def _new_id(self) -> int:
        while True:
            session_id = self._dice.randint(1, 2**31 - 1)
            if session_id not in self._sessions:
                return session_id
