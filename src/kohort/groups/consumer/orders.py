"""What the shell tells a shard of consumer groups, and timers that fired."""

from kohort.groups.causes import Cause, ClassicMemberTimedOut, RevocationTimedOut, SessionExpired
from kohort.groups.commands import (
    ExpireClassicMember,
    ExpireRevocation,
    ExpireSession,
    GroupConfigured,
    TopicsChanged,
)
from kohort.groups.consumer.migration import remove_or_downgrade
from kohort.groups.consumer.state import ConsumerGroup, ConsumerMember
from kohort.groups.consumer.timers import await_revocation, start_session
from kohort.groups.outcome import Outcome


def topics_changed(command: TopicsChanged, out: Outcome) -> None:
    """Know the topics; groups look at them with the next heartbeat of a member."""
    out.state.topics.put(command.topics, command.version)


def group_configured(command: GroupConfigured, out: Outcome) -> None:
    """Know the values; they count from the next heartbeat of each member on."""
    out.state.configs[command.group_id] = command


def expire_consumer_session(group: ConsumerGroup, command: ExpireSession, out: Outcome) -> None:
    """Nothing was heard of a member for its session timeout."""
    member = group.members.get(command.member_id)
    if member is not None:
        silent = out.now.instant - (command.deadline - command.timeout_ms)
        cause = SessionExpired(command.member_id, silent, command.timeout_ms)
        _remove(group, member, cause, out)


def expire_revocation(command: ExpireRevocation, out: Outcome) -> None:
    """A member that still has to give up partitions goes; one that has moved on stays."""
    group = out.state.consumer(command.group_id)
    member = None if group is None else group.members.get(command.member_id)
    if group is None or member is None or member.current.member_epoch != command.member_epoch:
        return
    partitions = sum(map(len, member.current.pending_revocation.values()))
    cause = RevocationTimedOut(command.member_id, command.timeout_ms, partitions)
    _remove(group, member, cause, out)


def expire_classic_member(command: ExpireClassicMember, out: Outcome) -> None:
    """A classic member did not send what was waited for."""
    group = out.state.consumer(command.group_id)
    member = None if group is None else group.members.get(command.member_id)
    if group is not None and member is not None:
        cause = ClassicMemberTimedOut(command.member_id, command.awaited, command.timeout_ms)
        _remove(group, member, cause, out)


def _remove(group: ConsumerGroup, member: ConsumerMember, cause: Cause, out: Outcome) -> None:
    """Take a member out; if the log cannot store that now, its time begins again."""
    if remove_or_downgrade(group, (member,), cause, out):
        start_session(out.state, group, member, out.now.instant)
        await_revocation(out.state, group, member, out.now.instant)
