"""JoinGroup, decided."""

import pytest

from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import Protocol
from kohort.groups.events import GroupCreated, IdReserved, MemberRemoved, RebalanceStarted
from kohort.groups.replies import JoinReply
from kohort.groups.settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.model.ids import MemberId
from kohort.sim.driver import Scenario


def test_a_join_with_an_id_to_a_group_that_does_not_exist_is_unknown_and_makes_none() -> None:
    scenario = Scenario()
    request = scenario.join_once("a", member_id="x")
    assert scenario.replies[request] == JoinReply(
        error=ErrorCode.UNKNOWN_MEMBER_ID, member_id=scenario.id_of("a")
    )
    assert not scenario.exists


@pytest.mark.parametrize(
    ("session", "error"),
    [
        (5_999, ErrorCode.INVALID_SESSION_TIMEOUT),
        (6_000, ErrorCode.MEMBER_ID_REQUIRED),
        (1_800_000, ErrorCode.MEMBER_ID_REQUIRED),
        (1_800_001, ErrorCode.INVALID_SESSION_TIMEOUT),
    ],
)
def test_the_session_timeout_has_bounds(session: int, error: ErrorCode) -> None:
    scenario = Scenario()
    assert scenario.error(scenario.join_once("a", session_timeout=session)) is error


def test_a_dynamic_member_without_an_id_is_sent_away_with_one() -> None:
    scenario = Scenario()
    request = scenario.join_once("a", client_id="app", reason="first start")
    reply = scenario.replies[request]
    assert reply.error is ErrorCode.MEMBER_ID_REQUIRED
    assert reply.member_id == "app-00000000-0000-4000-8000-000000000001"
    assert list(scenario.group.pending) == [reply.member_id]
    assert scenario.is_in(Phase.EMPTY)
    assert scenario.why(GroupCreated) == ["client app was the first to join; reason given: first start"]
    assert scenario.why(IdReserved) == [
        f"client app asked to join without a member id and was given {reply.member_id}; "
        "reason given: first start"
    ]


def test_below_version_4_it_is_a_member_at_once() -> None:
    scenario = Scenario()
    request = scenario.join_once("a", version=3)
    assert scenario.is_parked(request)
    assert len(scenario.group.members) == 1
    assert scenario.is_in(Phase.PREPARING_REBALANCE)


def test_version_0_uses_its_session_timeout_for_both() -> None:
    scenario = Scenario()
    scenario.join_once("a", version=0, session_timeout=10_000, rebalance_timeout=-1)
    assert scenario.group.rebalance_timeout_ms == 10_000


def test_a_pending_id_that_joins_with_an_instance_id_is_our_error() -> None:
    scenario = Scenario()
    scenario.join_once("a")
    request = scenario.join_once("a", instance="i")
    assert scenario.replies[request] == JoinReply(error=ErrorCode.UNKNOWN_SERVER_ERROR)


def test_identity_errors_echo_the_member_id() -> None:
    scenario = Scenario()
    scenario.join("s", instance="one")
    scenario.join("d")
    scenario.settle()
    d = scenario.id_of("d")
    unknown_instance = scenario.join_once("d", instance="two")
    fenced = scenario.join_once("d", instance="one")
    stranger = scenario.join_once("d", instance=None, member_id="stranger")
    assert scenario.replies[unknown_instance] == JoinReply(error=ErrorCode.UNKNOWN_MEMBER_ID, member_id=d)
    assert scenario.replies[fenced] == JoinReply(error=ErrorCode.FENCED_INSTANCE_ID, member_id=d)
    assert scenario.error(stranger) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("consumer", []), ("", ["range"]), ("consumer", ["range", "range"])],
)
def test_an_empty_group_wants_a_type_and_different_protocols(
    protocol_type: str, protocols: list[str]
) -> None:
    scenario = Scenario()
    request = scenario.join_once("a", protocol_type=protocol_type, protocols=protocols)
    assert scenario.replies[request] == JoinReply(error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    assert scenario.is_in(Phase.EMPTY)


def test_in_a_dead_group_there_is_no_coordinator() -> None:
    scenario = Scenario.stable(a=10_000)
    scenario.unload()
    assert scenario.error(scenario.join_once("a")) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_follower_that_rejoins_unchanged_is_told_the_generation_again() -> None:
    scenario = Scenario.stable(a=10_000, b=10_000)
    b = scenario.id_of("b")
    reply = scenario.replies[scenario.join("b", session_timeout=60_000)]
    assert reply == JoinReply(
        generation=scenario.group.generation,
        protocol_type="consumer",
        protocol_name="range",
        leader=scenario.id_of("a"),
        member_id=b,
    )
    assert scenario.group.members[b].session_timeout_ms == 10_000  # nothing of the request is taken over
    assert scenario.is_in(Phase.STABLE)


def test_a_leader_that_rejoins_unchanged_starts_a_rebalance() -> None:
    scenario = Scenario.stable(a=10_000, b=10_000)
    scenario.join("a", reason="more partitions")
    assert scenario.is_in(Phase.PREPARING_REBALANCE)
    assert scenario.why(RebalanceStarted)[-1] == (
        f"the leader {scenario.id_of('a')} joined again unchanged; reason given: more partitions"
    )


@pytest.mark.parametrize(("name", "listed"), [("a", 2), ("b", 0)])
def test_while_the_assignment_is_awaited_an_unchanged_join_is_answered_again(name: str, listed: int) -> None:
    scenario = Scenario()
    scenario.join("a")
    scenario.join("b")
    scenario.sleep(6_000)
    again = scenario.join(name)
    assert scenario.is_in(Phase.COMPLETING_REBALANCE)
    assert scenario.replies[again].generation == 1
    assert len(scenario.replies[again].members) == listed


def test_while_the_assignment_is_awaited_a_changed_join_starts_over() -> None:
    scenario = Scenario(GroupSettings(initial_rebalance_delay_ms=0))
    scenario.join("a")
    assert scenario.is_in(Phase.COMPLETING_REBALANCE)
    again = scenario.join("a", changed=True)
    assert scenario.replies[again].generation == 2  # alone, so the next generation starts at once


def test_a_second_join_of_a_parked_member_replaces_the_first() -> None:
    scenario = Scenario.stable(a=10_000, b=10_000)
    first = scenario.join("b", changed=True)
    second = scenario.join("b", session_timeout=20_000)
    b = scenario.id_of("b")
    assert scenario.replies[first] == JoinReply(error=ErrorCode.REBALANCE_IN_PROGRESS, member_id=b)
    assert scenario.group.awaiting_join == 1
    scenario.join("a")
    assert scenario.replies[second].generation == 2
    assert scenario.group.members[b].session_timeout_ms == 20_000


def test_the_first_to_join_leads_and_is_told_about_everyone() -> None:
    scenario = Scenario()
    a, b = scenario.join("a"), scenario.join("b", instance="i")
    scenario.sleep(6_000)
    assert [(scenario.name_of(m.member_id), m.instance_id) for m in scenario.replies[a].members] == [
        ("a", None),
        ("b", "i"),
    ]
    assert scenario.replies[b].members == ()
    assert scenario.replies[b].leader == scenario.id_of("a")


# --- capacity ---------------------------------------------------------------------------------


def test_a_full_stable_group_turns_a_stranger_away() -> None:
    scenario = Scenario.stable(GroupSettings(max_size=1), a=10_000)
    request = scenario.join_once("b")
    assert scenario.replies[request] == JoinReply(error=ErrorCode.GROUP_MAX_SIZE_REACHED)
    assert scenario.members == ["a"]


def test_a_pending_id_that_finds_the_group_full_is_gone() -> None:
    scenario = Scenario(GroupSettings(max_size=1))
    scenario.join_once("b")
    scenario.join("a")
    assert scenario.error(scenario.join_once("b")) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert not scenario.group.pending
    scenario.sleep(3_000)
    assert scenario.error(scenario.join_once("b")) is ErrorCode.GROUP_MAX_SIZE_REACHED
    scenario.leave("a")
    assert scenario.error(scenario.join_once("b")) is ErrorCode.UNKNOWN_MEMBER_ID


def test_in_an_oversized_group_the_last_to_rejoin_is_kicked_and_the_others_go_on() -> None:
    scenario = Scenario.stable(a=10_000, b=10_000, c=10_000)
    scenario.restart(GroupSettings(max_size=2))
    assert scenario.is_in(Phase.PREPARING_REBALANCE)
    a, b = scenario.join("a"), scenario.join("b")
    c = scenario.join("c")
    assert scenario.error(c) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert [scenario.error(each) for each in (a, b)] == [ErrorCode.NONE] * 2  # they waited for c only
    assert scenario.members == ["a", "b"]
    assert "2 members count, group.max.size is 2" in scenario.why(MemberRemoved)[-1]


def test_a_parked_member_of_a_full_group_may_join_again() -> None:
    scenario = Scenario(GroupSettings(max_size=1))
    scenario.join("a")
    assert scenario.is_parked(scenario.join("a"))


def test_a_known_member_of_a_full_group_may_rejoin() -> None:
    scenario = Scenario.stable(GroupSettings(max_size=1), a=10_000)
    assert scenario.error(scenario.join("a")) is ErrorCode.NONE


def test_metadata_counts_byte_by_byte_and_order_counts() -> None:
    scenario = Scenario()
    scenario.join("a", protocols=[("x", b"1"), ("y", b"2")])
    scenario.settle()
    scenario.join("b", protocols=[("x", b"1"), ("y", b"2")])
    scenario.join("a")
    scenario.settle()
    assert scenario.error(scenario.join("b")) is ErrorCode.NONE
    assert scenario.is_parked(scenario.join("b", protocols=[("y", b"2"), ("x", b"1")]))
    assert scenario.group.members[scenario.id_of("b")].protocols == (Protocol("y", b"2"), Protocol("x", b"1"))


# --- memory -----------------------------------------------------------------------------------

LARGE = (Protocol("range", bytes(50_000)),)


def test_a_group_whose_members_take_all_the_memory_it_may_have_turns_others_away() -> None:
    scenario = Scenario(GroupSettings(max_bytes=120_000))
    for name in "ab":
        scenario.join(name, protocols=LARGE)
    assert scenario.error(scenario.join("c", protocols=LARGE)) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert scenario.is_parked(scenario.join("d"))
    scenario.settle()
    scenario.leave("a")
    assert scenario.is_parked(scenario.join("c", protocols=LARGE))


def test_a_first_member_that_says_too_much_makes_no_group() -> None:
    scenario = Scenario(GroupSettings(max_bytes=40_000))
    assert scenario.error(scenario.join("a", protocols=LARGE)) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert not scenario.exists


def test_a_member_may_say_again_what_it_said_but_not_more_than_there_is_room_for() -> None:
    scenario = Scenario.stable(a=10_000)
    scenario.restart(GroupSettings(max_bytes=10))
    assert scenario.error(scenario.join("b")) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert scenario.error(scenario.join("a")) is ErrorCode.NONE
    assert scenario.error(scenario.join("a", protocols=LARGE)) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert scenario.members == ["a"]


def test_ids_that_are_handed_out_and_never_used_are_bounded_until_they_expire() -> None:
    scenario = Scenario(GroupSettings(max_bytes=50_000))
    codes = [scenario.error(scenario.join_once(f"m{n}", session_timeout=6_000)) for n in range(100)]
    handed_out = codes.count(ErrorCode.MEMBER_ID_REQUIRED)
    assert 20 < handed_out < 50
    assert codes[handed_out:] == [ErrorCode.GROUP_MAX_SIZE_REACHED] * (100 - handed_out)
    scenario.sleep(6_000)
    assert scenario.error(scenario.join_once("late")) is ErrorCode.MEMBER_ID_REQUIRED


def test_what_members_take_is_given_back_when_they_go_whatever_way_they_go() -> None:
    scenario = Scenario.stable(a=10_000, b=10_000, c=20_000)
    scenario.join("s", instance="i")
    scenario.join_once("pending")
    scenario.join("a", protocols=LARGE)
    taken = scenario.shard.state.members_bytes
    assert taken == scenario.group.members_bytes > 50_000
    scenario.leave("b")
    scenario.member("s").member_id = MemberId("")
    scenario.join("s")
    scenario.sleep(1_000_000)
    assert not scenario.exists  # it was empty for long, too
    assert scenario.shard.state.members_bytes == 0
