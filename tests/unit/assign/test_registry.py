"""Assignors by name, by class, by instance."""

from collections.abc import Collection, Mapping

import pytest

from kohort.assign.assignor import Assignor, ClusterView, RebalanceProtocol, Subscriptions
from kohort.assign.protocol import Assignment
from kohort.assign.registry import (
    BUILT_IN,
    AssignorChoiceError,
    choose_assignors,
    rebalance_protocol,
)
from kohort.model.ids import Generation, MemberId, TopicName


class Everything:
    """An assignor as users write them: gives all to the first member."""

    name = "everything"
    supported_protocols = (RebalanceProtocol.COOPERATIVE,)

    def subscription_user_data(self, topics: Collection[TopicName]) -> bytes | None:
        return None

    def assign(self, cluster: ClusterView, subscriptions: Subscriptions) -> Mapping[MemberId, Assignment]:
        return {member: Assignment() for member in subscriptions}

    def on_assignment(self, assignment: Assignment, generation: Generation) -> None:
        return None


def test_names_make_assignors_of_that_name() -> None:
    names = ["range", "roundrobin", "sticky", "cooperative-sticky"]
    assert [assignor.name for assignor in choose_assignors(names)] == names
    assert len(BUILT_IN) == len(names)


def test_each_consumer_gets_assignors_of_its_own() -> None:
    assert choose_assignors(["sticky"])[0] is not choose_assignors(["sticky"])[0]


def test_users_bring_a_class_or_an_instance() -> None:
    mine = Everything()
    assert choose_assignors([mine]) == (mine,)
    chosen = choose_assignors(["range", Everything])
    assert [type(assignor).__name__ for assignor in chosen] == ["RangeAssignor", "Everything"]


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("rnage", "range"),
        ("round-robin", "roundrobin"),
        ("cooperative_sticky", "cooperative-sticky"),
        ("org.apache.kafka.clients.consumer.CooperativeStickyAssignor", "cooperative-sticky"),
        ("RangePartitionAssignor", "range"),
        ("StickyAssignor", "sticky"),
    ],
)
def test_a_wrong_name_is_answered_with_the_right_one(wrong: str, meant: str) -> None:
    with pytest.raises(AssignorChoiceError, match=f"did you mean '{meant}'"):
        choose_assignors([wrong])


def test_a_name_like_no_other_is_answered_with_all_there_are() -> None:
    with pytest.raises(
        AssignorChoiceError, match="range, roundrobin, sticky, cooperative-sticky; one of your"
    ):
        choose_assignors(["my.own"])


def test_what_is_no_assignor_is_told_what_it_lacks() -> None:
    class Half:
        name = "half"

        def assign(self) -> None:
            return None

    half: Assignor = Half()  # type: ignore[assignment]  # the mistake this test is about
    with pytest.raises(
        AssignorChoiceError,
        match="Half is not an assignor: it has no supported_protocols, subscription_user_data",
    ):
        choose_assignors([half])


def test_two_of_one_name_and_none_at_all_are_refused() -> None:
    with pytest.raises(AssignorChoiceError, match="two assignors are called 'range'"):
        choose_assignors(["range", "sticky", "range"])
    with pytest.raises(AssignorChoiceError, match="no assignor was chosen"):
        choose_assignors([])


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["range", "cooperative-sticky"], RebalanceProtocol.EAGER),
        (["cooperative-sticky"], RebalanceProtocol.COOPERATIVE),
        (["sticky"], RebalanceProtocol.EAGER),
    ],
)
def test_the_best_protocol_all_support_is_used(names: list[str], expected: RebalanceProtocol) -> None:
    assert rebalance_protocol(choose_assignors(names)) is expected


def test_assignors_without_a_common_protocol_are_refused() -> None:
    with pytest.raises(AssignorChoiceError, match="supported by all of range, everything"):
        rebalance_protocol(choose_assignors(["range", Everything]))
