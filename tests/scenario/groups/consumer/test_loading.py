"""Consumer groups after a restart, and from logs of other brokers (modern-groups 15 and 18)."""

import pytest

from kohort.groups.consumer.assignment import MemberState
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
from kohort.sim.consumers import ConsumerScenario


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
