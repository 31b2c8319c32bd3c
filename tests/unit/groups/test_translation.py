"""Messages of the wire become commands, and replies become messages."""

from typing import NamedTuple

import pytest

from kohort.groups.commands import Leaver, OwnedTopic
from kohort.groups.replies import (
    AssignedTopic,
    ConsumerDescribeReply,
    ConsumerHeartbeatReply,
    DeletedGroup,
    DeletedOffset,
    DeleteOffsetsReply,
    DescribedConsumerMember,
    DescribedMember,
    DescribeReply,
    FetchedOffset,
    GroupListing,
    JoinReply,
    NamedAssignedTopic,
)
from kohort.groups.translation import admin, classic, consumer, offsets
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId, InstanceId, MemberId, Partition, ReplyTo, TopicId, TopicName
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.wire.messages.list_groups import ListGroupsRequest
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

ASKED = ReplyTo(7)
T = TopicId(bytes(15) + b"\1")


class Peer(NamedTuple):
    """Who sends."""

    version: int = 9
    client_id: str = "app"
    client_host: str = "/10.0.0.7"


def test_a_join_says_who_sends_it_and_in_which_version() -> None:
    asked = JoinGroupRequest(
        group_id="g", group_instance_id="i", protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")]
    )
    join = classic.join_command(asked, Peer(), ASKED, "fresh")
    assert (join.reply_to, join.group_id, join.instance_id, join.fresh_id) == (7, "g", "i", "fresh")
    assert (join.client_id, join.client_host, join.version) == ("app", "/10.0.0.7", 9)
    assert join.protocols == (("range", b"m"),)


@pytest.mark.parametrize(("version", "name"), [(6, ""), (7, None)])
def test_a_join_without_a_protocol_is_null_from_version_7_on(version: int, name: str | None) -> None:
    reply = JoinReply(error=ErrorCode.UNKNOWN_MEMBER_ID, member_id=MemberId("m"))
    response = classic.join_response(reply, version)
    assert (response.error_code, response.member_id, response.protocol_name) == (25, "m", name)


def test_a_sync_of_a_leader_has_the_assignments() -> None:
    given = [SyncGroupRequestAssignment(member_id="m", assignment=b"a")]
    sync = classic.sync_command(SyncGroupRequest(group_id="g", generation_id=3, assignments=given), 5, ASKED)
    assert (sync.generation, sync.assignments, sync.instance_id, sync.version) == (3, (("m", b"a"),), None, 5)


def test_a_heartbeat_names_a_member_and_its_generation() -> None:
    beat = classic.heartbeat_command(HeartbeatRequest(group_id="g", generation_id=3, member_id="m"), ASKED)
    assert (beat.group_id, beat.member_id, beat.generation) == ("g", "m", 3)


def test_before_version_3_one_member_leaves() -> None:
    one = classic.leave_command(LeaveGroupRequest(group_id="g", member_id="m"), 2, ASKED)
    assert one.leavers == (Leaver(MemberId("m")),)
    gone = [MemberIdentity(member_id="", group_instance_id="i", reason="bye")]
    several = classic.leave_command(LeaveGroupRequest(group_id="g", members=gone), 5, ASKED)
    assert several.leavers == (Leaver(MemberId(""), InstanceId("i"), "bye"),)


def test_a_consumer_heartbeat_keeps_null_and_nothing_apart() -> None:
    silent = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", subscribed_topic_names=None, topic_partitions=None
    )
    extras = consumer.ConsumerExtras()
    command = consumer.heartbeat_command(silent, Peer(1), ASKED, extras)
    assert (command.names, command.owned, command.expression) == (None, None, None)
    owned = [TopicPartitions(topic_id=T, partitions=[1, 0])]
    silent.topic_partitions, silent.subscribed_topic_names = owned, []
    command = consumer.heartbeat_command(silent, Peer(1), ASKED, extras)
    assert (command.names, command.owned) == ((), (OwnedTopic(T, (Partition(1), Partition(0))),))


def test_an_empty_assignment_is_not_the_same_as_none() -> None:
    assert consumer.heartbeat_response(ConsumerHeartbeatReply()).assignment is None
    empty = consumer.heartbeat_response(ConsumerHeartbeatReply(assignment=()))
    assert empty.assignment is not None
    assert empty.assignment.topic_partitions == []
    given = ConsumerHeartbeatReply(assignment=(AssignedTopic(T, (Partition(2),)),))
    shown = consumer.heartbeat_response(given).assignment
    assert shown is not None
    assert [(each.topic_id, each.partitions) for each in shown.topic_partitions] == [(T, [2])]


@pytest.mark.parametrize("version", [9, 10])
def test_a_commit_is_answered_by_topic(version: int) -> None:
    parts = [OffsetCommitRequestPartition(partition_index=n, committed_offset=5 + n) for n in (0, 1)]
    asked = OffsetCommitRequestTopic(name="t", topic_id=T, partitions=parts)
    rows = [offsets.commit_row(TopicName("t"), asked, part) for part in parts]
    request = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=4, topics=[asked])
    command = offsets.commit_command(request, version, rows, ASKED)
    assert [(row.partition, row.offset) for row in command.rows] == [(0, 5), (1, 6)]
    assert (command.generation, command.version) == (4, version)
    results = [(row, ErrorCode.STALE_MEMBER_EPOCH) for row in rows]
    (topic,) = offsets.commit_response(OffsetCommitResponse(), results, version).topics
    assert [(part.partition_index, part.error_code) for part in topic.partitions] == [(0, 113), (1, 113)]


def test_a_fetch_of_a_member_has_its_epoch_and_null_asks_for_everything() -> None:
    group = OffsetFetchRequestGroup(group_id="g", member_id="m", member_epoch=4, topics=None)
    command = offsets.fetch_command(group, None, ASKED, require_stable=True)
    assert (command.group_id, command.member_id, command.member_epoch) == ("g", "m", 4)
    assert (command.topics, command.require_stable) == (None, True)
    no_member = offsets.fetch_command(OffsetFetchRequestGroup(group_id="g"), (), ASKED, require_stable=False)
    assert (no_member.member_id, no_member.member_epoch, no_member.topics) == (None, -1, ())


def test_before_version_8_a_fetch_is_of_one_group() -> None:
    asked = OffsetFetchRequest(
        group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[2])]
    )
    group = offsets.only_group(asked)
    assert group.topics is not None
    assert (group.group_id, group.topics[0].name, group.topics[0].partition_indexes) == ("g", "t", [2])
    assert offsets.only_group(OffsetFetchRequest(group_id="g", topics=None)).topics is None
    row = FetchedOffset(TopicName("t"), Partition(2), 9, 3, "note", ErrorCode.NONE)
    for part in (offsets.fetched_partition(row), offsets.of_only_group(offsets.fetched_partition(row))):
        assert (part.partition_index, part.committed_offset, part.committed_leader_epoch) == (2, 9, 3)
        assert (part.metadata, part.error_code) == ("note", 0)


def test_unknown_partitions_come_first_in_the_answer_to_a_deletion_of_offsets() -> None:
    asked = OffsetDeleteRequest(
        group_id="g",
        topics=[
            OffsetDeleteRequestTopic(
                name="t", partitions=[OffsetDeleteRequestPartition(partition_index=n) for n in (0, 7)]
            )
        ],
    )
    known, unknown = offsets.partitions_to_delete(asked)
    command = offsets.delete_command(asked, [known], ASKED)
    assert (command.group_id, command.partitions) == ("g", (("t", 0),))
    reply = DeleteOffsetsReply(rows=(DeletedOffset(*known, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC),))
    (topic,) = offsets.delete_response(reply, [unknown]).topics
    assert [(part.partition_index, part.error_code) for part in topic.partitions] == [(7, 3), (0, 86)]
    refused = offsets.delete_response(DeleteOffsetsReply(error=ErrorCode.GROUP_ID_NOT_FOUND), [unknown])
    assert (refused.error_code, refused.topics) == (69, [])


def test_groups_are_listed_by_state_and_type() -> None:
    asked = ListGroupsRequest(states_filter=["Stable"], types_filter=["Consumer"])
    command = admin.list_command(asked, ASKED)
    assert (command.states, command.types) == (("Stable",), ("Consumer",))
    shown = admin.listed_group(GroupListing(GroupId("g"), "consumer", "Stable", "Consumer"))
    assert (shown.group_id, shown.protocol_type) == ("g", "consumer")
    assert (shown.group_state, shown.group_type) == ("Stable", "Consumer")


def test_a_group_is_described_with_its_members() -> None:
    assert admin.describe_command("g", 5, ASKED).version == 5
    member = DescribedMember(MemberId("m"), None, "app", "/10.0.0.7", b"topics", b"mine")
    reply = DescribeReply(group_id=GroupId("g"), state="Stable", protocol="range", members=(member,))
    shown = admin.described_group("g", reply)
    assert (shown.group_id, shown.group_state, shown.protocol_data) == ("g", "Stable", "range")
    assert [(each.member_metadata, each.member_assignment) for each in shown.members] == [
        (b"topics", b"mine")
    ]


@pytest.mark.parametrize(("is_classic", "kind"), [(True, 0), (False, 1)])
def test_a_consumer_group_is_described_with_the_kind_of_its_members(is_classic: bool, kind: int) -> None:
    assert consumer.describe_command("g", ASKED).group_id == "g"
    owned = (NamedAssignedTopic(T, TopicName("t"), (Partition(0),)),)
    client = ("app", "/10.0.0.7")
    member = DescribedConsumerMember(MemberId("m"), None, None, 3, *client, (), "", owned, (), is_classic)
    reply = ConsumerDescribeReply(group_id=GroupId("g"), group_epoch=4, assignment_epoch=3, members=(member,))
    group = consumer.described_group("g", reply)
    assert (group.group_epoch, group.assignment_epoch) == (4, 3)
    (shown,) = group.members
    assert (shown.member_epoch, shown.member_type) == (3, kind)
    assert [(each.topic_name, each.partitions) for each in shown.assignment.topic_partitions] == [("t", [0])]
    assert shown.target_assignment.topic_partitions == []


def test_a_deletion_names_a_group_and_what_became_of_it() -> None:
    assert admin.delete_command("g", ASKED).group_ids == ("g",)
    shown = admin.deleted_group(DeletedGroup(GroupId("g"), ErrorCode.NON_EMPTY_GROUP))
    assert (shown.group_id, shown.error_code) == ("g", 68)
