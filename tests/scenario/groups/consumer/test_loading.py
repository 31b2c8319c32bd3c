"""Consumer groups after a restart, and from logs of other brokers (modern-groups 15 and 18)."""

from collections.abc import Callable

import pytest

from kohort.groups.consumer.assignment import MemberState
from kohort.groups.settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.model.ids import MemberId, WallTime
from kohort.records.group_records import (
    AssignedPartitions,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    RecordKey,
    RecordValue,
)
from kohort.records.offsets_topic import encode_key, encode_value
from kohort.records.record import Record
from kohort.sim.consumers import Beat, ConsumerScenario


def append(group: ConsumerScenario, key: RecordKey | bytes, value: RecordValue | bytes) -> None:
    """What another broker has written."""
    stored_key = key if isinstance(key, bytes) else encode_key(key)
    stored = value if isinstance(value, bytes) else encode_value(value)
    group.node.log.append(Record(len(group.node.log), WallTime(0), stored_key, stored))


def test_records_of_older_and_other_groups_are_read() -> None:
    """Modern scenario 86. Given a log with records of type 4, and of share and streams groups, then it loads;
    a tombstone of type 4 follows with the next epoch."""
    group = ConsumerScenario(t=2)
    group.join("a")
    append(group, ConsumerGroupPartitionMetadataKey("g"), ConsumerGroupPartitionMetadataValue([]))
    append(group, b"\x00\x0b\x00\x01s", b"\x00\x00")
    append(group, b"\x00\x11\x00\x01s", b"\x00\x00")
    group.node.restart()
    log = len(group.node.log)
    group.node.put_topic("t", 3)
    group.beat("a")
    assert group.written(log)[:2] == ["4t", "3"]


def test_the_id_of_a_share_group_in_a_log_of_kafka_is_free() -> None:
    """Modern scenario 12. Its records are left alone: a heartbeat finds no group, and a member may join."""
    group = ConsumerScenario(t=2)
    append(group, b"\x00\x0b\x00\x01g", b"\x00\x00\x00\x00\x00\x05\x00")
    group.node.restart()
    assert group.beat("a", epoch=5).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert group.join("a").assignment == {"t": [0, 1]}


def test_of_two_owners_the_newer_one_keeps_a_partition() -> None:
    """Compaction can leave two owners in the log: the member with the higher epoch has the partition."""
    group = ConsumerScenario(t=2)
    group.join("a")
    group.join("b")
    group.settle()
    assert group.assigned("a") == {"t": [0]}
    both = [AssignedPartitions(group.topic_id("t"), [0, 1])]
    value = ConsumerGroupCurrentMemberAssignmentValue(1, 1, MemberState.STABLE, both, [])
    append(group, ConsumerGroupCurrentMemberAssignmentKey("g", "a"), value)
    group.node.restart()
    assert (group.assigned("a"), group.assigned("b")) == ({"t": [0]}, {"t": [1]})


@pytest.mark.parametrize("seed", range(7))
def test_a_compacted_log_is_the_same_group(seed: int) -> None:
    """Whatever a compaction leaves out, the group that is loaded is the same."""
    group = ConsumerScenario(t=3)
    for name in "abc":
        group.join(name)
        group.beat("a")
    group.beat("b", epoch=-1)
    group.acknowledge("a")
    before = {each: member.current for each, member in group.group.members.items()}
    epochs = group.group.epoch, group.group.target_epoch
    newest = {record.key: record.offset for record in group.node.log}
    group.node.log = [
        record
        for record in group.node.log
        if newest[record.key] == record.offset or record.offset % 7 == seed
    ]
    group.node.restart()
    assert {each: member.current for each, member in group.group.members.items()} == before
    assert (group.group.epoch, group.group.target_epoch) == epochs
    assert MemberId("b") not in group.group.targets


@pytest.mark.parametrize("failing", range(12))
def test_whichever_append_fails_the_group_goes_on_from_what_is_stored(failing: int) -> None:
    """The request gets an error that makes the client come again, the shard is loaded, nothing is lost."""
    group = ConsumerScenario(t=4)
    steps: list[Callable[[], Beat]] = [
        lambda: group.join("a"),
        lambda: group.join("b"),
        lambda: group.beat("a"),
        lambda: group.beat("a", owned={"t": [0, 1]}),
        lambda: group.beat("b"),
        lambda: group.beat("b", names=["t", "u"]),
        lambda: group.beat("b", epoch=-1),
        lambda: group.join("c"),
        lambda: group.beat("a", owned={"t": [0, 1]}),
        lambda: group.beat("c", owned={}),
        lambda: group.join("d", instance="i"),
        lambda: group.beat("d", epoch=-2, instance="i"),
    ]
    for number, step in enumerate(steps):
        if number == failing:
            group.node.fail_next_append(ErrorCode.NOT_ENOUGH_REPLICAS)
        stored = len(group.node.log)
        refused = step().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        if refused:
            assert len(group.node.log) == stored
            assert number >= failing  # a heartbeat that changes nothing appends nothing
            step()
    group.node.stop_failing()
    group.sleep(0)
    for name, member in group.group.members.items():
        group.epochs[name] = member.current.member_epoch
    if "d" in group.group.members:
        group.join("d", instance="i")
    group.settle()
    assert sum(map(len, group.group.owners.values())) == 4


def test_members_take_no_more_memory_than_they_may() -> None:
    """A member that says too much is refused, and nothing of it stays."""
    group = ConsumerScenario(GroupSettings(max_bytes=10_000), t=1)
    group.join("a")
    long_names = [f"{number:0200}" for number in range(40)]
    assert group.join("b", names=long_names).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert list(group.group.members) == ["a"]
    group.beat("a", epoch=-1)
    assert (group.group.members_bytes, group.node.shard.state.members_bytes) == (0, 0)
