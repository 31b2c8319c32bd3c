"""Groups change their kind, both ways (modern-groups 18, scenarios 76 to 84)."""

import pytest
from tests.scenario.groups.consumer.mixed import Mixed, T, partitions, share

from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import (
    CommitOffsets,
    CommitRow,
    FetchOffsets,
    Leave,
    Leaver,
    Sync,
)
from kohort.groups.consumer.timers import DelayedClassicRequest
from kohort.groups.replies import JoinReply, SyncReply
from kohort.groups.settings import GroupSettings, MigrationPolicy
from kohort.model.errors import ErrorCode
from kohort.model.ids import Generation, MemberId, Partition


def classic_pair(policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL) -> tuple[Mixed, str, str]:
    """A stable classic group of two members, in generation 1, that share four partitions."""
    group = Mixed(GroupSettings(consumer_migration_policy=policy), t=4)
    joins = [group.send_join("") for _ in range(2)]
    group.node.sleep(6_000)
    one, two = (group.node.replies[each].member_id for each in joins)
    assert partitions(group.sync(one, 1, {one: [0, 1], two: [2, 3]})) == [0, 1]
    assert partitions(group.sync(two, 1)) == [2, 3]
    return group, one, two


def upgraded() -> tuple[Mixed, str, str]:
    group, one, two = classic_pair()
    assert group.join("new").epoch == 2
    return group, one, two


def test_a_stable_classic_group_becomes_a_consumer_group() -> None:
    """Modern scenario 76. Given a stable classic group with two members, when a consumer-protocol member
    joins, then the type is consumer, the epoch grows by one, and classic heartbeats get
    REBALANCE_IN_PROGRESS."""
    group, one, two = classic_pair()
    log = len(group.node.log)
    beat = group.join("new")
    assert (beat.epoch, beat.assignment) == (2, {})
    converted = ["2t", "5", "5", "3", "7", "7", "6", "8", "8"]
    assert group.written(log)[: len(converted)] == converted
    assert group.group.epoch == 2
    assert {group.classic_beat(each, 1) for each in (one, two)} == {ErrorCode.REBALANCE_IN_PROGRESS}
    group.node.restart()
    assert group.member(one).is_classic
    assert group.beat("new").error is ErrorCode.NONE


def test_classic_members_are_served_at_once() -> None:
    """Modern scenario 77. Given 76, a classic member's JoinGroup is answered at once with its epoch, and
    SyncGroup returns what it has; when all have given up what they must, everyone has its share."""
    group, one, two = upgraded()
    for name, owned in ((one, [0, 1]), (two, [2, 3])):
        first = group.classic_join(name, owned)
        assert first.error is ErrorCode.NONE
        assert (first.leader, first.members, first.protocol_type) == ("", (), "consumer")
        kept = partitions(group.sync(name, first.generation))
        if first.generation == 1:
            assert group.classic_beat(name, 1) is ErrorCode.REBALANCE_IN_PROGRESS
            again = group.classic_join(name, kept)
            assert again.generation == 2
            assert partitions(group.sync(name, 2)) == kept
        assert group.classic_beat(name, 2) is ErrorCode.NONE
    group.beat("new")
    owned_by = {each: group.assigned(each)["t"] for each in (one, two, "new")}
    assert sorted(number for numbers in owned_by.values() for number in numbers) == [0, 1, 2, 3]
    assert group.group.state_name == "Stable"


def test_classic_members_that_wait_are_sent_back_to_join_when_the_group_is_upgraded() -> None:
    """Modern-groups 14. Given a member that waits in JoinGroup, and then one that waits in SyncGroup, when a
    consumer-protocol member joins, then each is answered REBALANCE_IN_PROGRESS at once, and is a member."""
    group, one, two = classic_pair()
    waiting = group.send_join(one)
    group.join("new")
    assert group.node.replies[waiting] == JoinReply(
        error=ErrorCode.REBALANCE_IN_PROGRESS, member_id=MemberId(one)
    )
    assert set(group.group.members) == {one, two, "new"}

    group, one, two = classic_pair()
    joins = {each: group.send_join(each) for each in (one, two)}
    generation = group.node.replies[joins[one]].generation
    follower = two if group.node.replies[joins[one]].leader == one else one
    waiting = group.send_sync(follower, generation)
    assert waiting not in group.node.replies
    group.join("new")
    assert group.node.replies[waiting] == SyncReply(error=ErrorCode.REBALANCE_IN_PROGRESS)
    assert set(group.group.members) == {one, two, "new"}


def test_a_member_that_waits_with_another_protocol_forbids_no_upgrade() -> None:
    """Given a group whose protocol is "a", and a member that waits with "b" only, when a consumer-protocol
    member joins, then both are members of the consumer group."""
    group = Mixed(t=4)
    first = group.send_join("", "a", "b")
    group.node.sleep(3_000)
    one = group.node.replies[first].member_id
    assert group.node.replies[first].protocol_name == "a"
    waiting = group.send_join("", "b")
    assert waiting not in group.node.replies
    assert group.join("new").error is ErrorCode.NONE
    assert len(group.group.members) == 3
    assert one in group.group.members


def test_no_timer_of_the_consumer_group_is_left_when_it_is_classic_again() -> None:
    """Modern-groups 14. Given classic members that were asked to join again, when the last consumer-protocol
    member leaves, then they have as long as the classic protocol gives them."""
    group, one, two = upgraded()
    for each in (one, two):
        group.classic_beat(each, 1)
    assert [each for each in group.node.shard.state.rebalances if isinstance(each, DelayedClassicRequest)]
    group.beat("new", epoch=-1)
    assert group.phase is Phase.PREPARING_REBALANCE
    rebalances = group.node.shard.state.rebalances
    assert not [each for each in rebalances if isinstance(each, DelayedClassicRequest)]


@pytest.mark.parametrize("policy", [MigrationPolicy.DOWNGRADE, MigrationPolicy.DISABLED])
def test_an_upgrade_can_be_forbidden(policy: MigrationPolicy) -> None:
    """Modern scenario 78. Given a policy without upgrade, then GROUP_ID_NOT_FOUND, and the classic group is
    untouched."""
    group, one, _ = classic_pair(policy)
    assert group.join("new").error is ErrorCode.GROUP_ID_NOT_FOUND
    assert group.classic_beat(one, 1) is ErrorCode.NONE
    assert group.phase is Phase.STABLE


def test_a_custom_assignor_forbids_an_upgrade() -> None:
    """User data in an assignment is what only a custom assignor understands."""
    group = Mixed(t=1)
    joined = group.classic_join("")
    request = Sync(
        reply_to=group.next_request(),
        group_id=group.group_id,
        member_id=joined.member_id,
        generation=joined.generation,
        assignments=((joined.member_id, share([0], b"mine")),),
        version=3,
    )
    assert group.ask(request).error is ErrorCode.NONE
    assert group.join("new").error is ErrorCode.GROUP_ID_NOT_FOUND
    assert group.phase is Phase.STABLE


def test_the_last_consumer_member_leaves() -> None:
    """Modern scenario 79. Given one consumer-protocol and two classic members, when the former leaves, then
    a classic group with the last group epoch as its generation, and a rebalance starts."""
    group, one, two = upgraded()
    log = len(group.node.log)
    assert group.beat("new", epoch=-1).epoch == -1
    classic = group.node.shard.group(group.group_id)
    assert classic is not None
    assert (classic.generation, classic.phase, sorted(classic.members)) == (
        2,
        Phase.PREPARING_REBALANCE,
        sorted((one, two)),
    )
    assert group.written(log)[-3:] == ["4t", "3t", "2"]
    assert group.classic_beat(one, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    group.node.restart()
    assert group.phase is Phase.STABLE


def test_a_downgrade_can_be_forbidden() -> None:
    """Modern scenario 80. Given policy upgrade in 79, then it stays a consumer group, and classic members
    keep working."""
    group, one, two = classic_pair(MigrationPolicy.UPGRADE)
    group.join("new")
    group.beat("new", epoch=-1)
    assert group.group.epoch == 3
    joined = group.classic_join(one, [0, 1])
    assert joined.error is ErrorCode.NONE
    assert two in group.group.members


def test_a_static_member_goes_back_to_the_classic_protocol() -> None:
    """Modern scenario 81. Given a classic JoinGroup with the instance of the only consumer-protocol member,
    then it is replaced, and the group is a classic one, in one step."""
    group = Mixed(t=2)
    group.join("m1", instance="i1")
    joined = group.classic_join("", instance="i1")
    assert (joined.error, joined.generation) == (ErrorCode.NONE, 1)
    assert group.phase is Phase.STABLE
    assert partitions(group.sync(joined.member_id, 1)) == [0, 1]


def test_a_static_member_goes_back_with_another_subscription() -> None:
    """Modern-groups 14.3. Given that it also subscribes to other topics, then the classic group rebalances,
    and the member gets the generation that it rebalances from."""
    group = Mixed(t=2, other=1)
    group.join("m1", instance="i1", names=["other"])
    joined = group.classic_join("", instance="i1")
    assert (joined.error, joined.generation) == (ErrorCode.NONE, 2)
    assert group.phase is Phase.PREPARING_REBALANCE
    assert group.classic_beat(joined.member_id, 2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_other_protocols_do_not_mix() -> None:
    """Modern scenario 82. Given JoinGroup with protocol type connect, or without a common protocol, then
    INCONSISTENT_GROUP_PROTOCOL."""
    group, _, _ = upgraded()
    for wrong in ({"protocol_type": "connect"}, {"protocol": "other"}):
        assert group.classic_join("", **wrong).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL  # type: ignore[arg-type]  # one of two options


def test_only_classic_members_synchronise() -> None:
    """Modern scenario 83. Given SyncGroup with an old generation, then ILLEGAL_GENERATION; from a
    consumer-protocol member, UNKNOWN_MEMBER_ID."""
    group, one, _ = upgraded()
    assert group.sync(one, 9).error is ErrorCode.ILLEGAL_GENERATION
    assert group.sync("new", 2).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.classic_beat("new", 2) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("policy", MigrationPolicy)
def test_an_empty_consumer_group_becomes_classic(policy: MigrationPolicy) -> None:
    """Modern scenario 84. Given an empty consumer group, when a classic member joins, then tombstones, a
    classic group, and the offsets stay, whatever the policy, also after a restart."""
    group = Mixed(GroupSettings(consumer_migration_policy=policy), t=2)
    group.join("a")
    commit = CommitOffsets(
        reply_to=group.next_request(),
        group_id=group.group_id,
        rows=(CommitRow(T, Partition(0), 7),),
        generation=Generation(1),
        member_id=MemberId("a"),
    )
    assert group.ask(commit).rows[0].error is ErrorCode.NONE
    group.beat("a", epoch=-1)
    assert group.classic_join("").error is ErrorCode.NONE
    for _ in range(2):
        fetched = group.ask(FetchOffsets(reply_to=group.next_request(), group_id=group.group_id))
        assert [row.offset for row in fetched.rows] == [7]
        group.node.restart()


@pytest.mark.parametrize("policy", list(MigrationPolicy))
def test_a_classic_member_joins_a_consumer_group_whatever_the_policy(policy: MigrationPolicy) -> None:
    """Modern-groups 14.2: the policy is about groups that change their kind."""
    group = Mixed(GroupSettings(consumer_migration_policy=policy), t=2)
    group.join("a")
    assert group.classic_join("").error is ErrorCode.NONE
    assert len(group.group.members) == 2


def test_a_join_with_an_unknown_id_leaves_an_empty_consumer_group_as_it_is() -> None:
    group = Mixed(t=2)
    group.join("a")
    group.beat("a", epoch=-1)
    log = len(group.node.log)
    assert group.classic_join("x").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.beat("a", epoch=-1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert len(group.node.log) == log
    assert group.join("a").epoch == 3


def test_a_classic_member_that_does_not_follow_goes() -> None:
    """A classic member that was told to join and does not is removed after its rebalance timeout."""
    group, one, two = upgraded()
    for _ in range(5):
        group.classic_beat(one, 1)
        group.beat("new")
        group.sleep(7_000)
    assert set(group.group.members) == {"new"}
    assert two not in group.group.members


def test_leave_group_works_for_both_kinds() -> None:
    """LeaveGroup of a classic and a consumer-protocol member costs one group epoch."""
    group, one, _ = upgraded()
    leavers = (Leaver(MemberId(one)), Leaver(MemberId("x")))
    left = group.ask(Leave(reply_to=group.next_request(), group_id=group.group_id, leavers=leavers))
    assert [each.error for each in left.members] == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert group.group.epoch == 3


def test_a_classic_member_that_names_a_protocol_twice_is_refused() -> None:
    """As by a classic group: the vote of a downgrade could not count such a member."""
    group = Mixed(t=2)
    group.join("a")
    assert group.classic_join("", times=2).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert list(group.group.members) == ["a"]


def test_a_member_id_that_no_record_can_hold_is_refused() -> None:
    group = Mixed(t=2)
    group.join("a")
    assert group.classic_join("m" * 40_000, version=6).error is ErrorCode.INVALID_REQUEST
    assert list(group.group.members) == ["a"]


def test_an_instance_id_that_a_classic_group_could_not_store_is_refused() -> None:
    """A consumer group could; but the member may be one of a classic group after a downgrade."""
    group = Mixed(t=2)
    assert group.join("a", instance="i" * 40_000).error is ErrorCode.INVALID_REQUEST
