"""Group requests in few words, for the tests of this folder."""

import struct

from tests.broker.raw import Raw, Reply

from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

GROUP = "g"


def find(raw: Raw, key: str = GROUP, version: int = 3) -> Reply:
    """Look the coordinator up, which makes the offsets topic."""
    return raw.send(FindCoordinatorRequest(key=key), version)


def subscription(*topics: str) -> bytes:
    """What a consumer says of itself: version 0, topics, no user data."""
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


def join_request(
    member_id: str = "",
    *,
    group: str = GROUP,
    session_ms: int = 10_000,
    instance: str | None = None,
    kind: str = "consumer",
    protocols: tuple[str, ...] = ("range",),
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=30_000,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type=kind,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=subscription("t")) for name in protocols],
    )


def sync_request(
    member_id: str, generation: int, assignments: dict[str, bytes] | None = None, *, group: str = GROUP
) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[
            SyncGroupRequestAssignment(member_id=member, assignment=content)
            for member, content in (assignments or {}).items()
        ],
    )


def heartbeat_request(member_id: str, generation: int, *, group: str = GROUP) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id)


def alone(raw: Raw, *, group: str = GROUP) -> tuple[str, int]:
    """Become the only member of a group, with an assignment; returns member id and generation."""
    find(raw, group)
    joined = raw.send(join_request(group=group), 3)
    assert joined.error_code == 0, joined
    member_id: str = joined.member_id
    generation: int = joined.generation_id
    request = sync_request(member_id, generation, {member_id: b"everything"}, group=group)
    assert raw.send(request, 3).error_code == 0
    return member_id, generation


def commit_request(
    *partitions: tuple[int, int],
    topic: str | bytes = "t",
    group: str = GROUP,
    member: tuple[str, int] = ("", -1),
    metadata: str | None = "",
    epoch: int = -1,
) -> OffsetCommitRequest:
    """Offsets for partitions of one topic; by an administrator unless a member is named."""
    where = OffsetCommitRequestTopic(
        partitions=[
            OffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=offset,
                committed_leader_epoch=epoch,
                committed_metadata=metadata,
            )
            for index, offset in partitions
        ]
    )
    if isinstance(topic, bytes):
        where.topic_id = topic
    else:
        where.name = topic
    return OffsetCommitRequest(
        group_id=group, member_id=member[0], generation_id_or_member_epoch=member[1], topics=[where]
    )
