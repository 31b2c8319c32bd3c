"""Messages of the wire become commands, and replies become messages."""

from typing import NamedTuple

import pytest

from kohort.groups.commands import Leaver, OwnedTopic
from kohort.groups.replies import AssignedTopic, ConsumerHeartbeatReply, JoinReply
from kohort.groups.translation import (
    consumer_group_heartbeat,
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    sync_group,
)
from kohort.model.errors import ErrorCode
from kohort.model.ids import InstanceId, MemberId, Partition, ReplyTo, TopicId, TopicName
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
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
    join = join_group.command(asked, Peer(), ASKED, "fresh")
    assert (join.reply_to, join.group_id, join.instance_id, join.fresh_id) == (7, "g", "i", "fresh")
    assert (join.client_id, join.client_host, join.version) == ("app", "/10.0.0.7", 9)
    assert join.protocols == (("range", b"m"),)


@pytest.mark.parametrize(("version", "name"), [(6, ""), (7, None)])
def test_a_join_without_a_protocol_is_null_from_version_7_on(version: int, name: str | None) -> None:
    reply = JoinReply(error=ErrorCode.UNKNOWN_MEMBER_ID, member_id=MemberId("m"))
    response = join_group.response(reply, version)
    assert (response.error_code, response.member_id, response.protocol_name) == (25, "m", name)


def test_a_sync_of_a_leader_has_the_assignments() -> None:
    given = [SyncGroupRequestAssignment(member_id="m", assignment=b"a")]
    sync = sync_group.command(SyncGroupRequest(group_id="g", generation_id=3, assignments=given), 5, ASKED)
    assert (sync.generation, sync.assignments, sync.instance_id, sync.version) == (3, (("m", b"a"),), None, 5)


def test_a_heartbeat_names_a_member_and_its_generation() -> None:
    beat = heartbeat.command(HeartbeatRequest(group_id="g", generation_id=3, member_id="m"), ASKED)
    assert (beat.group_id, beat.member_id, beat.generation) == ("g", "m", 3)


def test_before_version_3_one_member_leaves() -> None:
    one = leave_group.command(LeaveGroupRequest(group_id="g", member_id="m"), 2, ASKED)
    assert one.leavers == (Leaver(MemberId("m")),)
    gone = [MemberIdentity(member_id="", group_instance_id="i", reason="bye")]
    several = leave_group.command(LeaveGroupRequest(group_id="g", members=gone), 5, ASKED)
    assert several.leavers == (Leaver(MemberId(""), InstanceId("i"), "bye"),)


def test_a_consumer_heartbeat_keeps_null_and_nothing_apart() -> None:
    silent = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", subscribed_topic_names=None, topic_partitions=None
    )
    extras = consumer_group_heartbeat.ConsumerExtras()
    command = consumer_group_heartbeat.command(silent, Peer(1), ASKED, extras)
    assert (command.names, command.owned, command.expression) == (None, None, None)
    owned = [TopicPartitions(topic_id=T, partitions=[1, 0])]
    silent.topic_partitions, silent.subscribed_topic_names = owned, []
    command = consumer_group_heartbeat.command(silent, Peer(1), ASKED, extras)
    assert (command.names, command.owned) == ((), (OwnedTopic(T, (Partition(1), Partition(0))),))


def test_an_empty_assignment_is_not_the_same_as_none() -> None:
    assert consumer_group_heartbeat.response(ConsumerHeartbeatReply()).assignment is None
    empty = consumer_group_heartbeat.response(ConsumerHeartbeatReply(assignment=()))
    assert empty.assignment is not None
    assert empty.assignment.topic_partitions == []
    given = ConsumerHeartbeatReply(assignment=(AssignedTopic(T, (Partition(2),)),))
    shown = consumer_group_heartbeat.response(given).assignment
    assert shown is not None
    assert [(each.topic_id, each.partitions) for each in shown.topic_partitions] == [(T, [2])]


@pytest.mark.parametrize("version", [9, 10])
def test_a_commit_is_answered_by_topic(version: int) -> None:
    parts = [OffsetCommitRequestPartition(partition_index=n, committed_offset=5 + n) for n in (0, 1)]
    asked = OffsetCommitRequestTopic(name="t", topic_id=T, partitions=parts)
    rows = [offset_commit.commit_row(TopicName("t"), asked, part) for part in parts]
    request = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=4, topics=[asked])
    command = offset_commit.command(request, version, rows, ASKED)
    assert [(row.partition, row.offset) for row in command.rows] == [(0, 5), (1, 6)]
    assert (command.generation, command.version) == (4, version)
    results = [(row, ErrorCode.STALE_MEMBER_EPOCH) for row in rows]
    (topic,) = offset_commit.response(OffsetCommitResponse(), results, version).topics
    assert [(part.partition_index, part.error_code) for part in topic.partitions] == [(0, 113), (1, 113)]
