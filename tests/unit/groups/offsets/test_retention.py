"""Retention: when offsets and groups go by themselves."""

from typing import Unpack

import pytest

from kohort.groups.commands import SweepOffsets
from kohort.groups.events import GroupTombstoned, OffsetsDeleted
from kohort.groups.offsets import retention
from kohort.groups.offsets.apply import put_transactional_offset
from kohort.groups.offsets.state import TransactionalOffset
from kohort.groups.settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.model.ids import Partition, ProducerId, TopicName
from kohort.sim.driver import Scenario
from kohort.sim.members import JoinOptions

MINUTE = 60_000
SETTINGS = GroupSettings(
    offsets_retention_ms=60 * MINUTE,
    offsets_retention_check_interval_ms=MINUTE,
    max_session_timeout_ms=1_000 * MINUTE,
)
T0, OLD0 = ("t", 0), ("old", 0)


def stable(**options: Unpack[JoinOptions]) -> Scenario:
    scenario = Scenario(SETTINGS)
    scenario.member("a").session_timeout = 1_000 * MINUTE
    scenario.join("a", **options)
    scenario.settle()
    return scenario


def test_a_simple_group_forgets_each_offset_after_its_commit_and_goes_with_the_last() -> None:
    scenario = Scenario(SETTINGS)
    scenario.commit(None, {T0: 1})
    scenario.sleep(30 * MINUTE)
    scenario.commit(None, {("t", 1): 2})
    scenario.sleep(30 * MINUTE)
    assert (scenario.committed("t", 0), scenario.committed("t", 1)) == (-1, 2)
    scenario.sleep(30 * MINUTE)
    assert not scenario.exists
    assert scenario.log[-1].value is None
    assert scenario.why(OffsetsDeleted)[-1] == "1 offsets expired, retention is 3,600,000 ms"


def test_a_used_group_lives_from_when_it_became_empty_whatever_its_commits() -> None:
    scenario = stable()
    scenario.commit("a", {T0: 1})
    scenario.sleep(300 * MINUTE)
    scenario.leave("a")
    scenario.sleep(59 * MINUTE)
    assert scenario.committed() == 1
    scenario.commit(None, {("t", 1): 2})
    scenario.sleep(2 * MINUTE)
    assert not scenario.exists
    assert scenario.committed("t", 1) == -1


def test_a_stable_group_forgets_what_it_does_not_consume_any_more() -> None:
    scenario = stable()
    scenario.commit("a", {T0: 1, OLD0: 2})
    scenario.sleep(61 * MINUTE)
    assert (scenario.committed("t"), scenario.committed("old")) == (1, -1)
    assert scenario.exists


@pytest.mark.parametrize("options", [{"protocol_type": "connect"}, {"protocols": [("range", b"?")]}])
def test_a_group_whose_topics_are_unknown_forgets_nothing(options: JoinOptions) -> None:
    scenario = stable(**options)
    scenario.commit("a", {OLD0: 2})
    scenario.sleep(100 * MINUTE)
    assert scenario.committed("old") == 2


def test_while_a_group_rebalances_nothing_expires() -> None:
    scenario = stable()
    scenario.commit("a", {OLD0: 2})
    scenario.join("b", rebalance_timeout=1_000 * MINUTE, session_timeout=1_000 * MINUTE)
    scenario.sleep(4 * MINUTE)
    scenario.order(SweepOffsets())
    assert scenario.committed("old") == 2


def test_an_offset_with_a_retention_of_its_own_goes_by_that() -> None:
    scenario = Scenario(SETTINGS)
    scenario.commit(None, {T0: 1}, retention=5 * MINUTE, version=3)
    scenario.commit(None, {("t", 1): 1}, retention=500 * MINUTE, version=3)
    scenario.sleep(5 * MINUTE)
    assert scenario.committed("t", 0) == -1
    scenario.sleep(60 * MINUTE)
    assert scenario.committed("t", 1) == 1


def test_an_empty_group_without_offsets_lives_for_one_check_with_the_ids_it_gave() -> None:
    scenario = Scenario(SETTINGS)
    scenario.join_once("a", session_timeout=100 * MINUTE)
    scenario.sleep(MINUTE)
    assert not scenario.exists
    assert len(scenario.shard.state.heartbeats) == 0
    assert scenario.why(GroupTombstoned) == ["the group was empty and had no offsets left"]


def test_a_group_loaded_from_an_old_record_goes_by_its_commits() -> None:
    scenario = stable()
    scenario.commit("a", {T0: 1})
    scenario.leave("a")
    scenario.group.state_timestamp = None  # as a record of version 1 leaves it
    scenario.sleep(61 * MINUTE)
    assert not scenario.exists


def test_a_commit_that_is_on_its_way_keeps_offset_and_group() -> None:
    scenario = Scenario(SETTINGS)
    scenario.commit(None, {T0: 1})
    scenario.sleep(59 * MINUTE + 30_000)
    scenario.hold_appends()
    scenario.commit(None, {T0: 2})
    scenario.sleep(MINUTE)
    scenario.release_appends()
    assert scenario.committed() == 2


def test_an_open_transaction_keeps_offset_and_group() -> None:
    scenario = Scenario(SETTINGS)
    scenario.commit(None, {T0: 1})
    address = (scenario.group_id, TopicName("t"), Partition(0))
    table = scenario.shard.state.offsets
    put_transactional_offset(table, ProducerId(1), address, TransactionalOffset(0, b""))
    scenario.sleep(61 * MINUTE)
    assert scenario.committed() == 1


def test_if_the_log_refuses_everything_stays_for_the_next_check() -> None:
    scenario = Scenario(SETTINGS)
    scenario.commit(None, {T0: 1})
    scenario.fail_next_append(ErrorCode.KAFKA_STORAGE_ERROR)
    scenario.sleep(60 * MINUTE)
    assert scenario.committed() == 1
    assert scenario.group.protocol_type is None
    scenario.sleep(MINUTE)
    assert not scenario.exists


def test_many_groups_are_swept_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = Scenario(SETTINGS)
    for number in range(5):
        scenario.commit(None, {T0: 1}, group=f"g{number}")
    scenario.sleep(59 * MINUTE)
    monkeypatch.setattr(retention, "OFFSETS_AT_A_TIME", 4)
    scenario.sleep(MINUTE)
    assert len(scenario.shard.state.groups) == 3  # an offset and a group count for one each
    scenario.admin.delete_groups("g2")  # gone before its turn comes
    scenario.sleep(5)
    assert not scenario.shard.state.groups
