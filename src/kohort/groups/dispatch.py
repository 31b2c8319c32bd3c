"""Which handler decides which command."""

from collections.abc import Callable
from typing import Any

from kohort.groups.admin import delete_groups, list_groups
from kohort.groups.classic.admin import describe_group
from kohort.groups.classic.expiry import expire_session, expire_sync
from kohort.groups.classic.heartbeat import heartbeat
from kohort.groups.classic.join import join
from kohort.groups.classic.leave import leave
from kohort.groups.classic.sync import sync
from kohort.groups.commands import (
    Command,
    CommitOffsets,
    ConsumerHeartbeat,
    DeleteGroups,
    DeleteOffsets,
    DescribeConsumerGroup,
    DescribeGroup,
    ExpireClassicMember,
    ExpireRevocation,
    ExpireSession,
    ExpireSync,
    ExpressionsResolved,
    FetchOffsets,
    GroupConfigured,
    Heartbeat,
    Join,
    Leave,
    ListGroups,
    Resume,
    SweepOffsets,
    Sync,
    TargetReady,
    TopicDeleted,
    TopicsChanged,
    Unload,
)
from kohort.groups.consumer.admin import describe_consumer_group
from kohort.groups.consumer.assigning import target_ready
from kohort.groups.consumer.expressions import expressions_resolved
from kohort.groups.consumer.heartbeat import consumer_heartbeat
from kohort.groups.consumer.orders import (
    expire_classic_member,
    expire_revocation,
    group_configured,
    topics_changed,
)
from kohort.groups.offsets.commit import commit_offsets
from kohort.groups.offsets.delete import delete_offsets, delete_topic
from kohort.groups.offsets.fetch import fetch_offsets
from kohort.groups.offsets.retention import sweep_offsets
from kohort.groups.outcome import Outcome
from kohort.groups.sessions import resume
from kohort.groups.unload import unload

HANDLERS: dict[type[Command], Callable[[Any, Outcome], None]] = {
    Join: join,
    Sync: sync,
    Heartbeat: heartbeat,
    Leave: leave,
    ConsumerHeartbeat: consumer_heartbeat,
    CommitOffsets: commit_offsets,
    FetchOffsets: fetch_offsets,
    DeleteOffsets: delete_offsets,
    ListGroups: list_groups,
    DescribeGroup: describe_group,
    DescribeConsumerGroup: describe_consumer_group,
    DeleteGroups: delete_groups,
    TopicsChanged: topics_changed,
    TopicDeleted: delete_topic,
    GroupConfigured: group_configured,
    ExpressionsResolved: expressions_resolved,
    TargetReady: target_ready,
    SweepOffsets: sweep_offsets,
    Resume: resume,
    Unload: unload,
    ExpireSession: expire_session,
    ExpireSync: expire_sync,
    ExpireRevocation: expire_revocation,
    ExpireClassicMember: expire_classic_member,
}


def dispatch(command: Command, out: Outcome) -> None:
    """Handle a command; what it led to is in ``out``."""
    HANDLERS[type(command)](command, out)
