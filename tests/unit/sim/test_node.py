"""A shell without sockets and disks."""

import pytest

from kohort.coordination.positions import Reply
from kohort.groups.commands import CommitOffsets, CommitRow, FetchOffsets
from kohort.groups.settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId, Partition, ReplyTo, TopicName
from kohort.sim.node import SimulatedNode


def commit(number: int) -> CommitOffsets:
    row = CommitRow(TopicName("t"), Partition(0), number)
    return CommitOffsets(reply_to=ReplyTo(number), group_id=GroupId("g"), rows=(row,))


def test_what_is_stored_survives_a_restart_and_nothing_else() -> None:
    node = SimulatedNode(GroupSettings())
    node.handle(commit(1))
    node.hold_appends()
    node.handle(commit(2))
    node.restart()
    assert len(node.log) == 1
    assert list(node.replies) == [1]
    fetch = FetchOffsets(reply_to=ReplyTo(3), group_id=GroupId("g"))
    node.handle(fetch)
    assert node.replies[ReplyTo(3)].rows[0].offset == 1


def test_a_slow_log_writes_one_batch_at_a_time() -> None:
    node = SimulatedNode(GroupSettings())
    node.hold_appends()
    for number in (1, 2, 3):
        node.handle(commit(number))
    node.release_appends(1)
    assert list(node.replies) == [1]
    node.release_appends(1)
    assert list(node.replies) == [1, 2]
    node.release_appends()
    assert list(node.replies) == [1, 2, 3]
    assert [record.offset for record in node.log] == [0, 1, 2]


def test_a_refused_batch_is_not_in_the_log() -> None:
    node = SimulatedNode(GroupSettings())
    node.fail_next_append(ErrorCode.NOT_ENOUGH_REPLICAS)
    node.handle(commit(1))
    node.handle(commit(2))
    assert len(node.log) == 1
    assert node.replies[ReplyTo(1)].rows[0].error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_second_answer_is_noticed() -> None:
    node = SimulatedNode(GroupSettings())
    node.handle(commit(1))
    with pytest.raises(AssertionError, match="request 1 is answered twice"):
        node.handle(commit(1))
    assert node.sent == [Reply(ReplyTo(1), node.replies[ReplyTo(1)], 1)]


def test_timers_without_end_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kohort.sim.node._MOST_TIMERS", 3)
    node = SimulatedNode(GroupSettings(offsets_retention_check_interval_ms=1))
    with pytest.raises(AssertionError, match="without end"):
        node.sleep(100)
