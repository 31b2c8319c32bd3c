"""Consumer groups: silence, leaving, static members (modern-groups 18, scenarios 34 to 53)."""

import pytest

from kohort.groups.causes import RevocationTimedOut, SessionExpired, TopicsDiffer
from kohort.groups.commands import DeleteGroups, GroupConfigured, ListGroups
from kohort.groups.consumer.events import ConsumerGroupStored
from kohort.groups.consumer.timers import DelayedRevocation
from kohort.model.errors import ErrorCode
from kohort.sim.consumers import Beat, ConsumerScenario


def two_members() -> ConsumerScenario:
    group = ConsumerScenario(t=2)
    group.join("a")
    group.join("b")
    group.settle()
    return group


def revoking() -> ConsumerScenario:
    """A has to give up t-1."""
    group = ConsumerScenario(t=2)
    group.join("a")
    group.join("b")
    group.beat("a")
    return group


def static() -> ConsumerScenario:
    """Static member m1 of instance i1 has everything, at epoch 1."""
    group = ConsumerScenario(t=2, u=1)
    group.join("m1", instance="i1")
    return group


def test_a_silent_member_goes() -> None:
    """Modern scenario 34. Given no heartbeat for the session timeout, then the member is removed, the epoch
    grows, and the group is Assigning until another member heartbeats.
    Modern trap 4. No timer computes a target: only a heartbeat does."""
    group = two_members()
    group.sleep(30_000)
    group.beat("a")
    group.sleep(15_001)
    assert list(group.group.members) == ["a"]
    assert (group.group.epoch, group.group.state_name) == (3, "Assigning")
    assert group.beat("a").assignment == {"t": [0, 1]}
    assert any(isinstance(event.cause, SessionExpired) for event in group.node.events)


def test_a_member_that_does_not_revoke_goes() -> None:
    """Modern scenario 35. Given a revocation for the whole rebalance timeout while heartbeating, then the
    member is removed, its next heartbeat gets UNKNOWN_MEMBER_ID, and its partitions are free."""
    group = revoking()
    for _ in range(3):
        group.beat("a", owned={"t": [0, 1]})
        group.beat("b")
        group.sleep(20_001)
    assert group.beat("a").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.beat("b").assignment == {"t": [0, 1]}
    assert any(isinstance(event.cause, RevocationTimedOut) for event in group.node.events)


def test_an_acknowledgement_in_time_ends_the_timer() -> None:
    """Modern scenario 36. Given the acknowledgement arrives just in time, then the timer is void."""
    group = revoking()
    group.sleep(30_000)
    group.beat("a")
    group.sleep(29_999)
    group.acknowledge("a")
    assert not [each for each in group.node.shard.state.rebalances if isinstance(each, DelayedRevocation)]


def test_timers_start_again_after_a_restart() -> None:
    """Modern scenario 37. Given a restart, then sessions start at full length, and a member that revokes has
    its rebalance timeout again."""
    group = revoking()
    group.sleep(44_000)
    group.node.restart()
    assert [each for each in group.node.shard.state.rebalances if isinstance(each, DelayedRevocation)]
    group.sleep(44_999)
    assert len(group.group.members) == 2
    group.sleep(2)
    assert group.group.is_empty


def test_an_empty_group_can_be_deleted() -> None:
    """Modern scenario 38. Given the last member expires, then the group is Empty, listed, and deletable.
    Modern scenario 75. DeleteGroups with members gets NON_EMPTY_GROUP; an empty group is tombstoned, and a
    reload shows nothing."""
    group = two_members()
    delete = DeleteGroups(reply_to=group.next_request(), group_ids=(group.group_id,))
    assert group.ask(delete).groups[0].error is ErrorCode.NON_EMPTY_GROUP
    group.sleep(45_001)
    listed = group.ask(ListGroups(reply_to=group.next_request(), types=("Consumer",))).groups
    assert [(each.group_id, each.state, each.type) for each in listed] == [("g", "Empty", "consumer")]
    delete = DeleteGroups(reply_to=group.next_request(), group_ids=(group.group_id,))
    assert group.ask(delete).groups[0].error is ErrorCode.NONE
    group.node.restart()
    assert not group.node.shard.state.groups


def test_a_group_has_its_own_session_timeout() -> None:
    """Modern scenario 39. Given group config consumer.session.timeout.ms = 50000, then it counts from the
    next heartbeat on."""
    group = two_members()
    group.node.handle(GroupConfigured(group.group_id, session_timeout_ms=50_000, heartbeat_interval_ms=7_000))
    assert group.beat("a").interval == 7_000
    group.sleep(49_999)
    assert list(group.group.members) == ["a"]
    group.sleep(2)
    assert group.group.is_empty


def test_leaving() -> None:
    """Modern scenario 40. Given -1 from a dynamic member, then epoch -1, tombstones 8, 7, 5 and one more
    epoch; an unknown member and a missing group get their errors."""
    group = ConsumerScenario(t=2)
    assert group.beat("a", epoch=-1).error is ErrorCode.GROUP_ID_NOT_FOUND
    group = two_members()
    log = len(group.node.log)
    assert group.beat("a", epoch=-1) == Beat(ErrorCode.NONE, "a", -1, 0, None)
    assert (group.written(log), group.group.epoch) == (["8t", "7t", "5t", "3"], 3)
    assert group.beat("x", epoch=-1).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_comes_back() -> None:
    """Modern scenario 41. Given static m1 sends -2, then epoch -2, a record 8, and no other group epoch.
    Modern scenario 42. When m2 joins with i1 and the same names, then the same partitions, the same group
    epoch, and m1 is gone."""
    group = static()
    log = len(group.node.log)
    assert group.beat("m1", epoch=-2, instance="i1") == Beat(ErrorCode.NONE, "m1", -2, 0, None)
    assert (group.written(log), group.group.epoch) == (["8"], 1)
    beat = group.join("m2", instance="i1")
    assert (beat.epoch, beat.assignment) == (1, {"t": [0, 1]})
    assert group.written(log + 1) == ["8t", "7t", "5t", "5", "7", "8", "5", "8"]
    assert (list(group.group.members), group.group.epoch) == (["m2"], 1)


def test_a_static_member_comes_back_with_other_topics() -> None:
    """Modern scenario 43. Given 41, when m2 joins with i1 and other names, then a new epoch and target."""
    group = static()
    group.beat("m1", epoch=-2, instance="i1")
    beat = group.join("m2", instance="i1", names=["u"])
    assert (beat.epoch, beat.assignment, group.group.epoch) == (2, {"u": [0]}, 2)


def test_a_static_member_that_stays_away_goes() -> None:
    """Modern scenario 44. Given 41 and the session timeout passes, then it is removed with a new epoch.
    Modern trap 8. The session counts from the last heartbeat, not from the -2."""
    group = static()
    group.sleep(44_000)
    group.beat("m1", epoch=-2, instance="i1")
    group.sleep(1_001)
    assert (group.group.is_empty, group.group.epoch) == (True, 2)


def test_an_instance_id_is_used_once() -> None:
    """Modern scenario 45. Given m1 is active with i1, when m2 joins with i1, or m1 again, then
    UNRELEASED_INSTANCE_ID.
    Modern scenario 46. Given i1 is owned by m2, when m1 heartbeats or leaves with i1, then
    FENCED_INSTANCE_ID."""
    group = static()
    assert group.join("m2", instance="i1").error is ErrorCode.UNRELEASED_INSTANCE_ID
    assert group.join("m1", instance="i1").error is ErrorCode.UNRELEASED_INSTANCE_ID
    group.beat("m1", epoch=-2, instance="i1")
    group.join("m2", instance="i1")
    assert group.beat("m1", epoch=1, instance="i1").error is ErrorCode.FENCED_INSTANCE_ID
    assert group.beat("m1", epoch=-1, instance="i1").error is ErrorCode.FENCED_INSTANCE_ID
    assert group.beat("m1", epoch=1, instance="i9").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_crashed_blocks_its_instance_id_until_its_session_ends() -> None:
    """Modern trap 7. Given no -2 came before, then the instance id is in use until the session timeout."""
    group = static()
    group.sleep(44_999)
    assert group.join("m2", instance="i1").error is ErrorCode.UNRELEASED_INSTANCE_ID
    group.sleep(2)
    beat = group.join("m2", instance="i1")
    assert (beat.error, beat.epoch, beat.assignment) == (ErrorCode.NONE, 3, {"t": [0, 1]})


def test_leaving_for_a_while_releases_what_was_to_be_revoked() -> None:
    """Modern scenario 47. Given -2 while revoking, then what was pending is free, and the rest is kept.
    Modern scenario 48. Given -1 with i1 from its owner, then the instance id is free."""
    group = ConsumerScenario(t=2)
    group.join("m1", instance="i1")
    group.join("b")
    group.beat("m1")
    group.beat("m1", epoch=-2, instance="i1")
    assert (group.pending("m1"), group.assigned("m1")) == ({}, {"t": [0]})
    assert group.beat("b").assignment == {"t": [1]}
    group.beat("m1", epoch=-1, instance="i1")
    assert group.join("m3", instance="i1").error is ErrorCode.NONE


def test_a_topic_that_grows_raises_the_epoch() -> None:
    """Modern scenario 49. Given a subscribed topic grows, then the next heartbeat bumps the epoch;
    without heartbeats nothing happens."""
    group = two_members()
    group.node.put_topic("t", 3)
    group.node.put_topic("other", 3)
    assert group.group.epoch == 2
    group.beat("b")
    assert group.group.epoch == 3
    bumped = [event for event in group.node.events if isinstance(event, ConsumerGroupStored)]
    assert isinstance(bumped[-1].cause, TopicsDiffer)


def test_a_deleted_topic_is_taken_away() -> None:
    """Modern scenario 50. Given a subscribed topic is deleted, then the epoch grows, and members lose it."""
    group = two_members()
    group.node.delete_topic("t")
    group.beat("a", owned={})
    group.beat("b", owned={})
    assert (group.group.epoch, group.assigned("a"), group.assigned("b")) == (3, {}, {})


@pytest.mark.parametrize(
    ("change", "written"),
    [
        ({"names": ["u", "t", "t"]}, []),
        ({"host": "/10.0.0.7"}, ["5"]),
        ({"assignor": "range"}, ["5"]),
        ({"rack": "r"}, ["5"]),
        ({"timeout": 1_000}, ["5"]),
    ],
)
def test_what_does_not_raise_the_epoch(change: dict[str, object], written: list[str]) -> None:
    """Modern scenario 51. Given names in another order or twice, then no bump and no record.
    Modern scenario 52. Given only the client host changed, then a record 5 and no bump.
    Modern scenario 53. Given only the assignor changed, then a record 5 and no bump."""
    group = ConsumerScenario(t=2, u=1)
    group.join("a", names=["t", "u"])
    log = len(group.node.log)
    assert group.beat("a", **change).epoch == 1  # type: ignore[arg-type]  # options of a heartbeat
    assert group.written(log) == written


def test_an_instance_id_that_its_member_gave_up_is_free() -> None:
    group = ConsumerScenario(t=2)
    group.join("m1", instance="i1")
    group.join("m1", instance="i2")
    group.beat("m1", epoch=-1, instance="i2")
    assert group.join("m2", instance="i1").error is ErrorCode.NONE
    assert dict(group.group.instances) == {"i1": "m2"}
