"""Consumer groups: expressions, assignors, offsets, descriptions (modern-groups 18, scenarios 54 to 75)."""

import pytest

from kohort.groups.commands import (
    CommitOffsets,
    CommitRow,
    DeleteOffsets,
    DescribeConsumerGroup,
    DescribeGroup,
    FetchOffsets,
    ListGroups,
)
from kohort.groups.settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.model.ids import Generation, MemberId, Partition, TopicName
from kohort.sim.consumers import ConsumerScenario


def test_an_expression_is_resolved_beside_the_heartbeat() -> None:
    """Modern scenario 54. Given a join with `foo.*` on a new group, then epoch 1 and nothing; after the
    resolution a record 16 and epoch 2; the next heartbeat assigns foo and foobar, not xfoo.
    Modern scenario 57. Given a second member with the same expression, then the epoch grows at once."""
    group = ConsumerScenario(foo=1, foobar=1, xfoo=1)
    first = group.join("a", expression="foo.*")
    assert (first.epoch, first.assignment) == (1, {})
    log = len(group.node.log)
    group.resolve()
    assert (group.written(log), group.group.epoch) == (["16", "3"], 2)
    assert group.beat("a").assignment == {"foo": [0], "foobar": [0]}
    assert group.join("b", expression="foo.*").epoch == 3


def test_a_wrong_expression_creates_nothing() -> None:
    """Modern scenario 55. Given `a(`, then INVALID_REGULAR_EXPRESSION, and nothing is created.
    Modern scenario 56. Given a look-ahead, likewise: the broker says that it does not compile."""
    group = ConsumerScenario(t=1)
    beat = group.join("a", expression="a(", expression_error="missing )")
    assert beat.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert not group.node.shard.state.groups


def test_new_topics_are_matched_after_a_while() -> None:
    """Modern scenario 58. Given a topic created more than 10 s after the last resolution, then the next
    heartbeat starts a refresh, and a later one sees it."""
    group = ConsumerScenario(foo=1)
    group.join("a", expression="foo.*")
    group.resolve()
    group.beat("a")
    group.node.put_topic("foo2", 1)
    group.beat("a")
    assert not group.node.effects
    group.sleep(10_001)
    group.beat("a")
    group.resolve()
    assert group.beat("a").assignment == {"foo": [0], "foo2": [0]}


@pytest.mark.parametrize("hours", [-12, 12])
def test_new_topics_are_matched_by_a_coordinator_with_another_clock(hours: int) -> None:
    """Nodes of a cluster have clocks of their own, and what was matched last has the time of its node."""
    group = ConsumerScenario(foo=1)
    group.join("a", expression="foo.*")
    group.resolve()
    group.beat("a")
    group.node.clock.ahead_ms = hours * 3_600_000
    group.node.restart()
    group.node.put_topic("foo2", 1)
    group.beat("a")
    group.resolve()
    assert group.beat("a").assignment == {"foo": [0], "foo2": [0]}
    group.beat("a")
    assert not group.node.effects, "what this node has matched has its own time"


def test_an_expression_is_given_up() -> None:
    """Modern scenario 60. Given names [x] and `y.*` on one member, then both are assigned.
    Modern scenario 59. Given the expression "" then, a tombstone of type 16, a new epoch, and x alone."""
    group = ConsumerScenario(x=1, y1=1)
    group.join("a", names=["x"], expression="y.*")
    group.resolve()
    assert group.beat("a").assignment == {"x": [0], "y1": [0]}
    log = len(group.node.log)
    group.beat("a", names=["x"], expression="")
    assert group.written(log)[:3] == ["5", "16t", "3"]
    assert group.acknowledge("a").error is ErrorCode.NONE
    assert group.assigned("a") == {"x": [0]}


def test_the_assignor_of_the_majority_counts() -> None:
    """Modern scenario 66. Two members vote range, one uniform: range; none, or a tie: uniform."""
    group = ConsumerScenario(t=2)
    group.join("a")
    assert group.group.preferred_assignor(("uniform", "range")) == "uniform"
    group.join("b", assignor="range")
    group.join("c", assignor="range")
    group.join("d", assignor="uniform")
    assert group.group.preferred_assignor(("uniform", "range")) == "range"
    group.join("e", assignor="uniform")
    assert group.group.preferred_assignor(("uniform", "range")) == "uniform"


def test_surplus_members_are_stable_without_partitions() -> None:
    """Modern scenario 67. Given more members than partitions, then the surplus is stable with nothing."""
    group = ConsumerScenario(t=1)
    for name in "abc":
        group.join(name)
    group.settle()
    assert sorted(len(group.assigned(name)) for name in "abc") == [0, 0, 1]


@pytest.mark.parametrize(
    ("member", "epoch", "version", "error"),
    [
        ("a", 1, 9, ErrorCode.NONE),
        ("a", 0, 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 2, 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 1, 8, ErrorCode.UNSUPPORTED_VERSION),
        ("x", 1, 9, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, 9, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_commits_have_the_epoch_of_the_member(
    member: str, epoch: int, version: int, error: ErrorCode
) -> None:
    """Modern scenario 68. Given another epoch than the member's, then STALE_MEMBER_EPOCH; v8 gets
    UNSUPPORTED_VERSION.
    Offsets scenario 15. The same."""
    group = ConsumerScenario(t=1)
    group.join("a")
    assert _commit(group, member, epoch, version) is error


def test_a_member_that_revokes_commits_with_its_old_epoch() -> None:
    """Modern trap 3. Given a member has to revoke, then its last commits count at the old epoch, until it
    has acknowledged and received the new one."""
    group = ConsumerScenario(t=2)
    group.join("a")
    group.join("b")
    told = group.beat("a")
    assert (told.epoch, group.group.epoch, group.pending("a")) == (1, 2, {"t": [1]})
    assert _commit(group, "a", 1, 9) is ErrorCode.NONE
    assert _commit(group, "a", 2, 9) is ErrorCode.STALE_MEMBER_EPOCH
    assert group.acknowledge("a").epoch == 2
    assert _commit(group, "a", 1, 9) is ErrorCode.STALE_MEMBER_EPOCH
    assert _commit(group, "a", 2, 9) is ErrorCode.NONE


def test_an_administrator_commits_to_an_empty_group() -> None:
    """Modern scenario 70. Given the group is Empty, an admin commit with epoch -1 is accepted; with members
    it gets UNKNOWN_MEMBER_ID."""
    group = ConsumerScenario(t=1)
    group.join("a")
    assert _commit(group, "", -1, 9) is ErrorCode.UNKNOWN_MEMBER_ID
    group.beat("a", epoch=-1)
    assert _commit(group, "", -1, 9) is ErrorCode.NONE


def test_offsets_expire_by_their_own_age() -> None:
    """Offsets scenario 20. Given a consumer group emptied at T with its last commit at T - 6 d, and 7 d
    retention, then the offsets expire at T + 1 d, and the group with them."""
    day = 24 * 60 * 60 * 1_000
    group = ConsumerScenario(GroupSettings(consumer_session_timeout_ms=6 * day), t=1)
    group.join("a")
    assert _commit(group, "a", 1, 9) is ErrorCode.NONE
    group.sleep(6 * day)
    assert group.group.is_empty
    group.sleep(day - 600_000)
    assert group.node.shard.state.offsets.partitions(group.group_id)
    group.sleep(2 * 600_000)
    assert not group.node.shard.state.offsets.partitions(group.group_id)
    assert not group.node.shard.state.groups


def test_a_group_with_members_does_not_expire() -> None:
    """Modern trap 6. Given a member whose group has no offset left, or never had one, then the group stays
    as long as the member does; a member that joins is never refused for want of a group."""
    day = 24 * 60 * 60 * 1_000
    group = ConsumerScenario(GroupSettings(consumer_session_timeout_ms=30 * day), t=1, u=1)
    group.join("a", names=["u"])
    assert _commit(group, "a", 1, 9) is ErrorCode.NONE  # of t, which it does not subscribe to
    group.sleep(8 * day)
    assert not group.node.shard.state.offsets.partitions(group.group_id)
    group.sleep(8 * day)
    assert group.beat("a").error is ErrorCode.NONE
    group.beat("a", epoch=-1)
    group.sleep(600_000)
    assert not group.node.shard.state.groups
    assert group.join("a").epoch == 1


def test_what_an_expression_matches_is_subscribed_to() -> None:
    """Modern trap 10. Given a topic that only an expression matches, then its offsets cannot be deleted, and
    do not expire; when the expression is given up, they can and they do."""
    day = 24 * 60 * 60 * 1_000
    group = ConsumerScenario(GroupSettings(consumer_session_timeout_ms=30 * day), t=1, x=1)
    group.join("a", names=["x"], expression="t.*")
    assert not group.group.is_subscribed_to(TopicName("t"))  # there is no record 16 yet
    group.resolve()
    group.beat("a")
    assert _commit(group, "a", 2, 9) is ErrorCode.NONE
    assert _delete_offset(group) is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    group.sleep(8 * day)
    assert group.node.shard.state.offsets.partitions(group.group_id)
    group.beat("a", names=["x"], expression="")
    assert group.acknowledge("a").epoch == 3
    group.sleep(600_000)
    assert not group.node.shard.state.offsets.partitions(group.group_id)
    assert _commit(group, "a", 3, 9) is ErrorCode.NONE
    assert _delete_offset(group) is ErrorCode.NONE
    assert not group.node.shard.state.offsets.partitions(group.group_id)


def _delete_offset(group: ConsumerScenario) -> ErrorCode:
    delete = DeleteOffsets(
        reply_to=group.next_request(),
        group_id=group.group_id,
        partitions=((TopicName("t"), Partition(0)),),
    )
    error = group.ask(delete).rows[0].error
    assert isinstance(error, ErrorCode)
    return error


def _commit(group: ConsumerScenario, member: str, epoch: int, version: int) -> ErrorCode:
    command = CommitOffsets(
        reply_to=group.next_request(),
        group_id=group.group_id,
        rows=(CommitRow(TopicName("t"), Partition(0), 5),),
        generation=Generation(epoch),
        member_id=MemberId(member),
        version=version,
    )
    error = group.ask(command).rows[0].error
    assert isinstance(error, ErrorCode)
    return error


@pytest.mark.parametrize(
    ("member", "epoch", "error"),
    [
        ("a", 1, ErrorCode.NONE),
        ("a", 7, ErrorCode.STALE_MEMBER_EPOCH),
        ("x", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, -1, ErrorCode.NONE),
    ],
)
def test_fetches_have_the_epoch_of_the_member(member: str | None, epoch: int, error: ErrorCode) -> None:
    """Modern scenario 69. Given a fetch with a wrong epoch, then STALE_MEMBER_EPOCH for the group; an
    administrator's fetch is accepted.
    Offsets scenario 16. Given MemberId "", then UNKNOWN_MEMBER_ID; null with epoch -1 is accepted."""
    group = ConsumerScenario(t=1)
    group.join("a")
    command = FetchOffsets(
        reply_to=group.next_request(),
        group_id=group.group_id,
        member_id=None if member is None else MemberId(member),
        member_epoch=epoch,
    )
    assert group.ask(command).error is error


def test_a_missing_group_has_no_offsets() -> None:
    """A member of a group that does not exist finds no offsets, and no error (offsets-and-log 3)."""
    group = ConsumerScenario(t=1)
    command = FetchOffsets(
        reply_to=group.next_request(), group_id=group.group_id, member_id=MemberId("a"), member_epoch=3
    )
    assert (group.ask(command).error, len(group.node.replies[command.reply_to].rows)) == (ErrorCode.NONE, 0)


@pytest.mark.parametrize(
    ("types", "states", "found"),
    [(("CONSUMER",), ("stable",), 1), (("bogus",), (), 0), (("classic",), (), 0), ((), ("empty",), 0)],
)
def test_consumer_groups_are_listed(types: tuple[str, ...], states: tuple[str, ...], found: int) -> None:
    """Modern scenario 72. ListGroups with types and states shows what has both; unknown types nothing."""
    group = ConsumerScenario(t=1)
    group.join("a")
    listed = group.ask(ListGroups(reply_to=group.next_request(), types=types, states=states)).groups
    assert len(listed) == found


def test_each_description_knows_its_kind() -> None:
    """Modern scenario 73. ConsumerGroupDescribe of a missing group gets GROUP_ID_NOT_FOUND; DescribeGroups v6
    of a consumer group likewise with state Dead, v5 without error."""
    group = ConsumerScenario(t=1)
    ask = DescribeConsumerGroup(reply_to=group.next_request(), group_id=group.group_id)
    assert group.ask(ask).error is ErrorCode.GROUP_ID_NOT_FOUND
    group.join("a")
    for version, error in ((6, ErrorCode.GROUP_ID_NOT_FOUND), (5, ErrorCode.NONE)):
        classic = DescribeGroup(reply_to=group.next_request(), group_id=group.group_id, version=version)
        reply = group.ask(classic)
        assert (reply.error, reply.state) == (error, "Dead")


def test_a_description_shows_both_assignments() -> None:
    """Modern scenario 74. Describe shows target and assignment apart during reconciliation, and a group epoch
    above the assignment epoch while Assigning."""
    group = ConsumerScenario(t=2)
    group.join("a")
    group.join("b")
    described = group.ask(DescribeConsumerGroup(reply_to=group.next_request(), group_id=group.group_id))
    assert (described.state, described.assignor) == ("Reconciling", "uniform")
    members = {member.member_id: member for member in described.members}
    assert [each.partitions for each in members["a"].assignment] == [(0, 1)]
    assert [(each.topic, each.partitions) for each in members["b"].target] == [("t", (1,))]
    assert members["b"].assignment == ()
    group.beat("b", epoch=-1)
    described = group.ask(DescribeConsumerGroup(reply_to=group.next_request(), group_id=group.group_id))
    assert (described.state, described.group_epoch, described.assignment_epoch) == ("Assigning", 3, 2)
