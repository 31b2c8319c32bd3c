"""The partition goes."""

from kohort.groups.classic.transitions import Phase
from kohort.groups.events import GroupDied
from kohort.groups.replies import DescribeReply, FetchReply, JoinReply, ListReply, SyncReply
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId
from kohort.sim.driver import Scenario

MOVED = ErrorCode.NOT_COORDINATOR


def test_parked_joins_are_sent_away_with_their_id() -> None:
    scenario = Scenario()
    request = scenario.join("a")
    scenario.unload()
    assert scenario.replies[request] == JoinReply(error=MOVED, member_id=scenario.id_of("a"))
    assert scenario.is_in(Phase.DEAD)


def test_parked_syncs_are_sent_away() -> None:
    scenario = Scenario()
    scenario.join("a")
    scenario.join("b")
    scenario.sleep(6_000)
    request = scenario.sync("b")
    scenario.unload()
    assert scenario.replies[request] == SyncReply(error=MOVED)


def test_everyone_who_waits_for_the_log_is_told() -> None:
    scenario = Scenario.stable(a=10_000)
    scenario.join("s", instance="s", group="static")
    scenario.sleep(3_000)
    scenario.sync_all("static")
    scenario.hold_appends()
    static = scenario.join("s", member_id="", group="static")
    commit = scenario.commit("a", {("t", 0): 1})
    delete = scenario.admin.delete_offsets(("old", 0))
    stable = scenario.fetch(require_stable=True)
    described, listed = scenario.admin.describe(), scenario.admin.list_groups()
    leave = scenario.leave("a")
    deleted = scenario.admin.delete_groups("g")
    scenario.unload()
    assert scenario.replies[commit].rows[0].error is MOVED
    assert scenario.error(delete) is MOVED
    assert scenario.replies[stable] == FetchReply(error=MOVED)
    assert scenario.replies[described] == DescribeReply(group_id=GroupId("g"), error=MOVED)
    assert scenario.replies[listed] == ListReply(error=MOVED)
    assert scenario.error(leave) is MOVED
    assert scenario.replies[deleted].groups[0].error is MOVED
    assert scenario.error(static) is MOVED


def test_a_sweep_that_was_being_stored_has_nobody_to_tell() -> None:
    scenario = Scenario()
    scenario.join_once("a")
    scenario.hold_appends()
    scenario.sleep(600_000)
    sent = len(scenario.sent)
    scenario.unload()
    assert len(scenario.sent) == sent


def test_no_timer_is_left_and_late_reports_of_the_log_are_ignored() -> None:
    scenario = Scenario.stable(a=10_000)
    scenario.join("b")
    scenario.hold_appends()
    scenario.commit("a", {("t", 0): 1})
    scenario.unload()
    assert scenario.shard.next_deadline() is None
    scenario.release_appends()
    assert scenario.why(GroupDied) == ["the coordinator of this group moved away"]


def test_a_dead_group_has_no_offsets() -> None:
    scenario = Scenario()
    scenario.commit(None, {("t", 0): 1})
    scenario.unload()
    assert scenario.committed() == -1
    scenario.unload()  # twice is harmless
    assert scenario.is_in(Phase.DEAD)
