"""How much memory members may take."""

from kohort.groups.commands import Protocol
from kohort.groups.settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.model.ids import MemberId
from kohort.sim.driver import Scenario

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
