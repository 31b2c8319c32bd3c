"""OffsetCommit."""

import pytest

from kohort.groups.classic.transitions import Phase
from kohort.groups.events import GroupDied, OffsetsCommitted
from kohort.groups.replies import CommittedRow
from kohort.groups.settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.model.ids import Partition, ReplyTo, TopicId, TopicName
from kohort.records.group_records import OffsetCommitKey, OffsetCommitValue
from kohort.records.offsets_topic import decode_commit, decode_key
from kohort.sim.clock import EPOCH
from kohort.sim.driver import Scenario

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID
ONE = {("t", 0): 5}


def errors(scenario: Scenario, request: ReplyTo) -> list[ErrorCode]:
    return [row.error for row in scenario.replies[request].rows]


@pytest.mark.parametrize(
    ("generation", "version", "error"),
    [(5, 8, ErrorCode.ILLEGAL_GENERATION), (5, 9, ErrorCode.GROUP_ID_NOT_FOUND), (-1, 9, NONE)],
)
def test_a_group_that_does_not_exist_is_made_by_commits_from_outside_only(
    generation: int, version: int, error: ErrorCode
) -> None:
    scenario = Scenario()
    request = scenario.commit(None, ONE, generation=generation, version=version)
    assert errors(scenario, request) == [error]
    assert scenario.exists == (error is NONE)


def test_a_simple_group_is_known_by_its_offsets_alone() -> None:
    scenario = Scenario()
    scenario.commit(None, ONE)
    assert (scenario.phase, scenario.group.protocol_type) == (Phase.EMPTY, None)
    assert len(scenario.log) == 1
    scenario.restart()
    assert (scenario.phase, scenario.committed()) == (Phase.EMPTY, 5)


def test_what_is_stored() -> None:
    scenario = Scenario()
    scenario.sleep(1_000)
    scenario.commit(None, {("t", 3): 42}, metadata="m", leader_epoch=7)
    record = scenario.log[0]
    assert decode_key(record.key) == OffsetCommitKey("g", "t", 3)
    assert record.value is not None
    assert decode_commit(record.value) == OffsetCommitValue(42, 7, "m", EPOCH + 1_000)
    assert record.timestamp == EPOCH + 1_000
    row = scenario.shard.state.offsets.get(scenario.group_id, TopicName("t"), Partition(3))
    assert row is not None
    assert (row.offset, row.leader_epoch, row.metadata, row.commit_timestamp) == (42, 7, "m", EPOCH + 1_000)


def test_a_retention_of_its_own_and_a_topic_id_are_stored_with_the_offset() -> None:
    scenario = Scenario()
    topic_id = TopicId(bytes(range(16)))
    scenario.commit(None, {("t", 0): 1}, retention=60_000, version=3)
    scenario.commit(None, {("t", 1): 1}, topic_id=topic_id)
    values = [decode_commit(record.value) for record in scenario.log if record.value is not None]
    assert values[0].expire_timestamp == EPOCH + 60_000
    assert values[1].topic_id == topic_id


@pytest.mark.parametrize("retention", [2**63 - 1, 2**63 - 1 - EPOCH, -(2**63), -2, 0])
def test_any_retention_can_be_stored(retention: int) -> None:
    scenario = Scenario()
    scenario.commit(None, {("t", 0): 1}, retention=retention, version=2)
    (value,) = [decode_commit(record.value) for record in scenario.log if record.value is not None]
    assert value.expire_timestamp == min(EPOCH + retention, 2**63 - 1)


def test_an_empty_group_takes_commits_from_outside_whoever_they_name() -> None:
    scenario = Scenario()
    scenario.join_once("a")
    assert errors(scenario, scenario.commit("a", ONE, generation=-1, instance="i")) == [NONE]
    assert errors(scenario, scenario.commit("a", ONE, generation=0)) == [UNKNOWN]


def test_a_member_commits_in_its_generation_only() -> None:
    scenario = Scenario.stable(a=10_000)
    assert errors(scenario, scenario.commit("a", ONE)) == [NONE]
    assert errors(scenario, scenario.commit("a", ONE, generation=0)) == [ErrorCode.ILLEGAL_GENERATION]
    assert errors(scenario, scenario.commit("a", ONE, generation=-1)) == [ErrorCode.ILLEGAL_GENERATION]
    assert errors(scenario, scenario.commit("a", ONE, member_id="x")) == [UNKNOWN]
    assert errors(scenario, scenario.commit(None, ONE)) == [UNKNOWN]
    assert errors(scenario, scenario.commit(None, ONE, instance="i")) == [UNKNOWN]


def test_the_phase_decides_for_members() -> None:
    scenario = Scenario.stable(a=10_000, b=10_000)
    scenario.join("b", changed=True)
    assert errors(scenario, scenario.commit("a", ONE)) == [NONE]  # the old generation, while it is prepared
    scenario.join("a")
    assert errors(scenario, scenario.commit("a", ONE)) == [ErrorCode.REBALANCE_IN_PROGRESS]
    scenario.unload()
    assert errors(scenario, scenario.commit("a", ONE)) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_an_accepted_commit_keeps_the_session_and_a_refused_one_does_not() -> None:
    scenario = Scenario.stable(a=10_000)
    scenario.sleep(9_000)
    scenario.commit("a", ONE)
    scenario.sleep(9_000)
    scenario.commit("a", ONE, generation=0)
    scenario.sleep(1_000)
    assert scenario.is_in(Phase.EMPTY)


def test_metadata_is_counted_in_utf_16_units() -> None:
    scenario = Scenario()
    assert errors(scenario, scenario.commit(None, ONE, metadata="日" * 4_096)) == [NONE]
    assert errors(scenario, scenario.commit(None, ONE, metadata="😀" * 2_048)) == [NONE]
    too_long = scenario.commit(None, ONE, metadata="😀" * 2_049)
    assert errors(scenario, too_long) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]


def test_too_much_metadata_refuses_its_partition_only() -> None:
    scenario = Scenario(GroupSettings(offset_metadata_max_bytes=2))
    rows = {("t", 0): 1, ("t", 1): 2}
    assert (
        errors(scenario, scenario.commit(None, rows, metadata="abc"))
        == [ErrorCode.OFFSET_METADATA_TOO_LARGE] * 2
    )
    assert not scenario.log


def test_metadata_that_no_record_can_hold_is_too_large_whatever_is_allowed() -> None:
    scenario = Scenario(GroupSettings(offset_metadata_max_bytes=1_000_000))
    too_long = scenario.commit(None, ONE, metadata="x" * 32_768)
    assert errors(scenario, too_long) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]


def test_a_group_id_that_no_record_can_hold_is_refused() -> None:
    scenario = Scenario(group="日" * 11_000)
    assert errors(scenario, scenario.commit(None, ONE)) == [ErrorCode.INVALID_GROUP_ID]


def test_the_empty_group_id_is_a_group_like_any_other() -> None:
    scenario = Scenario(group="")
    scenario.commit(None, ONE)
    assert scenario.committed() == 5


def test_all_rows_are_one_batch_and_one_event() -> None:
    scenario = Scenario()
    scenario.hold_appends()
    request = scenario.commit(None, {("t", 0): 1, ("u", 1): 2})
    assert len(scenario.node.unsettled) == 1
    assert len(scenario.node.unsettled[0].records) == 2
    assert scenario.is_parked(request)
    scenario.release_appends()
    assert scenario.replies[request].rows == (
        CommittedRow(TopicName("t"), Partition(0), NONE),
        CommittedRow(TopicName("u"), Partition(1), NONE),
    )
    assert scenario.sent[-1].after == 1
    assert scenario.why(OffsetsCommitted) == ["an offset commit of 2 partitions from outside the membership"]


def test_a_first_commit_that_cannot_be_stored_leaves_no_group_behind() -> None:
    scenario = Scenario()
    scenario.fail_next_append(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert errors(scenario, scenario.commit(None, ONE)) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert not scenario.exists
    assert scenario.why(GroupDied) == ["the log refused the write: NOT_ENOUGH_REPLICAS"]
