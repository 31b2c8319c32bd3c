"""Broken states are noticed, each for its reason."""

from collections.abc import Callable

import pytest

from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import Protocol
from kohort.groups.settings import GroupSettings
from kohort.model.ids import Generation, InstanceId, MemberId, ReplyTo
from kohort.sim.driver import Scenario
from kohort.sim.invariants import broken_invariants, durable_difference

X = MemberId("x")


def complaints(scenario: Scenario, *waiting: ReplyTo) -> list[str]:
    return list(broken_invariants(scenario.shard, waiting))


def member_a(scenario: Scenario) -> MemberId:
    return scenario.id_of("a")


def test_a_sound_shard_has_nothing_to_complain_about() -> None:
    scenario = Scenario.stable(a=10_000, b=10_000)
    assert complaints(scenario) == []
    request = scenario.join("b", changed=True)
    assert complaints(scenario, request) == []
    scenario.hold_appends()
    commit = scenario.commit("a", {("t", 0): 1})
    described, fetched = scenario.admin.describe(), scenario.fetch(require_stable=True)
    assert complaints(scenario, request, commit, described, fetched) == []
    scenario.unload()
    assert complaints(scenario) == []


def _lose_leader(scenario: Scenario) -> None:
    scenario.group.leader = X


def _empty(scenario: Scenario) -> None:
    scenario.group.phase = Phase.EMPTY


def _forget_members(scenario: Scenario) -> None:
    scenario.group.members.clear()


def _misfile(scenario: Scenario) -> None:
    scenario.group.members[member_a(scenario)].member_id = X


def _expect_a_member(scenario: Scenario) -> None:
    scenario.group.pending[member_a(scenario)] = None


def _mix_up_instances(scenario: Scenario) -> None:
    scenario.group.instances[InstanceId("i")] = X


def _miscount(scenario: Scenario) -> None:
    scenario.group.awaiting_join = 1


def _park_a_join(scenario: Scenario) -> None:
    scenario.group.members[member_a(scenario)].parked_join = ReplyTo(99)


def _park_a_sync(scenario: Scenario) -> None:
    scenario.group.members[member_a(scenario)].parked_sync = ReplyTo(99)
    scenario.group.pending_sync[member_a(scenario)] = None


def _expect_syncs(scenario: Scenario) -> None:
    scenario.group.pending_sync[member_a(scenario)] = None
    scenario.group.phase = Phase.PREPARING_REBALANCE


def _miscount_offers(scenario: Scenario) -> None:
    scenario.group.offers["range"] = 7


def _share_nothing(scenario: Scenario) -> None:
    scenario.group.members[member_a(scenario)].protocols = (Protocol("x", b""),)


def _lose_protocol(scenario: Scenario) -> None:
    scenario.group.protocol = None


def _lose_session(scenario: Scenario) -> None:
    scenario.shard.state.heartbeats.cancel((scenario.group_id, member_a(scenario)))


def _keep_session(scenario: Scenario) -> None:
    del scenario.shard.state.groups[scenario.group_id]


@pytest.mark.parametrize(
    ("breakage", "complaint"),
    [
        (_lose_leader, "leader x among members"),
        (_empty, "empty with members"),
        (_forget_members, "Stable without members"),
        (_misfile, "filed under another id"),
        (_expect_a_member, "still expected as a handed-out id"),
        (_mix_up_instances, "instances {'i': 'x'}"),
        (_miscount, "counts 1 parked joins, has 0"),
        (_park_a_join, "keeps joins waiting in Stable"),
        (_park_a_join, "but the shard holds [99]"),
        (_park_a_sync, "keeps syncs waiting in Stable"),
        (_park_a_sync, "waits for a sync that is there"),
        (_park_a_sync, "sync timer: False"),
        (_expect_syncs, "expects syncs in PreparingRebalance"),
        (_expect_syncs, "join timer: False"),
        (_miscount_offers, "counts offers"),
        (_share_nothing, "no protocol that all members offer"),
        (_lose_protocol, "Stable without a protocol"),
        (_lose_session, "no timer watches the session"),
        (_keep_session, "is gone from 'g' but has a timer"),
    ],
)
def test_a_broken_shard_is_told_what_is_wrong(breakage: Callable[[Scenario], None], complaint: str) -> None:
    scenario = Scenario.stable(a=10_000, b=10_000)
    breakage(scenario)
    assert any(complaint in each for each in complaints(scenario))


def test_preparing_for_nobody_is_noticed() -> None:
    scenario = Scenario.stable(a=10_000)
    scenario.join_once("p")
    scenario.join("a", changed=True)
    scenario.group.pending.clear()
    assert any("although everyone has joined" in each for each in complaints(scenario))


def test_the_log_rebuilds_what_is_durable() -> None:
    scenario = Scenario.stable(a=10_000, b=10_000)
    scenario.commit("a", {("t", 0): 1})
    settings = GroupSettings()
    assert list(durable_difference(scenario.shard, scenario.log, settings)) == []
    scenario.leave("a", "b")
    assert list(durable_difference(scenario.shard, scenario.log, settings)) == []
    scenario.group.generation = Generation(9)
    scenario.shard.state.offsets.groups.clear()
    found = list(durable_difference(scenario.shard, scenario.log, settings))
    assert "but the log has" in found[0]
    assert "offsets of 'g' are {}" in found[1]


def test_a_group_between_generations_is_not_compared() -> None:
    scenario = Scenario.stable(a=10_000)
    scenario.join("b")
    assert list(durable_difference(scenario.shard, scenario.log, GroupSettings())) == []


def test_what_is_on_its_way_cannot_be_compared() -> None:
    scenario = Scenario()
    scenario.hold_appends()
    scenario.commit(None, {("t", 0): 1})
    with pytest.raises(AssertionError, match="not stored"):
        list(durable_difference(scenario.shard, scenario.log, GroupSettings()))
