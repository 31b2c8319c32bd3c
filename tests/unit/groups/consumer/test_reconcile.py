"""Reconciliation, by the numbers of the scenarios in modern-groups 18."""

from dataclasses import replace

import pytest

from kohort.assign.server.group import TopicPartitions
from kohort.groups.consumer.assignment import LEFT_FOR_A_WHILE, CurrentAssignment, MemberState, contains
from kohort.groups.consumer.reconcile import ReconcileInput, reconcile
from kohort.model.errors import ErrorCode
from kohort.model.ids import Partition, TopicId

T, U = TopicId(bytes(15) + b"\x02"), TopicId(bytes(15) + b"\x03")


def p(*numbers: int, topic: TopicId = T) -> TopicPartitions:
    return {topic: frozenset(map(Partition, numbers))} if numbers else {}


STABLE = CurrentAssignment(1, 0, MemberState.STABLE, p(0, 1, 2, 3))
UNREVOKED = CurrentAssignment(1, 1, MemberState.UNREVOKED_PARTITIONS, p(0, 1), p(2, 3))


def beat(
    target: TopicPartitions,
    epoch: int,
    owned: TopicPartitions | None = None,
    others: TopicPartitions | None = None,
    subscribed: frozenset[TopicId] = frozenset({T}),
    changed: bool = False,
) -> ReconcileInput:
    taken = others or {}
    return ReconcileInput(
        target, epoch, owned, subscribed, changed, lambda topic, number: number in taken.get(topic, ())
    )


def test_21_a_new_member_waits_at_the_target_epoch_for_what_another_owns() -> None:
    after = reconcile(CurrentAssignment(), beat(p(2, 3), 2, owned={}, others=p(0, 1, 2, 3)))
    assert after == CurrentAssignment(2, 0, MemberState.UNRELEASED_PARTITIONS, {})


def test_22_a_member_that_must_revoke_keeps_its_epoch() -> None:
    assert reconcile(STABLE, beat(p(0, 1), 2)) == UNREVOKED


def test_23_a_heartbeat_that_says_nothing_acknowledges_nothing() -> None:
    assert reconcile(UNREVOKED, beat(p(0, 1), 2)) is UNREVOKED


def test_24_the_acknowledgement_moves_the_member_and_frees_the_partitions() -> None:
    after = reconcile(UNREVOKED, beat(p(0, 1), 2, owned=p(0, 1)))
    assert after == CurrentAssignment(2, 1, MemberState.STABLE, p(0, 1))
    waiting = CurrentAssignment(2, 0, MemberState.UNRELEASED_PARTITIONS, {})
    assert reconcile(waiting, beat(p(2, 3), 2, others=p(0, 1))) == CurrentAssignment(
        2, 2, MemberState.STABLE, p(2, 3)
    )


def test_26_after_the_acknowledgement_the_member_goes_to_the_newest_target() -> None:
    assert reconcile(UNREVOKED, beat(p(0), 3)) is UNREVOKED
    after = reconcile(UNREVOKED, beat(p(0, 1, 4), 3, owned=p(0, 1)))
    assert after == CurrentAssignment(3, 1, MemberState.STABLE, p(0, 1, 4))


def test_27_the_newest_target_may_ask_for_another_revocation_at_the_same_epoch() -> None:
    after = reconcile(UNREVOKED, beat(p(0), 3, owned=p(0, 1)))
    assert after == CurrentAssignment(1, 1, MemberState.UNREVOKED_PARTITIONS, p(0), p(1))


def test_28_a_pending_partition_that_comes_back_does_not_block_its_own_member() -> None:
    after = reconcile(UNREVOKED, beat(p(0, 1, 2), 3, owned=p(0, 1), others=p(2, 3)))
    assert after == CurrentAssignment(3, 1, MemberState.STABLE, p(0, 1, 2))


def test_29_what_the_member_does_not_own_any_more_needs_no_revocation() -> None:
    after = reconcile(STABLE, beat(p(0, 1), 2, owned=p(0, 1)))
    assert after == CurrentAssignment(2, 1, MemberState.STABLE, p(0, 1))


def test_30_free_partitions_are_handed_out_while_others_are_blocked() -> None:
    first = reconcile(CurrentAssignment(), beat(p(0, 1, 2), 2, owned={}, others=p(2)))
    assert first == CurrentAssignment(2, 0, MemberState.UNRELEASED_PARTITIONS, p(0, 1))
    second = reconcile(first, beat(p(0, 1, 2), 2))
    assert second == CurrentAssignment(2, 2, MemberState.STABLE, p(0, 1, 2))


def test_31_partitions_of_a_dropped_topic_are_revoked_before_the_member_moves_on() -> None:
    both = CurrentAssignment(2, 1, MemberState.STABLE, {**p(0), **p(0, topic=U)})
    dropped = beat({**p(0), **p(0, topic=U)}, 2, subscribed=frozenset({T}), changed=True)
    trimmed = CurrentAssignment(2, 1, MemberState.UNREVOKED_PARTITIONS, p(0), p(0, topic=U))
    assert reconcile(both, dropped) == trimmed
    assert reconcile(both, replace(dropped, owned=p(0))) == replace(both, assigned=p(0))
    assert reconcile(trimmed, beat(p(0), 3, owned=p(0))) == CurrentAssignment(3, 2, MemberState.STABLE, p(0))


def test_32_a_state_of_a_newer_broker_is_left_only_by_a_member_that_has_nothing() -> None:
    unknown = CurrentAssignment(1, 0, MemberState.UNKNOWN, p(0, 1))
    for owned in (None, p(0)):
        assert reconcile(unknown, beat(p(0), 2, owned=owned)) is ErrorCode.FENCED_MEMBER_EPOCH
    assert reconcile(unknown, beat(p(0), 2, owned={})) == CurrentAssignment(2, 1, MemberState.STABLE, p(0))


def test_47_a_static_member_that_leaves_for_a_while_releases_what_was_pending() -> None:
    left = UNREVOKED.leave_for_a_while()
    assert (left.member_epoch, left.assigned, left.pending_revocation) == (LEFT_FOR_A_WHILE, p(0, 1), {})
    assert left.state is MemberState.UNREVOKED_PARTITIONS
    heir = left.hand_over()
    assert (heir.member_epoch, heir.previous_epoch, heir.assigned) == (0, 0, p(0, 1))


@pytest.mark.parametrize(
    ("part", "expected"), [({}, True), (p(0), True), (p(0, 2), False), (p(0, topic=U), False)]
)
def test_owned_partitions_are_compared_with_the_assigned_ones(part: TopicPartitions, expected: bool) -> None:
    assert contains(p(0, 1), part) is expected
