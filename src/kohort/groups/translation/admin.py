"""DescribeGroups (15), ListGroups (16), DeleteGroups (42): what administrators ask of groups of any kind."""

from kohort.groups.commands import DeleteGroups, DescribeGroup, ListGroups
from kohort.groups.replies import DeletedGroup, DescribeReply, GroupListing
from kohort.model.ids import GroupId, ReplyTo
from kohort.wire.messages.delete_groups import DeletableGroupResult
from kohort.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from kohort.wire.messages.list_groups import ListedGroup, ListGroupsRequest


def list_command(request: ListGroupsRequest, reply_to: ReplyTo) -> ListGroups:
    return ListGroups(
        reply_to=reply_to, states=tuple(request.states_filter), types=tuple(request.types_filter)
    )


def listed_group(group: GroupListing) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type,
        group_state=group.state,
        group_type=group.type,
    )


def describe_command(group: str, version: int, reply_to: ReplyTo) -> DescribeGroup:
    return DescribeGroup(reply_to=reply_to, group_id=GroupId(group), version=version)


def described_group(group: str, reply: DescribeReply) -> DescribedGroup:
    return DescribedGroup(
        error_code=reply.error,
        error_message=reply.error_message,
        group_id=group,
        group_state=reply.state,
        protocol_type=reply.protocol_type,
        protocol_data=reply.protocol,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in reply.members
        ],
    )


def delete_command(group: str, reply_to: ReplyTo) -> DeleteGroups:
    return DeleteGroups(reply_to=reply_to, group_ids=(GroupId(group),))


def deleted_group(group: DeletedGroup) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group.group_id, error_code=group.error)
