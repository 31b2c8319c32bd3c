"""One decision is one batch of the log: what does not fit into one is not decided, and nothing breaks.

Kafka appends the records of a decision atomically, and answers UNKNOWN_SERVER_ERROR if the log refuses the
batch for its size. Here it is known before, so that no shard is loaded again for it.
"""

import pytest
from tests.scenario.groups.consumer.mixed import Mixed

from kohort.coordination.outcome import size_at_most
from kohort.groups.commands import ExpressionsResolved, Leave, Leaver, ResolveExpressions
from kohort.groups.replies import LeaveReply
from kohort.groups.settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.model.ids import MemberId, TopicName
from kohort.records.header import HEADER_SIZE


def small(limit: int) -> GroupSettings:
    return GroupSettings(max_batch_bytes=limit, initial_rebalance_delay_ms=0)


@pytest.fixture
def mixed() -> Mixed:
    """A consumer group of ``b`` and a classic member, as large as one batch of 1,500 bytes takes."""
    group = Mixed(small(1_500), t=4)
    joined = group.classic_join("", version=3)
    group.sync(joined.member_id, joined.generation, {joined.member_id: [0, 1, 2, 3]})
    group.join("b")
    return group


def test_a_target_that_is_too_large_is_refused_and_nothing_of_it_is_stored() -> None:
    group = Mixed(small(1_000), t=4)
    group.join("a")
    group.node.put_topic("t", 400)
    before = len(group.node.log)
    assert group.beat("a").error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert (len(group.node.log), group.group.epoch, group.assigned("a")) == (before, 1, {"t": [0, 1, 2, 3]})
    assert group.beat("a").error is ErrorCode.UNKNOWN_SERVER_ERROR  # the topic is looked at again


def test_a_classic_group_that_would_be_too_large_stays_a_consumer_group(mixed: Mixed) -> None:
    (classic,) = (member_id for member_id in mixed.group.members if member_id != "b")
    mixed.node.shard.state.settings = small(300)
    assert mixed.beat("b", epoch=-1).error is ErrorCode.NONE
    assert list(mixed.group.members) == [classic]  # it is a consumer group
    assert mixed.classic_beat(classic, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    mixed.node.shard.state.settings = small(1_500)
    assert mixed.classic_join(classic, owned=[0, 1]).error is ErrorCode.NONE
    assert mixed.node.failures == 0


def test_a_classic_group_that_fits_is_made(mixed: Mixed) -> None:
    mixed.beat("b", epoch=-1)
    assert mixed.node.shard.consumer_group(mixed.group_id) is None


def test_members_whose_leave_is_too_large_stay_and_are_told() -> None:
    group = Mixed(small(1_500), t=1)
    names = [f"member-{number:03}" for number in range(30)]
    for name in names:
        group.join(name, names=[])
    leavers = tuple(Leaver(MemberId(name)) for name in (*names, "nobody"))
    leave = Leave(reply_to=group.next_request(), group_id=group.group_id, leavers=leavers, version=3)
    group.node.handle(leave)
    reply = group.node.replies[leave.reply_to]
    assert isinstance(reply, LeaveReply)
    errors = [each.error for each in reply.members]
    assert errors == [ErrorCode.UNKNOWN_SERVER_ERROR] * 30 + [ErrorCode.UNKNOWN_MEMBER_ID]
    assert sorted(group.group.members) == names
    assert group.beat(names[0], epoch=-1).error is ErrorCode.NONE


def test_topics_that_no_batch_can_hold_are_not_stored_and_matched_again() -> None:
    group = Mixed(small(1_000), t=1)
    group.join("a", expression=".*")
    (asked,) = group.node.effects
    assert isinstance(asked, ResolveExpressions)
    many = tuple(TopicName(f"topic-{number:04}") for number in range(200))
    group.node.effects.clear()
    group.node.handle(ExpressionsResolved(group.group_id, ((".*", many),), 1, asked.started_at))
    assert (group.group.epoch, group.group.expressions, group.node.failures) == (1, {}, 0)
    group.sleep(10_001)
    group.beat("a")
    group.resolve()
    assert group.group.epoch == 2
    assert group.beat("a").assignment == {"t": [0]}


def test_sessions_that_end_together_are_stored_in_batches_that_the_log_takes() -> None:
    group = Mixed(small(2_000), t=1)
    for number in range(60):
        group.join(f"member-{number:03}", names=[])
    group.node.hold_appends()
    group.sleep(45_000)
    sizes = [HEADER_SIZE + size_at_most(append.records) for append in group.node.unsettled]
    assert len(sizes) > 1
    assert max(sizes) <= 2_000
    assert all(append.is_atomic for append in group.node.unsettled)
    group.node.release_appends()
    assert (group.group.is_empty, group.node.failures) == (True, 0)


def test_a_session_whose_end_cannot_be_stored_begins_again() -> None:
    group = Mixed(small(1_000), t=1)
    group.join("a")
    group.node.shard.state.settings = small(100)
    group.sleep(45_000)
    assert (list(group.group.members), group.node.failures) == (["a"], 0)
    group.node.shard.state.settings = small(1_000)
    group.sleep(45_000)
    assert group.group.is_empty
