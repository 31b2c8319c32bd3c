"""Fetch sessions: who gives way, and how much memory they take.

The life of a session is recorded: ``tests/interop/scripts/fetch_sessions.py``.
"""

import random

from kohort.broker.fetch_sessions import (
    OPEN_SESSION,
    SESSIONLESS,
    FetchSession,
    FetchSessions,
    Opened,
    PartitionKey,
    Wanted,
)
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicName

ASK = Wanted(offset=0, max_bytes=1_000, leader_epoch=-1, last_fetched_epoch=-1)
A: PartitionKey = (TopicName("t"), 0)


def sessions(slots: int = 10, max_bytes: int = 1_000_000) -> FetchSessions:
    return FetchSessions(slots, max_bytes, random.Random(7))


def some(count: int, topic: str = "t") -> dict[PartitionKey, Wanted]:
    return dict.fromkeys(((TopicName(topic), index) for index in range(count)), ASK)


def opened(store: FetchSessions, *keys: PartitionKey, now: int = 0) -> FetchSession:
    result = store.open(0, OPEN_SESSION, dict.fromkeys(keys, ASK), by_id=False, now=now)
    assert result.session is not None
    return result.session


def resumed(store: FetchSessions, session: FetchSession, epoch: int) -> Opened | ErrorCode:
    return store.resume(session.session_id, epoch, ({}, []), by_id=False, now=0)


def test_after_the_last_epoch_comes_one() -> None:
    store = sessions()
    session = opened(store, A)
    session.epoch = 2**31 - 1
    assert isinstance(resumed(store, session, 2**31 - 1), Opened)
    assert session.epoch == 1


def test_a_session_that_gives_way_must_be_old_and_smaller() -> None:
    store = sessions(slots=2)
    small, large = opened(store, A), opened(store, *some(5))
    for now in (119_000, 120_001):  # both are in use, and have been for two minutes
        for session in (small, large):
            store.resume(session.session_id, session.epoch, ({}, []), by_id=False, now=now)
    assert store.open(0, OPEN_SESSION, some(1), by_id=False, now=120_001).session is None
    assert store.open(0, OPEN_SESSION, some(2), by_id=False, now=120_001).session is not None
    assert resumed(store, small, 3) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert isinstance(resumed(store, large, 3), Opened)
    assert store.open(0, OPEN_SESSION, some(5), by_id=False, now=120_001).session is None


def test_sessions_have_so_much_memory_and_no_more_however_it_is_used() -> None:
    store = sessions(slots=1_000, max_bytes=100_000)
    for topic in ("t", "t" * 10_000):
        got = [store.open(0, OPEN_SESSION, some(3, topic), by_id=False, now=0).session for _ in range(500)]
        given = [session for session in got if session is not None]
        assert got[: len(given)] == given
        assert 2 < len(given) < 200
        for session in given:  # what they took is given back when they end
            store.open(session.session_id, SESSIONLESS, {A: ASK}, by_id=False, now=0)
    assert store.open(0, OPEN_SESSION, some(1_000), by_id=False, now=0).session is None
    assert store.open(0, OPEN_SESSION, some(200), by_id=False, now=0).session is not None


def test_a_session_that_grows_beyond_the_room_there_is_ends() -> None:
    store = sessions(max_bytes=10_000)
    session = opened(store, A)
    grown = store.resume(session.session_id, 1, (some(100), []), by_id=False, now=0)
    assert grown is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(store) == 0
    other = opened(store, *some(20))  # there is as much room as before
    for epoch in range(1, 50):  # naming them again, and dropping them, does not add up
        changes = (some(20), list(some(20 if epoch % 2 else 10))[1:])
        assert isinstance(store.resume(other.session_id, epoch, changes, by_id=False, now=0), Opened)
