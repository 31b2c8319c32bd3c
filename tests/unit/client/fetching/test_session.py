"""Fetch sessions, client side."""

import pytest

from kohort.client.fetching.requests import ClientFetchSession, Order
from kohort.model.errors import ErrorCode
from kohort.model.ids import Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.wire.messages.fetch import FetchResponse

ID, OTHER_ID = b"\1" * 16, b"\2" * 16
A, B = (TopicPartition(TopicName("t"), Partition(number)) for number in (0, 1))


def order(offset: int, topic_id: bytes = ID) -> Order:
    return Order(offset, 0, topic_id)


def established(*partitions: TopicPartition) -> ClientFetchSession:
    session = ClientFetchSession()
    session.request({each: order(0) for each in partitions})
    assert session.answered(FetchResponse(session_id=9), partitions)
    return session


def test_the_first_request_is_full_and_asks_for_a_session() -> None:
    asked = ClientFetchSession().request({A: order(0), B: order(5)})
    assert (asked.session_id, asked.epoch) == (0, 0)
    assert asked.orders == {A: order(0), B: order(5)}


def test_later_requests_name_only_what_changed() -> None:
    session = established(A, B)
    asked = session.request({A: order(0), B: order(7)})
    assert asked == (9, 1, {B: order(7)}, {})
    assert session.answered(FetchResponse(session_id=9), [B])
    asked = session.request({B: order(7)})
    assert asked == (9, 2, {}, {A: ID})


def test_a_recreated_topic_is_forgotten_by_its_old_id_and_asked_for_by_the_new() -> None:
    session = established(A)
    asked = session.request({A: order(0, OTHER_ID)})
    assert asked == (9, 1, {A: order(0, OTHER_ID)}, {A: ID})
    assert session.name_of(OTHER_ID) == "t"


def test_an_evicted_session_is_started_over() -> None:
    session = established(A)
    session.request({A: order(1)})
    gone = FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert not session.answered(gone, [])
    assert session.request({A: order(1)})[:2] == (0, 0)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        (FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH), ()),
        (FetchResponse(session_id=9), (B,)),
    ],
)
def test_after_any_other_failure_the_old_session_is_closed_by_the_next_request(
    answer: tuple[FetchResponse, tuple[TopicPartition, ...]] | None,
) -> None:
    session = established(A)
    session.request({A: order(1)})
    if answer is None:
        session.failed()
    else:
        assert not session.answered(*answer)
    assert session.request({A: order(1)}) == (9, 0, {A: order(1)}, {})


def test_a_broker_without_sessions_is_asked_in_full_each_time() -> None:
    session = ClientFetchSession()
    session.request({A: order(0)})
    assert session.answered(FetchResponse(session_id=0), [A])
    assert session.request({A: order(1)}) == (0, 0, {A: order(1)}, {})


def test_a_full_answer_about_other_partitions_is_not_used() -> None:
    session = ClientFetchSession()
    session.request({A: order(0), B: order(0)})
    assert not session.answered(FetchResponse(session_id=9, throttle_time_ms=10), [])
    assert session.session_id == 0


def test_epochs_wrap_to_one() -> None:
    session = established(A)
    session._epoch = 0x7FFFFFFF
    session.request({A: order(1)})
    assert session.answered(FetchResponse(session_id=9), [])
    assert session.request({A: order(1)}).epoch == 1


def test_only_a_session_that_is_known_to_live_is_ended() -> None:
    assert ClientFetchSession().final_request() is None
    session = established(A)
    assert session.final_request() == (9, -1, {}, {})
    session.failed()
    assert session.final_request() is None
