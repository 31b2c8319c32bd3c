"""What the answers of the log lead to."""

import pytest

from kohort.groups.commands import Appended, AppendFailed, CommitOffsets, CommitRow, DescribeGroup
from kohort.groups.settings import GroupSettings
from kohort.groups.settle import map_append_error
from kohort.groups.shard import Shard
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId, Instant, Now, Partition, ReplyTo, TopicName, WallTime

NOW = Now(Instant(0), WallTime(0))


def shard_with_commits(count: int) -> Shard:
    """A shard that has handed ``count`` commits to the log; request n commits offset n."""
    shard = Shard(GroupSettings(), Instant(0))
    shard.finish_load(NOW)
    for number in range(1, count + 1):
        row = CommitRow(TopicName("t"), Partition(0), number)
        command = CommitOffsets(reply_to=ReplyTo(number), group_id=GroupId(f"g{number}"), rows=(row,))
        outcome = shard.handle(command, NOW)
        assert outcome.append is not None
        assert outcome.append.position == number
        assert not outcome.replies
        assert [type(event).__name__ for event in outcome.events] == ["GroupCreated"]
    return shard


@pytest.mark.parametrize(
    ("append", "told"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_FETCH_SIZE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.CORRUPT_MESSAGE, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_errors_of_the_log_are_translated(append: ErrorCode, told: ErrorCode) -> None:
    assert map_append_error(append) is told


def test_a_position_confirms_everything_before_it() -> None:
    shard = shard_with_commits(3)
    outcome = shard.handle(Appended(2), NOW)
    assert [reply.reply_to for reply in outcome.replies] == [1, 2]
    assert [reply.after for reply in outcome.replies] == [1, 2]
    assert [type(event).__name__ for event in outcome.events] == ["OffsetsCommitted"] * 2
    assert list(shard.state.in_flight) == [3]


def test_a_position_that_failed_is_not_confirmed_by_a_later_one() -> None:
    shard = shard_with_commits(2)
    failed = shard.handle(AppendFailed(1, ErrorCode.MESSAGE_TOO_LARGE), NOW)
    assert [reply.reply_to for reply in failed.replies] == [1]
    stored = shard.handle(Appended(2), NOW)
    assert [reply.reply_to for reply in stored.replies] == [2]
    assert list(shard.state.offsets.groups) == ["g2"]


def test_a_report_about_what_is_settled_is_ignored() -> None:
    shard = shard_with_commits(1)
    shard.handle(Appended(1), NOW)
    for report in (Appended(1), AppendFailed(1, ErrorCode.KAFKA_STORAGE_ERROR)):
        outcome = shard.handle(report, NOW)
        assert not outcome.replies
        assert not outcome.events


def test_a_read_names_the_position_it_depends_on() -> None:
    shard = shard_with_commits(2)
    ask = DescribeGroup(reply_to=ReplyTo(9), group_id=GroupId("g1"))
    assert not shard.handle(ask, NOW).replies
    assert all(reply.reply_to != 9 for reply in shard.handle(Appended(1), NOW).replies)
    last = shard.handle(Appended(2), NOW).replies[-1]
    assert (last.reply_to, last.after) == (9, 2)


def test_a_read_that_waits_for_a_later_batch_is_made_again_when_an_earlier_one_fails() -> None:
    shard = shard_with_commits(2)
    shard.handle(DescribeGroup(reply_to=ReplyTo(9), group_id=GroupId("g1"), version=5), NOW)
    shard.handle(AppendFailed(1, ErrorCode.NOT_ENOUGH_REPLICAS), NOW)
    reply = shard.handle(Appended(2), NOW).replies[-1]
    assert reply.reply_to == 9
    assert getattr(reply.body, "state", None) == "Dead"  # the commit that made the group never was
