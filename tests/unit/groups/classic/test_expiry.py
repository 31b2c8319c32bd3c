"""A timer that no command can bring about."""

from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import ExpireSync
from kohort.model.ids import Generation, GroupId, MemberId
from kohort.sim.driver import Scenario


def test_a_sync_timer_in_another_phase_does_nothing() -> None:
    scenario = Scenario()
    scenario.join("a")
    scenario.sleep(3_000)
    assert scenario.is_in(Phase.COMPLETING_REBALANCE)
    scenario.group.pending_sync[MemberId("stale")] = None
    scenario.unload()
    scenario.order(ExpireSync(GroupId("g"), Generation(1), 1))
    assert scenario.is_in(Phase.DEAD)
