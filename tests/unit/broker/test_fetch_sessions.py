"""Fetch sessions: the table of the specification, row by row."""

import random

from kohort.broker.fetch_sessions import (
    OPEN_SESSION,
    SESSIONLESS,
    FetchSession,
    FetchSessions,
    Opened,
    PartitionKey,
    Told,
    Wanted,
)
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicName

ASK = Wanted(offset=0, max_bytes=1_000, leader_epoch=-1, last_fetched_epoch=-1)
A: PartitionKey = (TopicName("t"), 0)
B: PartitionKey = (TopicName("t"), 1)


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


def test_a_sessionless_fetch_gets_no_session() -> None:
    store = sessions()
    assert store.open(0, SESSIONLESS, {A: ASK}, by_id=False, now=0).session is None
    assert len(store) == 0


def test_a_full_fetch_opens_a_session_that_remembers_its_partitions() -> None:
    store = sessions()
    session = opened(store, A, B)
    again = resumed(store, session, 1)
    assert isinstance(again, Opened)
    assert list(again.wanted) == [A, B]
    assert again.incremental


def test_a_full_fetch_that_names_a_session_closes_it() -> None:
    store = sessions()
    first = opened(store, A)
    store.open(first.session_id, OPEN_SESSION, {A: ASK}, by_id=False, now=0)
    assert resumed(store, first, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(store) == 1


def test_a_final_fetch_closes_the_session_and_is_served_without_one() -> None:
    store = sessions()
    session = opened(store, A)
    last = store.open(session.session_id, SESSIONLESS, {B: ASK}, by_id=False, now=0)
    assert (last.session, list(last.wanted), len(store)) == (None, [B], 0)


def test_an_unknown_session_is_not_found() -> None:
    assert sessions().resume(99, 1, ({}, []), by_id=False, now=0) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_epochs_count_up_and_a_wrong_one_is_refused() -> None:
    store = sessions()
    session = opened(store, A)
    assert isinstance(resumed(store, session, 1), Opened)
    assert resumed(store, session, 1) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert isinstance(resumed(store, session, 2), Opened)


def test_after_the_last_epoch_comes_one() -> None:
    store = sessions()
    session = opened(store, A)
    session.epoch = 2**31 - 1
    assert isinstance(resumed(store, session, 2**31 - 1), Opened)
    assert session.epoch == 1


def test_names_and_ids_do_not_mix_in_a_session() -> None:
    store = sessions()
    session = opened(store, A)
    answer = store.resume(session.session_id, 1, ({}, []), by_id=True, now=0)
    assert answer is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_session_without_partitions_ends() -> None:
    store = sessions()
    session = opened(store, A)
    end = store.resume(session.session_id, 1, ({}, [A]), by_id=False, now=0)
    assert isinstance(end, Opened)
    assert (end.session, len(store)) == (None, 0)


def test_partitions_are_added_updated_and_forgotten() -> None:
    store = sessions()
    session = opened(store, A)
    later = ASK._replace(offset=5)
    added = store.resume(session.session_id, 1, ({A: later, B: ASK}, []), by_id=False, now=0)
    assert isinstance(added, Opened)
    assert added.wanted == {A: later, B: ASK}
    dropped = store.resume(session.session_id, 2, ({}, [A]), by_id=False, now=0)
    assert isinstance(dropped, Opened)
    assert list(dropped.wanted) == [B]


def test_when_all_slots_are_taken_a_consumer_gets_no_session() -> None:
    store = sessions(slots=1)
    opened(store, A)
    assert store.open(0, OPEN_SESSION, {A: ASK}, by_id=False, now=119_999).session is None


def test_a_session_idle_for_two_minutes_gives_way() -> None:
    store = sessions(slots=1)
    old = opened(store, A)
    assert opened(store, A, now=120_000).session_id != old.session_id
    assert resumed(store, old, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


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


def test_only_changes_are_news() -> None:
    session = opened(sessions(), A, B)
    told = Told(5, 0)
    assert session.is_news(A, told, has_records=False, failed=False)
    assert not session.is_news(A, told, has_records=False, failed=False)
    assert session.is_news(A, told, has_records=True, failed=False)
    assert session.is_news(A, Told(6, 0), has_records=False, failed=False)


def test_after_an_error_everything_is_news_again() -> None:
    session = opened(sessions(), A)
    told = Told(5, 0)
    assert session.is_news(A, told, has_records=False, failed=False)
    assert session.is_news(A, Told(-1, -1), has_records=False, failed=True)
    assert session.is_news(A, told, has_records=False, failed=False)


def test_a_partition_that_gave_records_goes_to_the_end_of_the_queue() -> None:
    session = opened(sessions(), A, B)
    session.is_news(A, Told(1, 0), has_records=True, failed=False)
    assert list(session.wanted) == [B, A]
