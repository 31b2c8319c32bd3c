"""Which protocol a generation uses (classic-groups 3.5, 12)."""

from collections.abc import Sequence

import pytest
from tests.scenario.groups.story import await_generation, phase_of, refused_join, stable

from kohort.groups.classic.transitions import Phase
from kohort.model.errors import ErrorCode
from kohort.sim.driver import Scenario


def selected(*lists: Sequence[str]) -> str:
    """What members with these lists, joining in this order, are told to use: all of them the same."""
    scenario = Scenario()
    requests = [scenario.join(f"m{n}", protocols=listed) for n, listed in enumerate(lists)]
    await_generation(scenario)
    [name] = {scenario.replies[request].protocol_name for request in requests}
    assert isinstance(name, str)
    return name


def test_the_protocol_with_most_votes_wins() -> None:
    """Scenario 53. Given lists [range, roundrobin], [roundrobin, range], [roundrobin, range], then
    ``roundrobin``."""
    assert selected(["range", "roundrobin"], ["roundrobin", "range"], ["roundrobin", "range"]) == "roundrobin"


def test_only_what_everyone_lists_can_be_selected() -> None:
    """Scenario 54. Given [range, roundrobin] and [roundrobin, foo], then ``roundrobin`` (only common one)."""
    assert selected(["range", "roundrobin"], ["roundrobin", "foo"]) == "roundrobin"


def test_a_vote_is_for_the_first_common_name_in_the_members_own_order() -> None:
    """Scenario 54. Two would prefer what the third does not list: their votes go to their next choice."""
    assert selected(["x", "b", "a"], ["x", "b", "a"], ["a", "b"]) == "b"


@pytest.mark.parametrize(
    ("one", "other", "winner"),
    [
        ("range", "roundrobin", "range"),
        ("sticky", "range", "sticky"),
        ("cooperative-sticky", "range", "range"),
        ("cooperative-sticky", "roundrobin", "roundrobin"),
        ("sticky", "roundrobin", "sticky"),
        ("stream", "sticky", "stream"),
        ("default", "stream", "default"),
        ("compatible", "sessioned", "compatible"),
    ],
)
def test_a_tie_is_broken_as_in_kafka_whoever_joined_first(one: str, other: str, winner: str) -> None:
    """Scenario 55. Given a 1:1 tie range/roundrobin, then ``range`` (N order).

    Scenario 56. Given a tie sticky/range, then ``sticky``; given cooperative-sticky/range, then ``range``.
    """
    assert selected([one, other], [other, one]) == winner
    assert selected([other, one], [one, other]) == winner


def test_a_tie_among_three_follows_the_same_order() -> None:
    """Scenario 56. The first maximum in the order of Java's buckets is kept."""
    lists = (
        ["cooperative-sticky", "roundrobin", "sticky"],
        ["roundrobin", "sticky", "cooperative-sticky"],
        ["sticky", "cooperative-sticky", "roundrobin"],
    )
    assert selected(*lists) == "sticky"
    assert selected(*reversed(lists)) == "sticky"


def test_votes_come_before_the_order_of_names() -> None:
    """Scenario 55. Only ties are broken by name."""
    assert selected(
        ["cooperative-sticky", "range"], ["cooperative-sticky", "range"], ["range", "cooperative-sticky"]
    ) == ("cooperative-sticky")


def test_a_loaded_group_only_knows_the_protocol_it_used() -> None:
    """Scenario 57. Given a group loaded with ``range`` only, when a member lists [roundrobin], then 23."""
    scenario = stable("a", "b", protocols=["range", "roundrobin"])
    scenario.restart()
    refused = scenario.join_once("c", protocols=["roundrobin"])
    assert scenario.replies[refused] == refused_join(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    assert phase_of(scenario) is Phase.STABLE
    accepted = scenario.join("d", protocols=["roundrobin", "range"])
    assert scenario.is_parked(accepted)
    assert phase_of(scenario) is Phase.PREPARING_REBALANCE


def test_a_kept_static_member_votes_too() -> None:
    """Scenario 53. Members that did not rejoin but are kept have a vote (classic-groups 3.5)."""
    scenario = Scenario()
    scenario.join("a", protocols=["roundrobin", "range"])
    for name in ("s1", "s2"):
        scenario.join(name, protocols=["range", "roundrobin"], instance=name, session_timeout=60_000)
    scenario.settle()
    assert scenario.group.protocol == "range"
    request = scenario.join("a")  # the static ones do not come back in time
    scenario.sleep(30_000)
    assert scenario.replies[request].generation == 2
    assert scenario.replies[request].protocol_name == "range"


def test_the_leader_gets_the_metadata_of_the_selected_protocol() -> None:
    """Scenario 54. Members are listed with what they say for that protocol only (classic-groups 3.7)."""
    scenario = Scenario()
    request = scenario.join("a", protocols=[("range", b"a-range"), ("roundrobin", b"a-rr")])
    scenario.join("b", protocols=[("foo", b"b-foo"), ("roundrobin", b"b-rr")])
    await_generation(scenario)
    assert {each.metadata for each in scenario.replies[request].members} == {b"a-rr", b"b-rr"}
