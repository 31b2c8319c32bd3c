"""OffsetFetch: what the log has."""

import pytest

from kohort.groups.events import OffsetsCommitted
from kohort.groups.offsets.apply import put_transactional_offset
from kohort.groups.offsets.state import TransactionalOffset
from kohort.groups.replies import FetchedOffset, FetchReply
from kohort.model.errors import ErrorCode
from kohort.model.ids import NO_TOPIC_ID, Partition, ProducerId, TopicId, TopicName
from kohort.sim.driver import Scenario

T0, T1 = ("t", 0), ("t", 1)
OLD, NEW = TopicId(bytes(15) + b"\x01"), TopicId(bytes(15) + b"\x02")


def fetched(topic: str, partition: int, *rest: object) -> FetchedOffset:
    return FetchedOffset(TopicName(topic), Partition(partition), *rest)  # type: ignore[arg-type]  # as given


def test_a_group_that_does_not_exist_has_committed_nothing() -> None:
    scenario = Scenario()
    assert scenario.replies[scenario.fetch(T0, T1)] == FetchReply(rows=(fetched("t", 0), fetched("t", 1)))
    assert scenario.replies[scenario.fetch()] == FetchReply()


def test_what_is_asked_for_comes_in_the_order_asked_and_everything_as_stored() -> None:
    scenario = Scenario()
    scenario.commit(None, {T1: 11, T0: 10}, metadata="m", leader_epoch=3)
    assert scenario.replies[scenario.fetch(T0, ("u", 0), T1)].rows == (
        fetched("t", 0, 10, 3, "m"),
        fetched("u", 0),
        fetched("t", 1, 11, 3, "m"),
    )
    assert scenario.replies[scenario.fetch()].rows == (
        fetched("t", 1, 11, 3, "m"),
        fetched("t", 0, 10, 3, "m"),
    )


def test_everything_is_what_was_stored_when_the_fetch_was_decided() -> None:
    scenario = Scenario()
    scenario.commit(None, {T0: 10})
    everything = scenario.replies[scenario.fetch()].rows
    scenario.commit(None, {T0: 11, T1: 1, ("u", 0): 1})
    assert (len(everything), everything) == (1, (fetched("t", 0, 10),))
    assert fetched("t", 0, 10) in everything


def test_a_stable_fetch_waits_for_what_is_on_its_way() -> None:
    scenario = Scenario()
    scenario.hold_appends()
    scenario.commit(None, {T0: 2})
    request = scenario.fetch(T0, require_stable=True)
    assert scenario.is_parked(request)
    scenario.release_appends()
    assert scenario.replies[request].rows == (fetched("t", 0, 2),)
    assert scenario.replies[scenario.fetch(T0, require_stable=True)].rows == (fetched("t", 0, 2),)


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_stable_fetch_fails_with_what_it_waited_for(failure: ErrorCode, error: ErrorCode) -> None:
    scenario = Scenario()
    scenario.hold_appends()
    scenario.commit(None, {T0: 2})
    first = scenario.fetch(T0, require_stable=True)
    scenario.commit(None, {T0: 3})
    second = scenario.fetch(T0, require_stable=True)
    scenario.fail_next_append(failure)
    scenario.release_appends()
    assert scenario.replies[first] == scenario.replies[second] == FetchReply(error=error)


def test_a_stable_fetch_of_another_group_does_not_mind() -> None:
    scenario = Scenario()
    scenario.commit(None, {T0: 7}, group="other")
    scenario.hold_appends()
    scenario.commit(None, {T0: 2})
    first = scenario.fetch(T0, group="other", require_stable=True)
    scenario.commit(None, {T0: 3})
    second = scenario.fetch(T0, group="other", require_stable=True)
    scenario.fail_next_append(ErrorCode.REQUEST_TIMED_OUT)
    scenario.release_appends()
    assert [scenario.replies[each].rows[0].offset for each in (first, second)] == [7, 7]


def test_an_open_transaction_makes_a_partition_unstable() -> None:
    scenario = Scenario()
    scenario.commit(None, {T0: 1, T1: 1})
    address = (scenario.group_id, TopicName("t"), Partition(0))
    row = next(event for event in scenario.events if isinstance(event, OffsetsCommitted)).rows[0]
    table = scenario.shard.state.offsets
    put_transactional_offset(table, ProducerId(9), address, TransactionalOffset(5, row))
    assert scenario.committed() == 1
    assert scenario.replies[scenario.fetch(T0, T1, require_stable=True)].rows == (
        FetchedOffset(TopicName("t"), Partition(0), error=ErrorCode.UNSTABLE_OFFSET_COMMIT),
        fetched("t", 1, 1),
    )


@pytest.mark.parametrize(
    ("stored", "asked", "offset"),
    [(OLD, NEW, -1), (OLD, OLD, 5), (OLD, NO_TOPIC_ID, 5), (NO_TOPIC_ID, NEW, 5)],
)
def test_an_offset_of_a_topic_that_was_made_again_is_none(
    stored: TopicId, asked: TopicId, offset: int
) -> None:
    scenario = Scenario()
    scenario.commit(None, {T0: 5}, topic_id=stored)
    assert scenario.replies[scenario.fetch(T0, topic_id=asked)].rows[0].offset == offset


def test_a_fetch_does_not_keep_the_session() -> None:
    scenario = Scenario.stable(a=10_000)
    scenario.sleep(9_000)
    scenario.fetch(T0)
    scenario.sleep(1_000)
    assert not scenario.group.members
