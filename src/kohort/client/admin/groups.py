"""Groups seen from outside: list, describe, their offsets, delete. The calls of ``AsyncAdmin`` and
``Admin``, as functions of a cluster."""

import asyncio
from collections.abc import Collection, Iterable, Mapping

from kohort.assign.protocol import decode_assignment
from kohort.client.admin.results import CommittedOffset, GroupInfo, ListedGroup, MemberInfo
from kohort.client.admin.topics import outcome
from kohort.client.arguments import (
    AnyPartition,
    PartitionKey,
    as_list,
    as_partitions,
    by_topic,
    keyed_by_partition,
)
from kohort.client.cluster import ClusterClient, CoordinatorOf
from kohort.client.committed_offsets import (
    OFFSETS_BY_NAME,
    fetched_code,
    fetched_rows,
    offset_commit_request,
    offset_fetch_request,
)
from kohort.client.errors import BrokerError, check
from kohort.client.metadata import Node
from kohort.model.errors import ErrorCode, ProtocolError
from kohort.model.ids import GroupId, LeaderEpoch, NodeId, Offset, Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.wire.apis import ApiKey
from kohort.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    Member,
)
from kohort.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from kohort.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kohort.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kohort.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kohort.wire.messages.offset_commit import (
    OffsetCommitResponse,
)
from kohort.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from kohort.wire.messages.offset_fetch import (
    OffsetFetchResponse,
)

_MOVED = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


def _at_coordinator(codes: Iterable[int], what: str) -> None:
    """Raise, to be retried, if the coordinator has moved or is loading; other codes are results."""
    for code in codes:
        if code in _MOVED:
            raise BrokerError(code, what)


async def list_groups(
    cluster: ClusterClient, *, states: Collection[str] = (), types: Collection[str] = ()
) -> list[ListedGroup]:
    """All groups by id, or those in these states (``Stable`` …) and of these types (``classic`` …)."""
    request = ListGroupsRequest(states_filter=as_list(states), types_filter=as_list(types))
    metadata = await cluster.retry(lambda: cluster.refresh(()))

    async def ask(node: NodeId) -> list[ListedGroup]:
        reply = await cluster.ask(node, request, ListGroupsResponse, check=_listed)
        return [
            ListedGroup(GroupId(one.group_id), one.protocol_type, one.group_state, one.group_type, node)
            for one in reply.groups
        ]

    listings = await asyncio.gather(*(ask(node) for node in metadata.nodes))
    return sorted(group for listing in listings for group in listing)


def _listed(reply: ListGroupsResponse) -> None:
    check(reply.error_code, "list groups")


async def find_coordinator(cluster: ClusterClient, group_id: str) -> Node:
    """The broker that coordinates a group."""
    return await cluster.retry(lambda: cluster.find_coordinator(CoordinatorOf(group_id)))


async def describe_groups(
    cluster: ClusterClient, group_ids: Collection[str]
) -> dict[GroupId, GroupInfo | BrokerError]:
    """State, members and assignment of these groups; the error of each that cannot be described."""
    described: dict[GroupId, GroupInfo | BrokerError] = {}
    for group_id in map(GroupId, as_list(group_ids)):
        try:
            described[group_id] = await _describe_group(cluster, group_id)
        except BrokerError as error:
            described[group_id] = error
    return described


async def _describe_group(cluster: ClusterClient, group_id: str) -> GroupInfo:
    """As Kafka's own tools do: ask for a KIP-848 group first, then for a classic one."""
    coordinator = CoordinatorOf(group_id)
    connection = await cluster.retry(lambda: cluster.connection(coordinator))
    if ApiKey.CONSUMER_GROUP_DESCRIBE in connection.api_versions:
        found = await _describe_consumer_group(cluster, coordinator)
        if found is not None:
            return found
    what = f"describe group {group_id!r}"

    def answered(reply: DescribeGroupsResponse) -> None:
        check(reply.groups[0].error_code, what, reply.groups[0].error_message)

    request = DescribeGroupsRequest(groups=[group_id])
    reply = await cluster.ask(coordinator, request, DescribeGroupsResponse, check=answered)
    return classic_group(reply.groups[0], await find_coordinator(cluster, coordinator.key))


async def _describe_consumer_group(cluster: ClusterClient, coordinator: CoordinatorOf) -> GroupInfo | None:
    no_such = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)

    def answered(reply: ConsumerGroupDescribeResponse) -> None:
        group = reply.groups[0]
        if group.error_code not in no_such:
            check(group.error_code, f"describe group {coordinator.key!r}", group.error_message)

    request = ConsumerGroupDescribeRequest(group_ids=[coordinator.key])
    reply = await cluster.ask(coordinator, request, ConsumerGroupDescribeResponse, check=answered)
    group = reply.groups[0]
    if group.error_code:
        return None
    return consumer_group(group, await find_coordinator(cluster, coordinator.key))


async def list_group_offsets(
    cluster: ClusterClient,
    group_id: str,
    partitions: Collection[AnyPartition] | None = None,
    *,
    require_stable: bool = False,
) -> dict[TopicPartition, CommittedOffset]:
    """What a group has committed, for these partitions or for all; nothing for one without a commit."""
    what = f"list the offsets of group {group_id!r}"

    def answered(reply: OffsetFetchResponse) -> None:
        check(fetched_code(reply), what)
        for partition, row in fetched_rows(reply):
            check(row.error_code, f"{what} for {partition}")

    wanted = None if partitions is None else as_partitions(partitions)
    request = offset_fetch_request(group_id, wanted, require_stable=require_stable)
    reply = await cluster.ask(
        CoordinatorOf(group_id), request, OffsetFetchResponse, check=answered, highest=OFFSETS_BY_NAME
    )
    return {
        partition: CommittedOffset(
            Offset(row.committed_offset), LeaderEpoch(row.committed_leader_epoch), row.metadata or ""
        )
        for partition, row in fetched_rows(reply)
        if row.committed_offset >= 0
    }


async def alter_group_offsets(
    cluster: ClusterClient, group_id: str, offsets: Mapping[PartitionKey, CommittedOffset | int]
) -> dict[TopicPartition, BrokerError | None]:
    """Commit for a group that has no members; a number is the next offset to read."""
    what = f"set the offsets of group {group_id!r}"
    committed = {
        partition: CommittedOffset(Offset(offset)) if isinstance(offset, int) else offset
        for partition, offset in keyed_by_partition(offsets).items()
    }
    request = offset_commit_request(group_id, committed)

    def at_coordinator(reply: OffsetCommitResponse) -> None:
        _at_coordinator((one.error_code for topic in reply.topics for one in topic.partitions), what)

    reply = await cluster.ask(
        CoordinatorOf(group_id), request, OffsetCommitResponse, check=at_coordinator, highest=OFFSETS_BY_NAME
    )
    return {
        partition: outcome(one.error_code, f"{what} for {partition}")
        for topic in reply.topics
        for one in topic.partitions
        for partition in [TopicPartition(TopicName(topic.name), Partition(one.partition_index))]
    }


async def delete_groups(
    cluster: ClusterClient, group_ids: Collection[str]
) -> dict[GroupId, BrokerError | None]:
    """Delete groups that have no members; by id None, or why not."""

    async def delete(group_id: str) -> BrokerError | None:
        what = f"delete group {group_id!r}"

        def at_coordinator(reply: DeleteGroupsResponse) -> None:
            _at_coordinator((one.error_code for one in reply.results), what)

        request = DeleteGroupsRequest(groups_names=[group_id])
        reply = await cluster.ask(
            CoordinatorOf(group_id), request, DeleteGroupsResponse, check=at_coordinator
        )
        return outcome(reply.results[0].error_code, what)

    ids = [GroupId(group_id) for group_id in as_list(group_ids)]
    return dict(zip(ids, await asyncio.gather(*map(delete, ids)), strict=True))


async def delete_group_offsets(
    cluster: ClusterClient, group_id: str, partitions: Collection[AnyPartition]
) -> dict[TopicPartition, BrokerError | None]:
    """Delete what a group has committed for these partitions; by partition None, or why not."""
    what = f"delete offsets of group {group_id!r}"
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequestPartition(partition_index=number) for number in numbers],
            )
            for topic, numbers in by_topic(as_partitions(partitions)).items()
        ],
    )

    def answered(reply: OffsetDeleteResponse) -> None:
        check(reply.error_code, what)

    reply = await cluster.ask(CoordinatorOf(group_id), request, OffsetDeleteResponse, check=answered)
    return {
        partition: outcome(one.error_code, f"{what} for {partition}")
        for topic in reply.topics
        for one in topic.partitions
        for partition in [TopicPartition(TopicName(topic.name), Partition(one.partition_index))]
    }


# What consumers put into assignments; Connect and others write blobs of their own there.
_CONSUMER_PROTOCOL = ("consumer", "")


def classic_group(group: DescribedGroup, coordinator: Node) -> GroupInfo:
    readable = group.protocol_type in _CONSUMER_PROTOCOL
    return GroupInfo(
        group_id=GroupId(group.group_id),
        type="classic",
        state=group.group_state,
        protocol_type=group.protocol_type,
        assignor=group.protocol_data,
        coordinator=coordinator,
        members=tuple(_classic_member(member, readable) for member in group.members),
    )


def _classic_member(member: DescribedGroupMember, readable: bool) -> MemberInfo:
    return MemberInfo(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        assignment=read_assignment(member.member_assignment) if readable else (),
    )


def read_assignment(blob: bytes) -> tuple[TopicPartition, ...]:
    """The partitions in a member's assignment; none if it is empty or of a format that is not ours."""
    try:
        return tuple(sorted(decode_assignment(blob).partitions))
    except ProtocolError:
        return ()


def consumer_group(group: DescribedConsumerGroup, coordinator: Node) -> GroupInfo:
    return GroupInfo(
        group_id=GroupId(group.group_id),
        type="consumer",
        state=group.group_state,
        protocol_type="consumer",
        assignor=group.assignor_name,
        coordinator=coordinator,
        members=tuple(_consumer_member(member) for member in group.members),
        epoch=group.group_epoch,
        target_epoch=group.assignment_epoch,
    )


def _consumer_member(member: Member) -> MemberInfo:
    return MemberInfo(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        assignment=_partitions(member.assignment),
        target=_partitions(member.target_assignment),
        epoch=member.member_epoch,
        subscribed=tuple(member.subscribed_topic_names),
        expression=member.subscribed_topic_regex or "",
        protocol="classic" if member.member_type == 0 else "consumer",
    )


def _partitions(assignment: Assignment | None) -> tuple[TopicPartition, ...]:
    if assignment is None:
        return ()
    return tuple(
        sorted(
            TopicPartition(TopicName(topic.topic_name), Partition(number))
            for topic in assignment.topic_partitions
            for number in topic.partitions
        )
    )
