"""The table "state x request" of classic groups in docs/reference/group-states.md, cell by cell.

(classic-groups 2.3)
"""

from collections.abc import Callable

import pytest
from tests.scenario.groups.states import (
    INSTANCE,
    STATES,
    current_generation,
    id_or_any,
    in_state,
    state_letter,
    table_of,
)
from tests.scenario.groups.story import beat, commit_error, refused_join, refused_sync

from kohort.groups.commands import Leaver
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId, InstanceId, MemberId, ReplyTo
from kohort.sim.driver import Scenario

HEADER, ROWS = table_of("Classic groups")


def _joining(name: str, version: int = 9, changed: bool = False) -> Callable[[Scenario], ReplyTo]:
    def send(scenario: Scenario) -> ReplyTo:
        return scenario.join_once(name, member_id=id_or_any(scenario, name), version=version, changed=changed)

    return send


def _new(version: int, instance: str | None = None) -> Callable[[Scenario], ReplyTo]:
    return lambda scenario: scenario.join_once("n", version=version, instance=instance)


def _syncing(name: str) -> Callable[[Scenario], ReplyTo]:
    def send(scenario: Scenario) -> ReplyTo:
        who = id_or_any(scenario, name)
        return scenario.sync(name, member_id=who, generation=current_generation(scenario))

    return send


def _leaving(name: str) -> Callable[[Scenario], ReplyTo]:
    return lambda scenario: scenario.leave_as(Leaver(id_or_any(scenario, name)))


def _committing(version: int) -> Callable[[Scenario], ReplyTo]:
    def send(scenario: Scenario) -> ReplyTo:
        who, generation = id_or_any(scenario, "b"), current_generation(scenario)
        return scenario.commit(None, {("t", 1): 3}, member_id=who, generation=generation, version=version)

    return send


REQUESTS: dict[str, Callable[[Scenario], ReplyTo]] = {
    "join, new, v4": _new(4),
    "join, new, v9": _new(9),
    "join, new, v0": _new(0),
    "join, new, v3": _new(3),
    "join, new instance, v5": _new(5, "i2"),
    "join, known instance without id": lambda scenario: scenario.join_once("s", member_id="", version=9),
    "join, pending id": _joining("p"),
    "join, known follower, unchanged": _joining("b"),
    "join, known follower, changed": _joining("b", changed=True),
    "join, known leader, unchanged": _joining("a"),
    "join, known leader, changed": _joining("a", changed=True),
    "join, unknown id": _joining("stranger"),
    "sync, follower": _syncing("b"),
    "sync, leader": _syncing("a"),
    "leave, follower": _leaving("b"),
    "leave, leader": _leaving("a"),
    "leave, instance": lambda scenario: scenario.leave_as(Leaver(MemberId(""), INSTANCE)),
    "leave, pending id": _leaving("p"),
    "leave, unknown id": _leaving("stranger"),
    "commit, no identity": lambda scenario: scenario.commit(None, {("t", 1): 3}),
    "commit, member, v8": _committing(8),
    "commit, member, v9": _committing(9),
    "delete group": lambda scenario: scenario.admin.delete_groups("g"),
    "delete offsets, subscribed topic": lambda scenario: scenario.admin.delete_offsets(("t", 0)),
    "delete offsets, other topic": lambda scenario: scenario.admin.delete_offsets(("u", 0)),
}


def _cells() -> list[tuple[str, str, str]]:
    assert "".join(HEADER) == STATES
    return [
        (row, state, cell)
        for row, cells in ROWS.items()
        for state, cell in zip(STATES, cells, strict=True)
        if cell != "-"
    ]


def answer(scenario: Scenario, row: str) -> str:
    """Send the row's request; the error code it is answered with, or "parked"."""
    if row == "heartbeat":
        generation = current_generation(scenario)
        return str(int(scenario.heartbeat("b", member_id=id_or_any(scenario, "b"), generation=generation)))
    request = REQUESTS[row](scenario)
    if scenario.is_parked(request):
        return "parked"
    reply = scenario.replies[request]
    if row.startswith("commit"):
        return str(int(commit_error(scenario, request)))
    if row == "delete group":
        return str(int(reply.groups[0].error))
    if reply.error is ErrorCode.NONE and row.startswith("leave"):
        return str(int(reply.members[0].error))
    if reply.error is ErrorCode.NONE and row.startswith("delete offsets"):
        return str(int(reply.rows[0].error))
    return str(int(reply.error))


@pytest.mark.parametrize(("row", "state", "cell"), _cells())
def test_every_request_gets_its_answer_in_every_state(row: str, state: str, cell: str) -> None:
    """Table classic-groups 2.3: the answer, and the state afterwards."""
    scenario = in_state(state)
    assert f"{answer(scenario, row)} {state_letter(scenario)}" == cell


@pytest.mark.parametrize("state", STATES)
def test_a_heartbeat_that_is_a_command_gets_the_same(state: str) -> None:
    """Table classic-groups 2.3: a heartbeat is answered in place, or is a command like any other request."""
    scenario = in_state(state)
    scenario.member("b").member_id = id_or_any(scenario, "b")
    code = int(beat(scenario, "b", current_generation(scenario)))
    assert f"{code} {state_letter(scenario)}" == ROWS["heartbeat"][HEADER.index(state)]


@pytest.mark.parametrize(("state", "offset"), [("∅", -1), ("E", 7), ("P", 7), ("C", -1), ("S", 7), ("D", -1)])
@pytest.mark.parametrize("require_stable", [False, True])
def test_a_fetch_of_offsets_depends_on_no_state(state: str, offset: int, require_stable: bool) -> None:
    """Table classic-groups 2.3, OffsetFetch: data; offset -1 and no error for a group that is absent or Dead.
    (The group that completes its first rebalance has committed nothing yet.)"""
    scenario = in_state(state)
    reply = scenario.replies[scenario.fetch(("t", 0), require_stable=require_stable)]
    assert reply.error is ErrorCode.NONE
    [row] = reply.rows
    assert (row.offset, row.error) == (offset, ErrorCode.NONE)
    assert (row.leader_epoch, row.metadata) == (-1, "")
    everything = scenario.replies[scenario.fetch()].rows
    assert bool(everything) == (offset != -1)


@pytest.mark.parametrize(
    ("state", "name"),
    [
        ("∅", "Dead"),
        ("E", "Empty"),
        ("P", "PreparingRebalance"),
        ("C", "CompletingRebalance"),
        ("S", "Stable"),
        ("D", "Dead"),
    ],
)
def test_a_group_is_described_in_every_state(state: str, name: str) -> None:
    """Table classic-groups 2.3, DescribeGroups: described; ``Dead`` without an error where there is none."""
    scenario = in_state(state)
    reply = scenario.replies[scenario.admin.describe(version=5)]
    assert (reply.error, reply.state, reply.group_id) == (ErrorCode.NONE, name, GroupId("g"))
    if state != "D":  # whom a Dead group still lists is nowhere said
        assert len(reply.members) == {"P": 4, "C": 3, "S": 3}.get(state, 0)


@pytest.mark.parametrize("state", list("PCS"))
def test_the_old_id_of_a_restarted_instance_is_fenced_in_every_state(state: str) -> None:
    """Table classic-groups 2.3, static with known instance id: replaced in P, C and S alike."""
    scenario = in_state(state)
    before = scenario.id_of("s")
    scenario.join_once("s", member_id="")
    assert scenario.group.instances[INSTANCE] != before
    assert before not in scenario.group.members
    fenced = scenario.heartbeat("s", member_id=before, instance=INSTANCE, generation=1)
    assert fenced is ErrorCode.FENCED_INSTANCE_ID


def test_syncs_that_wait_are_told_when_a_member_arrives() -> None:
    """Table classic-groups 2.3, a new member in C: parked syncs get 27."""
    for arrival in ("join, new, v3", "join, new instance, v5", "join, pending id"):
        scenario = in_state("C")
        waiting = scenario.sync("b")
        assert answer(scenario, arrival) == "parked"
        assert scenario.replies[waiting] == refused_sync(ErrorCode.REBALANCE_IN_PROGRESS)


@pytest.mark.parametrize(
    ("row", "name"), [("join, known follower, unchanged", "b"), ("join, pending id", "p")]
)
def test_a_dead_group_echoes_the_id_it_was_asked_with(row: str, name: str) -> None:
    """classic-groups 3.1 #9: 15 with ``""`` if the id was ``""``, else echoed."""
    scenario = in_state("D")
    request = REQUESTS[row](scenario)
    assert scenario.replies[request] == refused_join(
        ErrorCode.COORDINATOR_NOT_AVAILABLE, scenario.id_of(name)
    )
    new = scenario.join_once("n")
    assert scenario.replies[new] == refused_join(ErrorCode.COORDINATOR_NOT_AVAILABLE, "")


def test_a_leave_from_a_dead_group_has_no_members() -> None:
    """Table classic-groups 2.3, LeaveGroup in D: top-level 15; then the members array is empty
    (classic-groups 5.3)."""
    scenario = in_state("D")
    request = scenario.leave_as(Leaver(scenario.id_of("b")), Leaver(MemberId(""), InstanceId("i1")))
    assert scenario.error(request) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert scenario.replies[request].members == ()
