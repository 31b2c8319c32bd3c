"""The door of the core."""

import pytest

from kohort.groups import shard as shard_module
from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import Join, Protocol
from kohort.groups.settings import GroupSettings
from kohort.groups.shard import Shard
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId, Instant, Now, ReplyTo, WallTime
from kohort.sim.driver import Scenario
from kohort.sim.members import subscription

NOW = Now(Instant(0), WallTime(0))


def test_a_new_shard_waits_for_nothing_but_its_first_sweep() -> None:
    shard = Shard(GroupSettings(), Instant(0))
    assert shard.next_deadline() is None
    assert shard.finish_load(NOW).append is None
    assert shard.next_deadline() is not None
    assert shard.group(GroupId("g")) is None


def test_positions_count_the_batches() -> None:
    scenario = Scenario()
    scenario.hold_appends()
    for number in range(3):
        scenario.commit(None, {("t", number): 1})
    assert [append.position for append in scenario.node.unsettled] == [1, 2, 3]


def test_the_same_commands_give_the_same_events() -> None:
    def story() -> Scenario:
        scenario = Scenario.stable(a=10_000, b=30_000)
        scenario.join("b", changed=True)
        scenario.sleep(10_000)
        scenario.sync("b")
        return scenario

    first, second = story(), story()
    assert first.events == second.events
    assert first.sent == second.sent
    assert first.log == second.log
    assert first.shard.fingerprint(Instant(first.now)) == second.shard.fingerprint(Instant(second.now))


def test_a_copy_has_its_own_future() -> None:
    scenario = Scenario.stable(a=10_000)
    twin = scenario.shard.copy()
    scenario.sleep(20_000)
    assert scenario.is_in(Phase.EMPTY)
    group = twin.group(GroupId("g"))
    assert group is not None
    assert group.phase is Phase.STABLE
    who = (GroupId("g"), scenario.id_of("a"))
    assert twin.heartbeat(who, group.generation, None, Instant(9_000)) is ErrorCode.NONE


def test_many_timers_fire_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_module, "TIMERS_AT_A_TIME", 2)
    shard = Shard(GroupSettings(), Instant(0))
    for number in range(5):
        join = Join(
            reply_to=ReplyTo(number),
            group_id=GroupId(f"g{number}"),
            protocols=(Protocol("range", subscription("t")),),
            rebalance_timeout_ms=30_000,
            version=3,
        )
        shard.handle(join, NOW)
    later = Now(Instant(3_000), WallTime(3_000))
    answered = []
    while (deadline := shard.next_deadline()) is not None and deadline <= later.instant:
        answered.append(len(shard.advance(later).replies))
    assert answered == [2, 2, 1]
