"""Consumer groups: partitions move one member at a time (modern-groups 18, scenarios 21 to 33)."""

from hypothesis import given
from hypothesis import strategies as st

from kohort.groups.consumer.assignment import MemberState, each_partition
from kohort.model.errors import ErrorCode
from kohort.records.group_records import ConsumerGroupCurrentMemberAssignmentKey
from kohort.records.offsets_topic import encode_key
from kohort.sim.consumers import ConsumerScenario


def test_two_members_share_four_partitions() -> None:
    """Modern scenario 21. Given A owns p0 to p3 at epoch 1, when B joins, then B has epoch 2, nothing, and
    waits.
    Modern scenario 22. Then A heartbeats without owned: epoch 1, two partitions, and the group reconciles.
    Modern scenario 23. Then A heartbeats again without owned: no change.
    Modern scenario 25. When B heartbeats before A acknowledges: still nothing.
    Modern scenario 24. Then A reports what it kept: epoch 2; B's next heartbeat brings the others.
    Modern trap 1. A list acknowledges a revocation, null does not."""
    group = ConsumerScenario(t=4)
    group.join("a")
    joined = group.join("b")
    assert (joined.epoch, joined.assignment) == (2, {})
    assert group.member("b").current.state is MemberState.UNRELEASED_PARTITIONS
    told = group.beat("a")
    assert (told.epoch, told.assignment, group.group.state_name) == (1, {"t": [0, 1]}, "Reconciling")
    again = group.beat("a")
    assert (again.epoch, again.assignment) == (1, None)
    assert group.beat("b").assignment is None
    assert group.acknowledge("a").epoch == 2
    assert group.member("a").current.state is MemberState.STABLE
    assert group.beat("b").assignment == {"t": [2, 3]}
    assert group.group.state_name == "Stable"


def test_a_newer_target_is_invisible_until_the_acknowledgement() -> None:
    """Modern scenario 26. Given A has to revoke, when C joins, then A's replies stay; after the
    acknowledgement A goes towards the newest target.
    Modern scenario 27. Given that takes another partition of A, then A stays at its epoch and revokes it."""
    group = ConsumerScenario(t=6)
    group.join("a")
    group.join("b")
    group.beat("a")
    group.join("c")
    assert (group.beat("a").epoch, group.pending("a")) == (1, {"t": [3, 4, 5]})
    group.acknowledge("a")
    assert (group.epochs["a"], group.pending("a")) == (1, {"t": [2]})
    assert group.acknowledge("a").epoch == 3


def test_a_partition_that_comes_back_is_not_blocked_by_its_owner() -> None:
    """Modern scenario 28. Given p1 is pending at A and the new target returns it, when A acknowledges, then
    p1 is assigned again."""
    group = ConsumerScenario(t=2)
    group.join("a")
    group.join("b")
    group.beat("a")
    assert group.pending("a") == {"t": [1]}
    group.beat("b", epoch=-1)
    group.beat("a")
    beat = group.beat("a", owned={"t": [0]})
    assert (beat.epoch, beat.assignment) == (3, {"t": [0, 1]})


def test_who_has_given_up_already_need_not_do_it_again() -> None:
    """Modern scenario 29. Given A reports only what it is to keep, when the target shrinks, then A does not
    stop at the old epoch."""
    group = ConsumerScenario(t=2)
    group.join("a")
    group.join("b")
    assert group.beat("a", owned={"t": [0]}).epoch == 2


def test_free_partitions_are_handed_out_before_blocked_ones() -> None:
    """Modern scenario 30. Given two free and one blocked target partition, then the member gets what is
    free at the target epoch, and the third later without another epoch.
    Modern trap 5. A member has the target epoch before it has all its partitions."""
    group = ConsumerScenario(t=6)
    group.join("a")
    group.join("b")
    group.settle()
    group.join("c")
    assert group.assigned("c") == {}
    group.beat("a")
    group.acknowledge("a")
    first = group.beat("c")
    assert (first.epoch, len(first.assignment["t"] if first.assignment else [])) == (3, 1)
    group.settle()
    assert (group.epochs["c"], len(group.assigned("c")["t"])) == (3, 2)


def test_a_dropped_topic_goes_at_once() -> None:
    """Modern scenario 31. Given a member drops topic u while it owns u-0, then the reply lacks u-0, and it
    must acknowledge before it advances."""
    group = ConsumerScenario(t=1, u=1)
    group.join("a", names=["t", "u"])
    beat = group.beat("a", names=["t"])
    assert (beat.epoch, beat.assignment, group.pending("a")) == (1, {"t": [0]}, {"u": [0]})
    assert group.beat("a", owned={"t": [0]}).epoch == 2


def test_a_state_of_a_newer_broker_is_unknown() -> None:
    """Modern scenario 32. Given a record with state 9 is loaded, when heartbeat with owned partitions, then
    FENCED_MEMBER_EPOCH; with none, it reconciles."""
    group = ConsumerScenario(t=1)
    group.join("a")
    key = encode_key(ConsumerGroupCurrentMemberAssignmentKey("g", "a"))
    index, stored = next((i, r) for i, r in enumerate(group.node.log) if r.key == key)
    assert stored.value is not None
    value = bytearray(stored.value)
    value[10] = 9  # behind the version and two epochs
    group.node.log[index] = stored._replace(value=bytes(value))
    group.node.restart()
    assert group.member("a").current.state is MemberState.UNKNOWN
    assert group.beat("a", owned={"t": [0]}).error is ErrorCode.FENCED_MEMBER_EPOCH
    assert group.beat("a", owned={}).error is ErrorCode.NONE
    assert group.member("a").current.state is MemberState.STABLE


STEPS = st.tuples(
    st.sampled_from("abc"),
    st.sampled_from(["join", "beat", "acknowledge", "leave", "drop", "restart", "grow", "pass"]),
)


@given(st.lists(STEPS, max_size=40))
def test_no_history_gives_a_partition_two_owners(steps: list[tuple[str, str]]) -> None:
    """Modern scenario 33. Given any interleaving of joins, leaves and acknowledgements, then no partition
    ever has two owners, and members that are left alone settle.
    Modern scenario 85. Given a crash between any two operations, then the reload has what was before."""
    group = ConsumerScenario(t=3, u=2)
    for name, step in steps:
        _do(group, name, step)
        _check_owners(group)
    found = group.node.shard.consumer_group(group.group_id)
    if found is not None and found.members:
        group.settle()
        _check_owners(group)
        names = {name for member in group.group.members.values() for name in member.details.names}
        everything = sum(group.node.topics[name].partitions for name in names)
        assert everything == sum(map(len, group.group.owners.values()))


def _do(group: ConsumerScenario, name: str, step: str) -> None:
    found = group.node.shard.consumer_group(group.group_id)
    if step == "join":
        group.join(name, names=["t", "u"])
    elif step == "restart":
        before = _picture(group)
        group.node.restart()
        assert _picture(group) == before
    elif step == "grow":
        group.node.put_topic("t", group.node.topics[next(iter(group.node.topics))].partitions + 1)
    elif step == "pass":
        group.sleep(20_000)
    elif found is not None and name in found.members:
        if step == "beat":
            group.beat(name)
        elif step == "acknowledge":
            group.acknowledge(name)
        elif step == "leave":
            group.beat(name, epoch=-1)
        else:
            group.beat(name, names=["u"])


def _picture(group: ConsumerScenario) -> object:
    found = group.node.shard.consumer_group(group.group_id)
    if found is None:
        return None
    members = {each: (member.details, member.current) for each, member in found.members.items()}
    return found.epoch, found.target_epoch, members, found.targets, found.owners, found.instances


def _check_owners(group: ConsumerScenario) -> None:
    found = group.node.shard.consumer_group(group.group_id)
    seen: dict[object, str] = {}
    for member in found.members.values() if found is not None else ():
        for partitions in (member.current.assigned, member.current.pending_revocation):
            for partition in each_partition(partitions):
                assert seen.setdefault(partition, member.member_id) == member.member_id
                assert found is not None
                assert found.owner(*partition) == member.member_id
