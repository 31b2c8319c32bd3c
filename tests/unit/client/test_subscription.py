"""What a consumer wants, has and has read."""

import re

import pytest

from kohort.client.subscription import (
    FetchState,
    OffsetAndMetadata,
    Position,
    SubscriptionError,
    Subscriptions,
    SubscriptionType,
)
from kohort.model.ids import Partition, TopicName
from kohort.model.topics import TopicPartition

T0, T1, U0 = (TopicPartition(TopicName(t), Partition(p)) for t, p in (("t", 0), ("t", 1), ("u", 0)))


def subscribed() -> Subscriptions:
    subscriptions = Subscriptions()
    subscriptions.subscribe(["t", "u"])
    subscriptions.assign_from_subscribed([T1, T0])
    return subscriptions


def test_subscribing_replaces_and_keeps_the_assignment() -> None:
    subscriptions = subscribed()
    before = subscriptions.subscription
    subscriptions.subscribe(["u"])
    assert before.topics == {"t", "u"}, "a stale one is recognisable"
    assert subscriptions.subscription.topics == {"u"}
    assert subscriptions.assignment.partitions == (T0, T1)


def test_partitions_that_stay_keep_their_state() -> None:
    subscriptions = subscribed()
    old = subscriptions.assignment
    state = subscriptions.state(T0)
    state.seek(Position(5))
    state.is_paused = True
    subscriptions.assign_from_subscribed([T0, U0])
    assert subscriptions.assignment is not old
    assert subscriptions.state(T0) is state
    assert subscriptions.state(U0).state is FetchState.INITIALIZING
    assert old.partitions == (T0, T1)


def test_only_valid_positions_can_be_committed() -> None:
    subscriptions = subscribed()
    subscriptions.state(T0).seek(Position(5, offset_epoch=2))
    subscriptions.state(T1).seek(Position(6, offset_epoch=2, leader_epoch=3), validate=True)
    assert subscriptions.state(T1).state is FetchState.AWAIT_VALIDATION
    assert subscriptions.assignment.committable() == {T0: OffsetAndMetadata(5, 2)}


def test_a_position_without_epochs_needs_no_validation() -> None:
    state = subscribed().state(T0)
    state.seek(Position(5), validate=True)
    assert state.state is FetchState.FETCHING
    state.reset(-2)
    assert (state.position, state.reset_to, state.valid_position) == (None, -2, None)


@pytest.mark.parametrize("hold", ["is_paused", "pending_revocation", "awaits_callback"])
def test_what_is_held_back_is_not_fetched(hold: str) -> None:
    subscriptions = subscribed()
    for partition in (T0, T1):
        subscriptions.state(partition).seek(Position(0))
    setattr(subscriptions.state(T0), hold, True)
    assert subscriptions.fetchable(lambda _: True) == [T1]
    assert subscriptions.fetchable(lambda each: each == T0) == []


def test_a_partition_of_somebody_else_is_refused() -> None:
    with pytest.raises(SubscriptionError, match="u-0 is not assigned"):
        subscribed().state(U0)


def test_topics_without_a_name_are_refused() -> None:
    with pytest.raises(SubscriptionError, match="no name"):
        Subscriptions().subscribe(["t", " "])


def test_patterns_and_names_exclude_each_other() -> None:
    subscriptions = subscribed()
    with pytest.raises(SubscriptionError, match="exclude"):
        subscriptions.subscribe_pattern(re.compile("t"))
    subscriptions.unsubscribe()
    subscriptions.subscribe_pattern(re.compile("t+"))
    assert subscriptions.subscription.matches("tt")
    assert not subscriptions.subscription.matches("tu")
    assert subscriptions.set_matched_topics([TopicName("t")])
    assert not subscriptions.set_matched_topics([TopicName("t")])


def test_assigning_by_hand_replaces_and_keeps_state() -> None:
    subscriptions = Subscriptions()
    subscriptions.assign([T0, T1])
    subscriptions.state(T0).seek(Position(5))
    subscriptions.assign([T0])
    assert subscriptions.state(T0).position == Position(5)
    assert subscriptions.subscription.type is SubscriptionType.USER_ASSIGNED
    assert not subscriptions.is_group_managed
    assert repr(subscriptions) == "<Subscriptions by assign(partitions): <PartitionAssignment of t-0>>"
