"""The shell computes the targets of large groups: what happens meanwhile, and to an answer that is late."""

import pytest
from tests.scenario.groups.consumer.mixed import Mixed

from kohort.groups.causes import TargetComputed
from kohort.groups.commands import ComputeTarget, DeleteGroups, TargetReady
from kohort.groups.consumer.assigning import answer
from kohort.groups.consumer.events import TargetEpochStored
from kohort.groups.settings import GroupSettings
from kohort.model.errors import ErrorCode

LARGE = GroupSettings(consumer_target_at_once=0, initial_rebalance_delay_ms=0)


@pytest.fixture
def group() -> Mixed:
    """``a`` has the partitions 0 to 3; every further target is computed by the shell."""
    group = Mixed(LARGE, t=4)
    group.join("a")
    return group


def asked(group: Mixed) -> ComputeTarget:
    (effect,) = group.node.effects
    assert isinstance(effect, ComputeTarget)
    group.node.effects.clear()
    return effect


def test_the_first_target_of_a_group_comes_with_its_first_member() -> None:
    group = Mixed(LARGE, t=4)
    assert (group.join("a").epoch, group.node.effects) == (1, [])
    assert group.assigned("a") == {"t": [0, 1, 2, 3]}


def test_members_follow_the_target_that_there_is_until_the_new_one_comes(group: Mixed) -> None:
    joined = group.join("b")
    assert (joined.error, joined.epoch, joined.assignment) == (ErrorCode.NONE, 1, {})
    assert (group.group.epoch, group.group.target_epoch, group.group.state_name) == (2, 1, "Assigning")
    assert (group.beat("a").epoch, group.beat("b").epoch) == (1, 1)
    group.node.compute_targets()
    assert group.group.target_epoch == 2
    assert group.beat("a").assignment == {"t": [0, 1]}
    group.settle()
    assert group.assigned("b") == {"t": [2, 3]}


def test_one_target_of_a_group_is_asked_for_at_a_time(group: Mixed) -> None:
    for name in ("b", "c", "d"):
        group.join(name)
    group.beat("a")
    assert [effect.epoch for effect in group.node.effects if isinstance(effect, ComputeTarget)] == [2]


def test_a_small_group_gets_its_target_at_once() -> None:
    group = Mixed(GroupSettings(consumer_target_at_once=6), t=4)  # a member and four partitions are five
    group.join("a")
    assert (group.join("b").epoch, group.node.effects) == (2, [])
    group.join("c")
    assert asked(group).epoch == 3


def test_an_answer_that_is_overtaken_is_dropped_and_asked_for_again(group: Mixed) -> None:
    group.join("b")
    first = asked(group)
    group.join("c")
    group.node.handle(answer(first))
    assert group.group.target_epoch == 1
    again = asked(group)
    assert (again.epoch, sorted(again.spec.topics)) == (3, ["a", "b", "c"])
    group.node.effects.append(again)
    group.node.compute_targets()
    group.settle()
    assert group.assigned("a") == {"t": [0, 1]}
    computed = [event for event in group.node.events if isinstance(event, TargetEpochStored)]
    assert [event.cause for event in computed] == [
        TargetComputed(1, "uniform", 1),
        TargetComputed(3, "uniform", 3),
    ]


def test_a_member_that_leaves_meanwhile_is_not_in_the_target(group: Mixed) -> None:
    group.join("b")
    group.beat("b", epoch=-1)
    group.node.compute_targets()
    assert (group.group.target_epoch, sorted(group.group.targets)) == (3, ["a"])
    assert group.beat("a").epoch == 3


def test_a_member_without_topics_that_joins_meanwhile_makes_no_epoch_but_is_in_the_target(
    group: Mixed,
) -> None:
    group.join("b")
    group.join("idle", names=[])
    assert group.group.epoch == 2
    group.node.compute_targets()
    group.settle()
    assert group.assigned("idle") == {}


def test_a_static_member_that_is_replaced_meanwhile_keeps_what_it_has() -> None:
    group = Mixed(LARGE, t=4)
    group.join("a", instance="i")
    group.join("b")
    group.beat("a", epoch=-2, instance="i")
    returned = group.join("a2", instance="i")
    assert returned.assignment == {"t": [0, 1, 2, 3]}
    group.node.compute_targets()
    group.settle()
    assert (group.assigned("a2"), group.assigned("b")) == ({"t": [0, 1]}, {"t": [2, 3]})


def test_an_answer_for_a_group_that_is_gone_or_came_again_is_dropped(group: Mixed) -> None:
    group.join("b")
    late = asked(group)
    for name in ("a", "b"):
        group.beat(name, epoch=-1)
    group.node.handle(answer(late))
    assert (group.group.target_epoch, group.node.effects) == (1, [])
    group.ask(DeleteGroups(reply_to=group.next_request(), group_ids=(group.group_id,)))
    group.node.handle(answer(late))
    group.join("a")
    group.node.handle(answer(late))
    assert (group.group.epoch, group.group.target_epoch) == (1, 1)


def test_a_shard_that_was_loaded_again_meanwhile_asks_for_its_own_answer(group: Mixed) -> None:
    group.join("b")
    late = asked(group)
    group.node.restart()
    group.node.handle(answer(late))
    assert (group.group.epoch, group.group.target_epoch) == (2, 1)
    group.beat("a")
    assert asked(group).epoch == 2


def test_an_assignor_that_failed_is_told_once_and_tried_again(group: Mixed) -> None:
    group.join("b")
    group.node.handle(TargetReady(asked(group), None))
    assert group.beat("a").error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert group.beat("a").error is ErrorCode.NONE
    group.node.compute_targets()
    group.settle()


def test_a_target_that_no_batch_can_hold_is_not_stored() -> None:
    settings = GroupSettings(consumer_target_at_once=0, max_batch_bytes=1_000)
    group = Mixed(settings, t=4)
    group.join("a")
    group.node.put_topic("t", 400)
    group.beat("a")
    written = len(group.node.log)
    group.node.compute_targets()
    assert len(group.node.log) == written
    assert group.beat("a").error is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_classic_member_is_not_sent_back_before_there_is_a_target() -> None:
    group = Mixed(LARGE, t=4)
    joined = group.classic_join("", version=3)
    group.sync(joined.member_id, joined.generation, {joined.member_id: [0, 1, 2, 3]})
    group.join("b")
    assert group.classic_beat(joined.member_id, joined.generation) is ErrorCode.NONE
    group.node.compute_targets()
    assert group.classic_beat(joined.member_id, joined.generation) is ErrorCode.REBALANCE_IN_PROGRESS
    again = group.classic_join(joined.member_id, owned=[0, 1, 2, 3])
    assert again.generation == joined.generation
    assert group.sync(joined.member_id, again.generation).error is ErrorCode.NONE
