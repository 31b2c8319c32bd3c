"""ConsumerGroupHeartbeat: join, go on, or leave (modern-groups 3 to 9)."""

from typing import NamedTuple

from kohort.assign.server.group import TopicPartitions
from kohort.groups.commands import ConsumerHeartbeat
from kohort.groups.consumer.assignment import JOINING, LEFT_FOR_A_WHILE, CurrentAssignment, contains
from kohort.groups.consumer.events import ConsumerMemberDetails
from kohort.groups.consumer.expressions import maybe_resolve
from kohort.groups.consumer.leave import leave_consumer_group
from kohort.groups.consumer.migration import draft, plan_upgrade, upgrade
from kohort.groups.consumer.state import ConsumerGroup, ConsumerMember
from kohort.groups.consumer.timers import (
    JOIN_AWAITED,
    SYNC_AWAITED,
    await_revocation,
    cancel_timers,
    has_come,
    start_session,
)
from kohort.groups.consumer.update import FRESH, MemberUpdate, update_member
from kohort.groups.events import DurableEvent
from kohort.groups.outcome import Outcome
from kohort.groups.replies import AssignedTopic, ConsumerHeartbeatReply
from kohort.groups.sessions import extend_session
from kohort.groups.state import State
from kohort.groups.validate import UNCHANGED, check_consumer_heartbeat
from kohort.model.errors import ErrorCode
from kohort.model.ids import Instant, MemberId


class _Refusal(NamedTuple):
    error: ErrorCode
    message: str


class _FoundGroup(NamedTuple):
    """The group, as it is after the events that make it of a classic one, if there are any."""

    group: ConsumerGroup
    conversion: tuple[DurableEvent, ...] = ()


def consumer_heartbeat(command: ConsumerHeartbeat, out: Outcome) -> None:
    """Decide a heartbeat. A refused one changes nothing."""
    invalid = check_consumer_heartbeat(command, out.state.settings)
    if invalid is not None:
        out.reply(command.reply_to, invalid)
    elif command.member_epoch < JOINING:
        leave_consumer_group(command, out)
    else:
        _beat(command, out)


def answer_quiet_heartbeat(state: State, command: ConsumerHeartbeat, now: Instant) -> int | None:
    """The heartbeat of a member that says nothing new and has no news to hear: it stays alive.

    Returns the interval to its next one. ``None`` if there may be more to do; nothing is done then.
    """
    group_id, member_id = command.group_id, command.member_id
    group = state.groups.get(group_id)
    if not isinstance(group, ConsumerGroup) or command.member_epoch <= JOINING:
        return None
    member = group.members.get(member_id)
    if (
        member is None
        or command.member_epoch != member.current.member_epoch
        or not member.current.is_reconciled(group.target_epoch)
        or group.epoch != group.target_epoch
        or group.seen_changes != state.topics.changes
        or _details(group, member_id, member, command) is not member.details
        or group.used_expressions()
        or state.positions.of(group_id)
    ):
        return None
    timeout = state.session_timeout_ms(group_id)
    if not extend_session(state, group_id, member_id, timeout, now):
        return None
    return state.heartbeat_interval_ms(group_id)


def quiet_reply(command: ConsumerHeartbeat, interval_ms: int) -> ConsumerHeartbeatReply:
    """The answer to such a heartbeat."""
    return ConsumerHeartbeatReply(
        member_id=command.member_id, member_epoch=command.member_epoch, heartbeat_interval_ms=interval_ms
    )


def _beat(command: ConsumerHeartbeat, out: Outcome) -> None:
    interval = answer_quiet_heartbeat(out.state, command, out.now.instant)
    if interval is not None:
        out.reply(command.reply_to, quiet_reply(command, interval))
        return
    found = _find_group(command, out)
    if isinstance(found, _Refusal):
        _refuse(command, found, out)
        return
    group = found.group
    member_id = command.member_id or MemberId(command.fresh_id)
    member = _find_member(group, member_id, command)
    if isinstance(member, _Refusal):
        _refuse(command, member, out)
        return
    details = _details(group, member_id, member, command)
    refusal = _check_expression(group, details, command)
    if refusal is None and not group.has_room(member_id, details, out.state.settings.max_bytes):
        message = f"The members of group {group.group_id} take too much memory."
        refusal = _Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, message)
    if refusal is not None:
        _refuse(command, refusal, out)
        return
    if found.conversion:
        group = upgrade(command.group_id, found.conversion, out) or group
    update = MemberUpdate(
        group=group, member_id=member_id, details=details, owned=_owned(command), replaced=member
    )
    _update(command, update, out)


def _refuse(command: ConsumerHeartbeat, refusal: _Refusal, out: Outcome) -> None:
    reply = ConsumerHeartbeatReply(error=refusal.error, error_message=refusal.message)
    out.reply(command.reply_to, reply)


# --- the group and the member (modern-groups 4) -------------------------------------------------------------


def _find_group(command: ConsumerHeartbeat, out: Outcome) -> _FoundGroup | _Refusal:
    """The group to use: one that is there, or one that the first events make."""
    group_id = command.group_id
    present = out.state.groups.get(group_id)
    if isinstance(present, ConsumerGroup):
        found = _FoundGroup(present)
    elif command.member_epoch != JOINING:
        what = "not found" if present is None else "not a consumer group"
        return _Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is {what}.")
    elif present is None:
        found = _FoundGroup(ConsumerGroup(group_id=group_id))
    else:
        conversion = plan_upgrade(present, command.member_id, out)
        if isinstance(conversion, str):
            return _Refusal(ErrorCode.GROUP_ID_NOT_FOUND, conversion)
        found = _FoundGroup(draft(group_id, conversion, out), conversion)
    if _is_full(found.group, command, out.state.settings.consumer_max_size):
        return _Refusal(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {out.state.settings.consumer_max_size}"
            " members.",
        )
    return found


def _is_full(group: ConsumerGroup, command: ConsumerHeartbeat, max_size: int) -> bool:
    is_known = command.member_id in group.members or command.instance_id in group.instances
    return len(group.members) >= max_size and not is_known


def _find_member(
    group: ConsumerGroup, member_id: MemberId, command: ConsumerHeartbeat
) -> ConsumerMember | _Refusal | None:
    """The static member that this one replaces, if it does; or why the request is refused."""
    epoch, instance = command.member_epoch, command.instance_id
    if instance is None:
        member = group.members.get(member_id)
        if member is None:
            return None if epoch == JOINING else _unknown(group, member_id)
        return _check_epoch(member, command)
    owner = group.instances.get(instance)
    if owner is None:
        if epoch == JOINING:
            return None
        return _Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance} is unknown.")
    old = group.members[owner]
    if epoch == JOINING:
        if old.current.member_epoch != LEFT_FOR_A_WHILE and not old.is_classic:
            return _Refusal(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance} cannot join the group because the "
                f"instance id is used by another member {owner}.",
            )
        return old
    if owner != member_id:
        return _Refusal(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance} was fenced by member {owner}.",
        )
    return _check_epoch(old, command)


def _unknown(group: ConsumerGroup, member_id: MemberId) -> _Refusal:
    return _Refusal(
        ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}."
    )


def _check_epoch(member: ConsumerMember, command: ConsumerHeartbeat) -> _Refusal | None:
    received, current = command.member_epoch, member.current
    if received in (JOINING, current.member_epoch):
        return None
    if received > current.member_epoch:
        return _Refusal(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a greater member epoch ({received}) than the one known by the "
            f"group coordinator ({current.member_epoch}). The member must abandon all its partitions and "
            "rejoin.",
        )
    owned = _owned(command)
    if received == current.previous_epoch and owned is not None and contains(current.assigned, owned):
        return None  # the reply with the newer epoch was lost
    return _Refusal(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a smaller member epoch ({received}) than the one known by the group "
        f"coordinator ({current.member_epoch}). The member must abandon all its partitions and rejoin.",
    )


def _check_expression(
    group: ConsumerGroup, details: ConsumerMemberDetails, command: ConsumerHeartbeat
) -> _Refusal | None:
    """An expression that a member uses already was compiled then, and is not looked at again."""
    if not command.expression or command.expression_error is None or group.users_of(details.expression):
        return None
    return _Refusal(
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        f"SubscribedTopicRegex `{command.expression}` is not a valid regular expression: "
        f"{command.expression_error}.",
    )


# --- what the request says ------------------------------------------------------------------------


def _details(
    group: ConsumerGroup, member_id: MemberId, replaced: ConsumerMember | None, command: ConsumerHeartbeat
) -> ConsumerMemberDetails:
    known = replaced or group.members.get(member_id)
    details = known.details if known is not None else FRESH
    if (
        command.names is None
        and command.expression is None
        and command.client_id == details.client_id
        and command.client_host == details.client_host
        and command.rebalance_timeout_ms == UNCHANGED
        and command.rack_id is None
        and command.server_assignor is None
        and command.instance_id in (None, details.instance_id)
        and details.classic is None
    ):
        return details
    return details._replace(
        instance_id=command.instance_id or details.instance_id,
        rack_id=command.rack_id or details.rack_id,
        client_id=command.client_id,
        client_host=command.client_host,
        names=details.names if command.names is None else tuple(sorted(set(command.names))),
        expression=details.expression if command.expression is None else command.expression,
        rebalance_timeout_ms=(
            details.rebalance_timeout_ms
            if command.rebalance_timeout_ms == UNCHANGED
            else command.rebalance_timeout_ms
        ),
        server_assignor=command.server_assignor or details.server_assignor,
        classic=None,
    )


def _owned(command: ConsumerHeartbeat) -> TopicPartitions | None:
    if command.owned is None:
        return None
    return {topic: frozenset(numbers) for topic, numbers in command.owned if numbers}


def _says_everything(command: ConsumerHeartbeat) -> bool:
    """Whether the request says everything about the member: it wants everything in return."""
    return (
        command.rebalance_timeout_ms != UNCHANGED
        and (command.names is not None or command.expression is not None)
        and command.owned is not None
    )


# --- what follows ---------------------------------------------------------------------------------


def _update(command: ConsumerHeartbeat, update: MemberUpdate, out: Outcome) -> None:
    group_id, member_id = command.group_id, update.member_id
    known = update.known
    before = known.current if known is not None else None
    settled = update_member(update, out)
    if isinstance(settled, ErrorCode):
        message = f"The assignment of group {group_id} could not be made."
        _refuse(command, _Refusal(settled, message), out)
        return
    group = out.state.consumer(group_id)
    assert group is not None
    keep_alive(update, before, out)
    maybe_resolve(group, command, out)
    shows = (
        command.member_epoch == JOINING
        or _says_everything(command)
        or before is None
        or before.assigned != settled.assigned
    )
    reply = ConsumerHeartbeatReply(
        member_id=member_id,
        member_epoch=settled.member_epoch,
        heartbeat_interval_ms=out.state.heartbeat_interval_ms(group_id),
        assignment=show_assignment(settled.assigned) if shows else None,
    )
    out.reply(command.reply_to, reply, out.rests_on(group_id))


def keep_alive(update: MemberUpdate, before: CurrentAssignment | None, out: Outcome) -> None:
    """Start the timers of a member that was heard; those of a member that it replaced end."""
    state, now = out.state, out.now.instant
    group = state.consumer(update.group.group_id)
    assert group is not None
    member = group.members[update.member_id]
    if update.replaced is not None and update.replaced.member_id != update.member_id:
        cancel_timers(state, group, update.replaced.member_id)
    if update.replaced is not None or member.current is not before:
        await_revocation(state, group, member, now)
    for awaited in (JOIN_AWAITED, SYNC_AWAITED):
        has_come(state, group, update.member_id, awaited)
    start_session(state, group, member, now)


def show_assignment(assigned: TopicPartitions) -> tuple[AssignedTopic, ...]:
    """An assignment in order."""
    return tuple(AssignedTopic(topic, tuple(sorted(assigned[topic]))) for topic in sorted(assigned))
